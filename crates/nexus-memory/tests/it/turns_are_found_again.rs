use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::id::EventId;
use nexus_memory::{Budget, Memory, Provenance, RecallRequest, Recalled, Scope, Viewer};
use nexus_store::identity::OWNER_ID;
use nexus_store::{OpenMode, Store};

use crate::support::{Place, owner_says};

fn turns(query: &str) -> RecallRequest {
    RecallRequest::new(query).scope(Scope::TURNS).limit(5)
}

async fn first(place: &Place, query: &str) -> Recalled {
    place.recall(turns(query)).await.into_iter().next().unwrap_or_else(|| panic!("{query}: nothing found"))
}

/// Two people over three days, written for this test.
async fn two_people(place: &Place) {
    for (sender, text, at) in [
        ("Ines", "Morning! How was the pottery class?", "2026-01-10T09:00:00"),
        ("Tomas", "Great, I made a blue bowl with a crooked rim.", "2026-01-10T09:01:00"),
        ("Ines", "I ran the half marathon in Porto on Sunday.", "2026-01-10T09:02:00"),
        ("Tomas", "Where did you stay?", "2026-01-10T09:03:00"),
        ("Ines", "With my aunt, near the river.", "2026-01-10T09:04:00"),
        ("Tomas", "My telescope arrived today, I saw the rings of Saturn!", "2026-02-14T20:00:00"),
        ("Ines", "I signed up for a choir, we rehearse on Tuesdays.", "2026-02-14T20:01:00"),
        ("Tomas", "I am painting the kitchen yellow.", "2026-03-03T18:00:00"),
        ("Ines", "I finally adopted a greyhound called Juno.", "2026-03-03T18:01:00"),
    ] {
        place.said("two", sender, text, at).await;
    }
}

#[tokio::test]
async fn conversations_of_two_people_answer_questions() {
    let place = Place::new().await;
    two_people(&place).await;
    for (question, answer) in [
        ("What did Tomas make in the class?", "Great, I made a blue bowl with a crooked rim."),
        ("Where did Ines stay in Porto?", "With my aunt, near the river."),
        ("Which pet does Ines have?", "I finally adopted a greyhound called Juno."),
        ("What colour is the kitchen of Tomas?", "I am painting the kitchen yellow."),
        ("What did Tomas look at in the sky?", "My telescope arrived today, I saw the rings of Saturn!"),
        ("What did Ines tell in February 2026?", "I signed up for a choir, we rehearse on Tuesdays."),
    ] {
        let found = place.recall(turns(question)).await;
        let texts: Vec<&str> = found.iter().take(3).map(|item| item.text.as_str()).collect();
        assert!(texts.contains(&answer), "{question}: {texts:?}");
    }
    let best = first(&place, "Where did Ines stay in Porto?").await;
    assert!(best.why.speaker > 0.0 && best.why.keyword > 0.0 && best.why.session > 0.0, "{:?}", best.why);
    assert!((0.0..=1.0).contains(&best.score));
    let dated = first(&place, "What did Ines tell in February 2026?").await;
    assert!(dated.why.date > 0.9, "{:?}", dated.why);
    place.store.close().await;
}

#[tokio::test]
async fn the_turn_before_lends_its_words() {
    let place = Place::new().await;
    two_people(&place).await;
    let found = place.recall(turns("pottery class")).await;
    let texts: Vec<&str> = found.iter().map(|item| item.text.as_str()).collect();
    assert!(texts[..2].contains(&"Great, I made a blue bowl with a crooked rim."), "{texts:?}");
    place.store.close().await;
}

