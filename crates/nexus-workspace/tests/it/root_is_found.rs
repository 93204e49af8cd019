//! Which folder is the workspace.

use std::path::Path;

use nexus_workspace::{RootError, RootRequest, RootSource, resolve_root};
use proptest::prelude::*;

use crate::support::Place;

#[test]
fn the_order_is_flag_environment_profile_found_default() {
    let place = Place::initialised();
    let inside = place.layout.home().join("deep");
    std::fs::create_dir_all(&inside).unwrap();
    let mut request = RootRequest {
        flag: Some(Path::new("flagged")),
        env_root: Some(Path::new("~/env")),
        profile: Some("work"),
        cwd: Some(&inside),
        home: Some(Path::new("/home/ada")),
    };
    let answer = |request: &RootRequest<'_>| {
        let found = resolve_root(request).unwrap();
        (found.path, found.source)
    };
    assert_eq!(answer(&request), (inside.join("flagged"), RootSource::Flag));
    request.flag = None;
    assert_eq!(answer(&request), ("/home/ada/env".into(), RootSource::Environment));
    request.env_root = None;
    assert_eq!(answer(&request), ("/home/ada/nexus-work".into(), RootSource::Profile));
    request.profile = Some("");
    assert_eq!(answer(&request), (place.layout.root().to_owned(), RootSource::Found));
    request.cwd = Some(place.folder.path());
    assert_eq!(answer(&request), ("/home/ada/nexus".into(), RootSource::Default));
}

#[test]
fn what_cannot_be_answered_is_said() {
    let nothing = RootRequest::default();
    assert_eq!(resolve_root(&nothing), Err(RootError::NoHome));
    let profile =
        RootRequest { profile: Some("../x"), home: Some(Path::new("/h")), ..RootRequest::default() };
    assert_eq!(resolve_root(&profile), Err(RootError::BadProfile { name: "../x".into() }));
    let empty = RootRequest { flag: Some(Path::new("")), ..RootRequest::default() };
    assert_eq!(resolve_root(&empty), Err(RootError::EmptyPath { given: "--workspace" }));
    let relative = RootRequest { flag: Some(Path::new("here")), ..RootRequest::default() };
    assert_eq!(resolve_root(&relative), Err(RootError::NoWorkingFolder { path: "here".into() }));
}

proptest! {
    #[test]
    fn an_answer_is_always_absolute_and_a_flag_always_wins(
        flag in proptest::option::of("[a-z~./]{1,20}"),
        env in proptest::option::of("[a-z~./]{0,20}"),
        profile in proptest::option::of("\\PC{0,12}"),
    ) {
        let request = RootRequest {
            flag: flag.as_deref().map(Path::new),
            env_root: env.as_deref().map(Path::new),
            profile: profile.as_deref(),
            cwd: Some(Path::new("/nowhere/at/all")),
            home: Some(Path::new("/home/ada")),
        };
        if let Ok(found) = resolve_root(&request) {
            prop_assert!(found.path.is_absolute());
            prop_assert_eq!(flag.is_some(), found.source == RootSource::Flag);
            if found.source == RootSource::Profile {
                prop_assert_eq!(found.path.parent(), Some(Path::new("/home/ada")));
            }
        }
    }
}
