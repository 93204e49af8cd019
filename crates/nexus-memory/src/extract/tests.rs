use nexus_base::clock::Timestamp;

use super::*;

fn at() -> Timestamp {
    Timestamp::parse("2026-03-18T10:00:00").unwrap()
}

fn facts(text: &str) -> Vec<String> {
    let utterance = Utterance { text: text.to_owned(), voice: Voice::Owner, at: at(), event: None };
    extract(&utterance, "Ada").into_iter().map(|fact| fact.text).collect()
}

#[test]
fn plain_statements_become_sentences_in_the_third_person() {
    let check = |text: &str, expected: &[&str]| assert_eq!(facts(text), expected, "{text}");
    check("I live in Lisbon and I work at a bakery.", &["Ada lives in Lisbon.", "Ada works at a bakery."]);
    check("My sister Grace lives in Oslo!", &["Ada's sister Grace lives in Oslo."]);
    check("my dog is called Rex", &["Ada's dog is called Rex."]);
    check("I really love black coffee.", &["Ada really loves black coffee."]);
    check("I don't eat meat", &["Ada doesn't eat meat."]);
    check("My favourite colour is green.", &["Ada's favourite colour is green."]);
    check("I'm allergic to peanuts.", &["Ada is allergic to peanuts."]);
    check("Grace is my boss.", &["Grace is Ada's boss."]);
    check("I'm a nurse.", &["Ada is a nurse."]);
    check("Remember that the spare key is with Grace.", &["The spare key is with Grace."]);
    check("Hi, my name is Ada Lovelace.", &["The owner is called Ada Lovelace."]);
    check("I will call you Atlas", &["The assistant is called Atlas."]);
}

#[test]
fn relative_dates_are_written_out() {
    let check = |text: &str, expected: &str| assert_eq!(facts(text), [expected], "{text}");
    check("I went to the dentist yesterday.", "Ada went to the dentist on 2026-03-17.");
    check("I have a flight to Rome next Friday", "Ada has a flight to Rome on 2026-03-20.");
    check("I moved to Berlin three years ago", "Ada moved to Berlin in 2023.");
    check("My birthday is tomorrow!", "Ada's birthday is on 2026-03-19.");
    check("I met Grace last month", "Ada met Grace in February 2026.");
    let utterance = Utterance {
        text: "I went to the dentist yesterday.".to_owned(),
        voice: Voice::Owner,
        at: at(),
        event: None,
    };
    assert_eq!(extract(&utterance, "Ada")[0].as_of, Timestamp::parse("2026-03-17T12:00:00").unwrap());
}

#[test]
fn what_is_no_durable_statement_is_left_alone() {
    for text in [
        "",
        "How do I get to Lisbon?",
        "I think it will rain.",
        "I want you to summarise this.",
        "I would like you to call Grace",
        "fix the build { I like }",
        "Thanks, that was helpful!",
        "You are doing great",
        "What is my name?",
        "the quick brown fox",
        "I love it!",
        "Run the tests again.",
    ] {
        assert_eq!(facts(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn only_people_have_a_first_person() {
    for voice in [Voice::Agent, Voice::Untrusted] {
        let utterance =
            Utterance { text: "I live in Lisbon. My name is Eve.".to_owned(), voice, at: at(), event: None };
        assert_eq!(extract(&utterance, "x"), []);
    }
}

#[test]
fn names_and_relations_are_told_apart() {
    let extracted = |text: &str| {
        let utterance = Utterance { text: text.to_owned(), voice: Voice::Owner, at: at(), event: None };
        extract(&utterance, "Ada").pop().unwrap()
    };
    let sister = extracted("My sister Grace Hopper lives in Oslo");
    assert_eq!(sister.kind, FactKind::Relation);
    assert_eq!(sister.mentions[0].name, "Grace Hopper");
    assert_eq!(sister.mentions[0].relation.as_deref(), Some("sister"));
    let home = extracted("I live in New York");
    assert_eq!(
        (home.kind, home.mentions[0].name.as_str(), home.mentions[0].kind),
        (FactKind::Place, "New York", "place")
    );
    assert_eq!(extracted("I'm Ada").speaker_name.as_deref(), Some("Ada"));
    assert_eq!(extracted("your name is Atlas").mentions[0].kind, "persona");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]

    #[test]
    fn any_text_is_read_without_harm(text in "(I |my |My sister |'m |yesterday|last |[A-Z][a-z]{1,6} |ß|é|’s |in |is |[ .,!?;\n]|\\PC){0,40}") {
        for fact in facts(&text) {
            proptest::prop_assert!(!fact.trim().is_empty());
        }
    }
}