#[tokio::test]
async fn speakers_do_not_count_in_a_chat_with_the_assistant() {
    let place = Place::new().await;
    for (sender, text) in [
        (OWNER_ID, "My name is Nexus Miller and I keep bees."),
        ("nexus", "Noted, you keep bees."),
        (OWNER_ID, "The honey is sold at the market in May."),
        ("nexus", "I will remember the market."),
    ] {
        place.said("dm", sender, text, "2026-03-01T10:00:00").await;
    }
    for question in
        ["What does nexus sell at the market?", "What did the owner say about honey?", "Who is entity-owner?"]
    {
        for item in place.recall(turns(question)).await {
            assert_eq!(item.why.speaker, 0.0, "{question}: {item:?}");
        }
    }
    let found = first(&place, "honey market").await;
    assert_eq!(found.provenance, Provenance::Owner);
    assert_eq!(found.speaker.as_deref(), Some("owner"));
    place.store.close().await;
}

#[tokio::test]
async fn the_question_itself_and_what_is_excepted_are_no_answers() {
    let place = Place::new().await;
    let known = place.said("dm", OWNER_ID, "The boiler was repaired by Novak.", "2026-03-01T10:00:00").await;
    place.said("dm", OWNER_ID, "Who repaired the boiler?", "2026-03-02T10:00:00").await;
    let found = place.recall(turns("who repaired the boiler")).await;
    assert_eq!(found.iter().map(|item| item.item.as_str()).collect::<Vec<_>>(), [known.as_str()]);
    let mut request = turns("who repaired the boiler");
    request.except = vec![known];
    assert_eq!(place.recall(request).await, []);
    place.store.close().await;
}

#[tokio::test]
async fn filters_budgets_and_other_scripts() {
    let place = Place::new().await;
    two_people(&place).await;
    place.said("jp", "Yuki", "祖母は東京に住んでいる", "2026-01-10T09:00:00").await;
    assert_eq!(first(&place, "東京").await.speaker.as_deref(), Some("Yuki"));
    assert_eq!(first(&place, "住んでいる").await.speaker.as_deref(), Some("Yuki"));
    let mut request = turns("kitchen telescope");
    request.before = Timestamp::parse("2026-03-01");
    request.after = Timestamp::parse("2026-02-01");
    let found = place.recall(request).await;
    assert_eq!(found[0].text, "My telescope arrived today, I saw the rings of Saturn!");
    assert!(found.iter().all(|item| !item.text.contains("kitchen")));
    let mut request = turns("telescope");
    request.platform = Some("elsewhere".to_owned());
    assert_eq!(place.recall(request).await, []);
    for budget in [Budget::Low, Budget::Mid, Budget::High] {
        let mut request = turns("looking at planets through a telescope");
        request.budget = budget;
        assert!(place.recall(request).await[0].text.contains("telescope"), "{budget:?}");
    }
    assert_eq!(place.recall(turns("quantum chromodynamics lecture")).await, [], "far is not near enough");
    place.store.close().await;
}

#[tokio::test]
async fn a_fact_leads_to_the_turn_it_was_learnt_from() {
    let place = Place::new().await;
    let event = place
        .said("dm", OWNER_ID, "We settled on the small one by the lake after all.", "2026-03-01T10:00:00")
        .await;
    place.said("dm", OWNER_ID, "The printer needs toner.", "2026-03-02T10:00:00").await;
    place
        .memory
        .remember("Ada rents a holiday cabin in Bled.", Some(event.clone()), Provenance::Owner)
        .await
        .unwrap();
    let found = place.recall(RecallRequest::new("Which holiday cabin does Ada rent?").limit(2)).await;
    assert_eq!(found[0].text, "Ada rents a holiday cabin in Bled.");
    assert_eq!(found[0].source_event.as_ref(), Some(&event));
    assert_eq!(found[1].item.as_str(), event.as_str());
    assert!(found[1].why.linked > 0.5, "{:?}", found[1].why);
    place.store.close().await;
}

