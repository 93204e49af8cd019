use serde_json::json;

use super::*;
use crate::edit::take_back;

fn edits() -> Vec<JsonEdit> {
    let group = json!({"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "nexus hook pre_tool_use --harness x"}]});
    vec![
        JsonEdit::hook("PreToolUse", group),
        JsonEdit::hook(
            "SessionStart",
            json!({"hooks": [{"type": "command", "command": "nexus hook session_start --harness x"}]}),
        ),
        JsonEdit::member(&["mcpServers"], "nexus", json!({"command": "nexus", "args": ["mcp"]})),
        JsonEdit::text(&["permissions", "allow"], "mcp__nexus"),
    ]
}

/// Files people have, each in another shape.
pub(crate) const FILES: [&str; 16] = [
    "",
    "{}",
    "{}\n",
    "{ }\n",
    "{\n}\n",
    "{\"model\":\"opus\"}",
    "{\n  \"model\": \"opus\"\n}\n",
    "{\n    \"hooks\": {},\n    \"permissions\": {\"allow\": [], \"deny\": [\"Bash\"]}\n}",
    "{\n\t\"hooks\": {\n\t\t\"PreToolUse\": [\n\t\t\t{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"./check.sh\"}]}\n\t\t]\n\t}\n}\n",
    "// mine\n{\n  // a note\n  \"theme\": \"dark\", // trailing\n  /* block */ \"permissions\": {\n    \"allow\": [\"Read\", ], // kept\n  },\n}\n",
    "{\r\n  \"model\": \"opus\",\r\n  \"env\": {\"A\": \"b\"}\r\n}\r\n",
    "\u{feff}{\n  \"näme\": \"日本語 😀\"\n}\n",
    "{\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"} // theirs\n  }\n}\n",
    "{\n  \"hooks\": {\n    \"SessionStart\": [\n      // nothing yet\n    ]\n  }\n}\n",
    "{\"hooks\":{\"PreToolUse\":[{\"matcher\":\"X\",\"hooks\":[]}],\"Stop\":[]},\"permissions\":{\"allow\":[\"a\"]}}\n",
    "   \n\n",
];

#[test]
fn what_was_put_in_comes_out_again_to_the_byte() {
    for file in FILES {
        let draft = bind(file, &edits()).unwrap_or_else(|error| panic!("{file:?}: {error:?}"));
        let (_, root) = parse(&draft.text).unwrap_or_else(|error| panic!("{error:?}\n{}", draft.text));
        let value = to_value(&Node::Object(root));
        assert_eq!(value["mcpServers"]["nexus"]["args"], json!(["mcp"]), "{}", draft.text);
        assert!(value["hooks"]["PreToolUse"].as_array().unwrap().iter().any(is_ours), "{}", draft.text);
        assert!(
            !is_ours(&value["hooks"]["PreToolUse"][0])
                || value["hooks"]["PreToolUse"].as_array().unwrap().len() == 1
        );
        assert_eq!(take_back(&draft.text, &draft.insertions).as_deref(), Some(file), "{}", draft.text);
        let again = bind(&draft.text, &edits()).unwrap();
        assert_eq!(again.text, draft.text, "a second time changes nothing");
    }
}

#[test]
fn without_a_record_what_is_ours_still_goes_and_the_rest_stays() {
    for file in FILES.iter().filter(|file| !file.trim().is_empty()) {
        let draft = bind(file, &edits()).unwrap();
        let stripped = strip(&draft.text, &edits()).unwrap();
        assert!(!stripped.contains("nexus"), "{stripped}");
        let before = to_value(&Node::Object(parse(file).unwrap().1));
        let after = to_value(&Node::Object(parse(&stripped).unwrap().1));
        for (key, value) in before.as_object().unwrap() {
            let emptied = value.is_object() && !value.to_string().contains('"');
            let kept = after.get(key) == Some(value) || after.get(key).is_none() && emptied;
            assert!(kept || key == "hooks" || key == "permissions", "{key} of {file:?}: {stripped}");
        }
        for comment in ["// mine", "// a note", "// trailing", "/* block */", "// kept", "// theirs"] {
            assert_eq!(file.contains(comment), stripped.contains(comment), "{comment}\n{stripped}");
        }
    }
}

#[test]
fn a_stranger_in_the_group_makes_it_theirs() {
    let mixed = json!({"hooks": [{"command": "nexus hook stop --harness x"}, {"command": "./mine"}]});
    assert!(!is_ours(&mixed));
    assert!(is_ours(&json!({"command": "nexus hook stop --harness cursor"})));
    assert!(!is_ours(&json!({"command": "nexus-hook stop"})) && !is_ours(&json!({"hooks": []})));
}

#[test]
fn what_does_not_parse_is_named_with_its_place() {
    let error = bind("{\n  \"a\": 1,\n  oops\n}", &edits()).unwrap_err();
    assert_eq!((error.line, error.column), (3, 3), "{error:?}");
    let error = bind("{\"hooks\": 3}", &edits()).unwrap_err();
    assert!(error.reason.contains("hooks"), "{error:?}");
    assert!(bind("[1]", &edits()).is_err());
}

mod any_file {
    use proptest::prelude::*;

    use super::*;

    fn member() -> impl Strategy<Value = String> {
        let value = prop_oneof![
            Just("1".to_owned()),
            Just("\"näh\"".to_owned()),
            Just("[]".to_owned()),
            Just("[1, /* x */ 2]".to_owned()),
            Just("{}".to_owned()),
            Just("{ \"b\": [\n {} ] }".to_owned()),
        ];
        let key = prop_oneof![Just("hooks2"), Just("theme"), Just("env")];
        let blank = prop_oneof![Just(""), Just(" "), Just("\n  "), Just(" // c\n"), Just("/* c */")];
        (blank.clone(), key, blank.clone(), value, blank)
            .prop_map(|(a, key, b, value, c)| format!("{a}\"{key}\":{b}{value}{c}"))
    }

    proptest! {
        #[test]
        fn binds_and_unbinds(members in prop::collection::vec(member(), 0..4), trailing in any::<bool>(), tail in "[ \n]{0,3}") {
            let comma = if trailing && !members.is_empty() { "," } else { "" };
            let file = format!("{{{}{comma}{tail}}}{tail}", members.join(","));
            let draft = bind(&file, &edits()).unwrap();
            prop_assert!(parse(&draft.text).is_ok(), "{}", draft.text);
            prop_assert_eq!(take_back(&draft.text, &draft.insertions), Some(file));
        }
    }
}
