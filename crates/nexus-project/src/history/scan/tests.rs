//! The walk agrees with `serde_json` about every text that is a history, and survives every one that is none.

use std::io::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn file(text: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text).unwrap();
    file
}

fn cycles_of(text: &[u8]) -> Result<(Vec<Value>, u64), Fault> {
    let mut found = Vec::new();
    let end = walk(&file(text), From::Start, |offset, cycle| {
        assert_eq!(&text[usize::try_from(offset).unwrap()..][..cycle.len()], cycle);
        found.push(
            serde_json::from_slice(cycle)
                .map_err(|_| Fault::Shape { offset, what: "a cycle is not valid JSON" })?,
        );
        Ok(())
    })?;
    Ok((found, end.elements_end))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        r#"["\\\[\]{},:/ué]{0,8}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((".{0,5}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn history() -> impl Strategy<Value = (Vec<Value>, Value)> {
    let cycle = proptest::collection::vec((".{0,5}", value()), 0..4)
        .prop_map(|pairs| Value::Object(pairs.into_iter().collect()));
    (proptest::collection::vec(cycle, 0..5), value())
}

proptest! {
    #[test]
    fn every_history_is_walked((cycles, other) in history(), pretty in any::<bool>(), last in any::<bool>()) {
        let mut document = serde_json::Map::new();
        if last {
            document.insert("other".to_owned(), other.clone());
        }
        document.insert("cycles".to_owned(), json!(cycles));
        if !last {
            document.insert("other".to_owned(), other);
        }
        let text = if pretty { serde_json::to_vec_pretty(&document) } else { serde_json::to_vec(&document) }.unwrap();
        let (found, end) = cycles_of(&text).unwrap();
        prop_assert_eq!(found, cycles);
        // What stands after the last cycle closes the list.
        let rest = String::from_utf8_lossy(&text[usize::try_from(end).unwrap()..]).trim_start().to_owned();
        prop_assert!(rest.starts_with(']'));
    }

    #[test]
    fn no_text_does_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = cycles_of(&bytes);
    }

    #[test]
    fn a_history_that_is_cut_or_changed_is_never_taken_for_more(
        (cycles, other) in history(), at in any::<proptest::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut text = serde_json::to_vec_pretty(&json!({ "before": other, "cycles": cycles, "after": other })).unwrap();
        let at = at.index(text.len());
        if cut {
            text.truncate(at);
        } else {
            text[at] = byte;
        }
        // Whatever the walk accepts as a whole, the parser accepts, too.
        if let Ok((found, _)) = cycles_of(&text) {
            prop_assert!(std::str::from_utf8(&text).is_ok());
            prop_assert!(serde_json::from_slice::<IgnoredAny>(&text).is_ok());
            // Numbers and escapes outside cycles may be more than a value of ours holds.
            let parsed: Result<Value, _> = serde_json::from_slice(&text);
            if let Ok(parsed) = parsed {
                prop_assert_eq!(parsed["cycles"].as_array(), Some(&found));
            }
        }
    }
}

#[test]
fn what_is_no_json_outside_of_cycles_is_found_where_it_stands() {
    for (text, at) in [
        (&b"{\"schema_version\": nope, \"cycles\": []}"[..], 19),
        (b"{\"a\":[}, \"cycles\":[]}", 5),
        (b"{\"a\":\"x\x01y\",\"cycles\":[]}", 5),
        (b"{\"a\":\"xy\xff\",\"cycles\":[]}", 8),
        (b"{\"\xff\":1,\"cycles\":[]}", 1),
        (b"{\"cycles\":[],\"b\":tru}", 17),
        (b"{\"cycles\":[],\"b\":1 2}", 17),
        (b"{\"cycles\":[],\"b\":}", 17),
        (b"{\"cycles\":[{}],\"\\x\":1}", 15),
    ] {
        let said = cycles_of(text);
        let name = String::from_utf8_lossy(text);
        assert!(matches!(said, Err(Fault::Shape { offset, .. }) if offset == at), "{name}: {said:?}");
    }
    assert!(cycles_of(b"{\"\\u0063ycles\":[{}],\"b\":[\"\\ud800\",1e999]}").is_ok());
}