#[tokio::test]
async fn causes_are_found_by_looking_hard() {
    let place = Place::new().await;
    let cause = place.memory.remember("The cellar was flooded.", None, Provenance::Owner).await.unwrap();
    let effect = place.memory.remember("Ada bought a pump.", None, Provenance::Owner).await.unwrap();
    place.memory.remember("Tea is green.", None, Provenance::Owner).await.unwrap();
    place.store.memory().link_cause(cause, effect, 0.9).await.unwrap();
    let mut request = RecallRequest::new("flooded cellar").scope(Scope::FACTS);
    let texts = |found: Vec<Recalled>| found.into_iter().map(|item| item.text).collect::<Vec<_>>();
    assert_eq!(texts(place.recall(request.clone()).await), ["The cellar was flooded."]);
    request.budget = Budget::High;
    assert_eq!(texts(place.recall(request).await), ["The cellar was flooded.", "Ada bought a pump."]);
    place.store.close().await;
}

#[tokio::test]
async fn vectors_survive_a_restart_and_are_let_go_when_idle() {
    let place = Place::new().await;
    two_people(&place).await;
    assert_eq!(place.memory.not_indexed().await.unwrap(), 9);
    let before = place.recall(turns("stars and planets at night")).await;
    assert_eq!(place.memory.not_indexed().await.unwrap(), 0);
    assert!(place.memory.rest(Duration::from_secs(3600)), "just used");
    place.memory.warm_up().await.unwrap();
    assert!(place.memory.is_warm());
    assert!(!place.memory.rest(Duration::ZERO), "idle");
    assert!(!place.memory.is_warm());
    assert_eq!(place.recall(turns("stars and planets at night")).await, before, "loaded again");
    place.store.close().await;
    let store = Store::open(place.folder.path(), OpenMode::ReadOnly).unwrap();
    let memory = Memory::read_only(&store);
    assert_eq!(memory.not_indexed().await.unwrap(), 0, "the vectors are on disk");
    let after = memory.recall(turns("stars and planets at night")).await.unwrap();
    assert_eq!((after.items, after.not_indexed), (before, 0));
    assert_eq!(store.health().iter().map(|health| health.failed_later).sum::<u64>(), 0);
}

#[tokio::test]
async fn vectors_of_another_asset_are_made_again_in_the_background() {
    let place = Place::new().await;
    two_people(&place).await;
    place.memory.learn(owner_says("I live in Lisbon.", None)).await.unwrap();
    let stale =
        nexus_store::embeddings::StoredVector { row: 1, audience: 1, at: 0, speaker: 0, bytes: vec![1; 260] };
    let kind = nexus_store::embeddings::VectorKind::Turn;
    place.store.embeddings().append(kind, "an older asset", vec![stale], 9).await.unwrap();
    let memory = Memory::new(&place.store);
    assert_eq!(memory.not_indexed().await.unwrap(), 9, "none of them counts");
    let mut left = Vec::new();
    while left.last() != Some(&0) {
        left.push(memory.catch_up(4).await.unwrap());
    }
    assert_eq!(left, [5, 1, 0], "in steps that show how far it is");
    place.store.flush().await.unwrap();
    assert_eq!(place.store.embeddings().count(kind).await.unwrap(), 9);
    assert_eq!(Memory::new(&place.store).not_indexed().await.unwrap(), 0);
    let found = memory.recall(turns("Saturn")).await.unwrap();
    assert!(found.items[0].text.contains("telescope"));
    place.store.close().await;
}

#[tokio::test]
async fn nobody_sees_nothing_and_odd_questions_do_no_harm() {
    let place = Place::new().await;
    two_people(&place).await;
    assert_eq!(place.recall(turns("telescope").viewer(Viewer::Nobody)).await, []);
    for odd in ["", "…", "\"", "a OR", "NOT", "(", "100% _", "col:x", "'", "the of and", "\u{0}", "own : x"]
    {
        place.recall(turns(odd)).await;
    }
    let mut request = turns("telescope");
    request.except = vec![EventId::new("none")];
    assert!(place.recall(request).await[0].text.contains("telescope"));
    place.store.close().await;
}
