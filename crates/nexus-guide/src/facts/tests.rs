use super::*;

#[track_caller]
fn names(sentence: &str, agent: Option<&str>, user: Option<&str>) {
    let heard = listen(sentence);
    let person = heard.user_name.or(heard.call);
    assert_eq!((heard.agent_name.as_deref(), person.as_deref()), (agent, user), "{sentence}");
}

#[test]
fn names_are_heard_in_many_shapes() {
    names("Call yourself Atlas and I'm Sam", Some("Atlas"), Some("Sam"));
    names("call yourself atlas, i'm sam", Some("Atlas"), Some("Sam"));
    names("I'm Sam and you're Atlas", Some("Atlas"), Some("Sam"));
    names("My name is Ana María de la Cruz.", None, Some("Ana María de la Cruz"));
    names("you can call me Dr. Strange", None, Some("Dr. Strange"));
    names("your name is \"Mr. Bean\" and mine is Tom", Some("Mr. Bean"), Some("Tom"));
    names("I'll call you HAL 9000", Some("HAL 9000"), None);
    names("you: Nova, me: Kim", Some("Nova"), Some("Kim"));
    names("how about Juniper?", Some("Juniper"), None);
    names("Sam here!", None, Some("Sam"));
    names("Echo sounds good", Some("Echo"), None);
    names("im sam smith", None, Some("Sam Smith"));
    names("CALL YOURSELF ATLAS", Some("ATLAS"), None);
    names("Please call me Will", None, Some("Will"));
}

#[test]
fn statements_are_not_names() {
    for sentence in [
        "I'm fine",
        "i am a developer",
        "I'm from Berlin",
        "you are funny",
        "you're great",
        "I'm not sure",
        "I am looking for help",
        "this is nice",
        "how about you?",
        "what about tomorrow",
        "I'm very tired today",
        "call me later",
        "I am 30 years old",
        "you are an owl",
        "i'm happy to meet you",
        "let's go with something else",
    ] {
        let heard = listen(sentence);
        let taken = (heard.agent_name.clone(), heard.user_name.clone(), heard.call);
        assert!(taken.0.is_none() && taken.1.is_none(), "{sentence}: {taken:?}");
    }
}

#[test]
fn bare_answers() {
    assert_eq!(bare_names("Atlas"), ["Atlas"]);
    assert_eq!(bare_names("hmm, nova!"), ["Nova"]);
    assert_eq!(bare_names("Atlas and Sam"), ["Atlas", "Sam"]);
    assert_eq!(bare_names("Atlas, Sam"), ["Atlas", "Sam"]);
    assert_eq!(bare_names("the weather is nice"), Vec::<String>::new());
    assert_eq!(bare_names("what"), Vec::<String>::new());
}

#[test]
fn manners_creatures_and_the_rest() {
    let heard = listen("Be calm and a bit playful, but not too formal");
    assert_eq!(heard.manners, ["calm", "playful", "not formal"]);
    assert_eq!(listen("You are an owl").creature.as_deref(), Some("owl"));
    assert_eq!(listen("Your emoji is 🦉").emoji.as_deref(), Some("🦉"));
    assert_eq!(listen("My timezone is Europe/Berlin").timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(listen("write to sam@example.org").email.as_deref(), Some("sam@example.org"));
    assert_eq!(listen("I'm Sam and I like short answers").user_name.as_deref(), Some("Sam"));
    assert_eq!(
        listen("I'm a developer from Berlin").about_person.as_deref(),
        Some("I'm a developer from Berlin")
    );
    assert!(listen("you choose").leaves_it);
    assert!(listen("I'd rather not say").declines);
    assert_eq!(listen("I am a calm person").manners, Vec::<String>::new());
}

#[test]
fn pasted_keys_are_not_heard() {
    let key = format!("sk-ant-{}", "a1".repeat(12));
    assert_eq!(listen(&format!("I like {key}")), Heard::default());
}
