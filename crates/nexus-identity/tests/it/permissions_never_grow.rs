use std::collections::BTreeSet;

use nexus_identity::{DataLevel, Names, Permissions, Terms, ToolRule};
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

/// What one policy may say, parts of it left out.
fn terms() -> impl Strategy<Value = Terms> {
    (permissions(), any::<(bool, bool, bool)>()).prop_map(|(all, (allow, credentials, data))| {
        let all = Terms::from(all);
        Terms {
            allow: all.allow.filter(|_| allow),
            credentials: all.credentials.filter(|_| credentials),
            data: all.data.filter(|_| data),
            ..all
        }
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
    fn policies_together_never_give_more_than_one_of_them(
        written in proptest::collection::vec(terms(), 1..5)
    ) {
        let together = written.iter().cloned().reduce(|all, next| all.and(&next)).unwrap().permissions();
        for one in &written {
            for name in ASKED {
                if together.may_use_tool(name) {
                    prop_assert!(one.allow.as_ref().is_none_or(|allow| allow.contains(name)), "{}", name);
                    prop_assert!(!one.deny.contains(*name), "{}", name);
                }
                if together.may_use_credential(name) {
                    prop_assert!(one.credentials.as_ref().is_none_or(|named| named.contains(name)), "{}", name);
                }
            }
            prop_assert!(one.data.is_none_or(|level| together.data <= level));
        }
        // What nobody gives is not given.
        for name in ASKED {
            if written.iter().all(|one| one.allow.is_none()) {
                prop_assert!(!together.may_use_tool(name));
            }
            if written.iter().all(|one| one.credentials.is_none()) {
                prop_assert!(!together.may_use_credential(name));
            }
        }
        prop_assert!(written.iter().any(|one| one.data.is_some()) || together.data == DataLevel::None);
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
