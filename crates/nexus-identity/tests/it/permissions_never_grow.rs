use std::collections::BTreeSet;

use nexus_identity::{DataLevel, Names, Permissions, ToolRule};
use proptest::prelude::*;
use serde_json::json;

fn names() -> impl Strategy<Value = Names> {
    prop_oneof![
        Just(Names::All),
        proptest::collection::btree_set("(a|b|\\*)/(x|y|\\*)|read|bash", 0..4).prop_map(Names::Only),
    ]
}

fn permissions() -> impl Strategy<Value = Permissions> {
    let level = prop_oneof![
        Just(DataLevel::None),
        Just(DataLevel::Minimal),
        Just(DataLevel::Contextual),
        Just(DataLevel::Full)
    ];
    let deny = proptest::collection::btree_set("read|bash|a/x", 0..3);
    (names(), deny, names(), level).prop_map(|(allow, deny, credentials, data)| Permissions {
        tools: ToolRule { allow, deny },
        credentials,
        data,
    })
}

const ASKED: &[&str] = &["a/x", "a/y", "b/x", "b/y", "c/x", "read", "bash", "write"];

proptest! {
    #[test]
    fn an_intersection_allows_exactly_what_both_allow(one in permissions(), two in permissions()) {
        let both = one.intersect(&two);
        for name in ASKED {
            prop_assert_eq!(both.may_use_tool(name), one.may_use_tool(name) && two.may_use_tool(name));
            prop_assert_eq!(
                both.may_use_credential(name),
                one.may_use_credential(name) && two.may_use_credential(name),
                "{}", name
            );
        }
        prop_assert_eq!(both.data, one.data.min(two.data));
    }

    #[test]
    fn a_merge_never_frees_a_denied_tool_nor_adds_a_credential(one in permissions(), two in permissions()) {
        let merged = one.merge(&two);
        for name in ASKED {
            if one.tools.deny.contains(*name) || two.tools.deny.contains(*name) {
                prop_assert!(!merged.may_use_tool(name));
            }
            if merged.may_use_credential(name) {
                prop_assert!(one.may_use_credential(name) && two.may_use_credential(name));
            }
        }
    }

    #[test]
    fn a_snapshot_comes_back_as_it_was(given in permissions()) {
        prop_assert_eq!(Permissions::from_json(&given.to_json()), given);
    }
}

#[test]
fn the_snapshot_has_a_plain_shape_and_anything_else_allows_nothing() {
    assert_eq!(
        Permissions::everything().to_json(),
        json!({ "tools": { "allow": "*", "deny": [] }, "credentials": "*", "data": "full" })
    );
    let deny = BTreeSet::from(["bash".to_owned()]);
    let some = Permissions {
        tools: ToolRule { allow: Names::All, deny },
        credentials: Names::only(["github/*"]),
        data: DataLevel::Contextual,
    };
    assert_eq!(
        some.to_json(),
        json!({ "tools": { "allow": "*", "deny": ["bash"] }, "credentials": ["github/*"], "data": "contextual" })
    );
    for broken in
        [json!(null), json!({}), json!({ "tools": "*", "credentials": "*", "data": "full" }), json!("*")]
    {
        assert_eq!(Permissions::from_json(&broken), Permissions::nothing());
    }
}
