use super::*;
use serde_json::json;

/// Upstream's fixtures, when this checkout has a neighbour that holds them.
fn upstream() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    folder.is_dir().then_some(folder)
}

fn verdicts(paths: &[PathBuf]) -> Vec<Verdict> {
    let scratch = tempfile::tempdir().unwrap();
    let fixtures = load(paths).unwrap();
    fixtures.iter().map(|fixture| run(fixture, &mut Library, scratch.path())).collect()
}

#[test]
fn upstream_fixtures_pass() {
    let Some(folder) = upstream() else {
        return say_skipped("upstream_fixtures_pass: no ../shared/conformance beside this checkout");
    };
    for (version, count) in [("nexus-core-0.11.0", 48), ("nexus-core-0.2.0", 10)] {
        let verdicts = verdicts(&[folder.join(version)]);
        let failed: Vec<_> = verdicts.iter().filter(|verdict| !verdict.passed).collect();
        assert!(failed.is_empty(), "{version}: {failed:#?}");
        assert_eq!(verdicts.len(), count, "{version}");
    }
}

#[test]
fn own_fixtures_pass() {
    let built_in = own().unwrap().len();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let verdicts = verdicts(&[folder]);
    let failed: Vec<_> = verdicts.iter().filter(|verdict| !verdict.passed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(verdicts.len(), built_in, "every fixture in the folder is built in");
    assert!(verdicts.len() >= 30, "only {} fixtures of our own", verdicts.len());
}

#[test]
fn paths_point_from_both_ends() {
    let document = json!({ "a": [{ "b": 1 }, { "b": 2, "length": "long" }] });
    let get = |path: &str| path::get(&document, path).map(|found| found.map(|found| found.into_owned()));
    assert_eq!(get("$.a.length"), Ok(Some(json!(2))));
    assert_eq!(get("$.a[-1].b"), Ok(Some(json!(2))));
    assert_eq!(get("$.a[1].length"), Ok(Some(json!("long"))));
    assert_eq!(get("$.a[-3].b"), Ok(None));
    assert_eq!(get("$.a[7].b.c"), Ok(None));
    for wrong in ["a", "$a", "$..b", "$.a[x]", "$.a[1", "$.a[*]"] {
        get(wrong).unwrap_err();
    }
}

#[test]
fn a_false_assertion_is_found() {
    let check = |found: serde_json::Value, expected: serde_json::Value| {
        let assertions = serde_json::Map::from_iter([("$.x".to_owned(), expected)]);
        expect::check("it", &json!({ "x": found }), &assertions).is_empty()
    };
    assert!(check(json!(1.0), json!(1)));
    assert!(!check(json!("1"), json!(1)));
    assert!(check(json!(null), json!(null)));
    assert!(!check(json!(0), json!(null)));
    assert!(check(json!(5), json!({ "type": "number", "min": 5, "max": 5 })));
    assert!(!check(json!(4), json!({ "type": "number", "min": 5 })));
    assert!(check(json!("a.md"), json!({ "type": "string", "minLength": 4, "pattern": "\\.md$" })));
    assert!(!check(json!("a.txt"), json!({ "type": "string", "pattern": "\\.md$" })));
    assert!(!check(json!("true"), json!({ "type": "boolean" })));
    assert!(!check(json!(1), json!({ "type": "colour" })));
    for (text, holds) in [
        ("2026-04-13T00:00:00.000Z", true),
        ("2026-04-13T00:00:00+02:00", true),
        ("2026-13-13T00:00:00Z", false),
        ("2026-04-13", false),
        ("2026-04-13T00:00:00", false),
        ("1776038400", false),
    ] {
        assert_eq!(expect::is_iso8601(text), holds, "{text}");
    }
}

#[test]
fn a_fixture_that_does_not_hold_fails() {
    let scratch = tempfile::tempdir().unwrap();
    let mut fixture: Fixture = serde_json::from_value(json!({
        "test_id": "wrong", "description": "expects what is not so",
        "action": { "tool": "plan_status", "params": {} },
        "postcondition": { "return_value": { "$.active": true } },
    }))
    .unwrap();
    assert!(!run(&fixture, &mut Library, scratch.path()).passed);
    fixture.postcondition.return_value = serde_json::Map::new();
    fixture.postcondition.error = Some(true);
    assert!(!run(&fixture, &mut Library, scratch.path()).passed);
    fixture.postcondition.error = None;
    fixture.precondition.state_files = serde_json::Map::from_iter([("{ELSEWHERE}/x".to_owned(), json!({}))]);
    assert!(!run(&fixture, &mut Library, scratch.path()).passed);
    fixture.precondition.state_files = serde_json::Map::from_iter([("../x".to_owned(), json!({}))]);
    assert!(!run(&fixture, &mut Library, scratch.path()).passed);
}
