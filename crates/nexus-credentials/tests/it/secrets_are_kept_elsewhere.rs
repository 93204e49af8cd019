//! `add` puts a secret into the keychain or a sealed file, and takes it out again.

use std::os::unix::fs::PermissionsExt;

use nexus_credentials::{
    AccountName, Keep, KeyPlace, Kind, NewCredential, Reference, Resolver, ServiceName, Storage,
};
use secrecy::{ExposeSecret, SecretString};

use crate::support::{Place, environment, put};

fn new() -> NewCredential {
    NewCredential {
        service: ServiceName::new("openai").unwrap(),
        account: AccountName::new("me@example.com").unwrap(),
        id: "api_key".into(),
        kind: Kind::ApiKey,
    }
}

fn reference() -> Reference {
    let new = new();
    Reference { service: new.service, account: new.account, credential: new.id }
}

fn resolver(place: &Place, path: &str) -> Resolver {
    let key = KeyPlace::new(place.temporary.path().join("keys/w.key"), place.folder.path());
    Resolver::new(place.folder.path(), environment(&[("PATH", path)])).with_key(Some(key))
}

#[tokio::test]
async fn without_a_keychain_a_sealed_file_holds_the_secret() {
    let place = Place::empty();
    let resolver = resolver(&place, "/nowhere");
    let secret = SecretString::from("the-planted-canary");
    let storage = place.folder.add_secret(&resolver, &new(), &secret, Keep::Anywhere).await.unwrap();
    assert!(matches!(storage, Storage::Sealed { .. }), "{storage:?}");
    assert!(place.files().iter().all(|(_, text)| !text.contains("canary")));
    let got = resolver.resolve(&reference().to_string(), &storage).await.unwrap();
    assert_eq!(got.expose_secret(), "the-planted-canary");

    assert!(place.folder.remove_credential(&resolver, &reference()).await.unwrap());
    assert!(place.folder.list().unwrap().is_empty());
    assert!(place.files().iter().all(|(name, _)| !name.ends_with(".sealed")), "{:?}", place.files());
    assert!(!place.folder.remove_credential(&resolver, &reference()).await.unwrap());
}

#[tokio::test]
async fn the_keychains_tool_gets_the_secret_through_its_input() {
    let place = Place::empty();
    let bin = place.temporary.path().join("bin");
    let kept = place.temporary.path().join("kept");
    let seen = place.temporary.path().join("seen");
    let tool = bin.join("secret-tool");
    // Stands in for the desktop's tool: notes its arguments, keeps what it is given.
    let body = format!(
        "#!/bin/sh\necho \"$@\" >> {seen}\ncase $1 in store) cat > {kept};; lookup) cat {kept};; clear) rm {kept};; esac\n",
        seen = seen.display(),
        kept = kept.display()
    );
    put(&tool, &body);
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let resolver = resolver(&place, &format!("{}:/usr/bin:/bin", bin.display()));
    let secret = SecretString::from("the-planted-canary");
    let storage = place.folder.add_secret(&resolver, &new(), &secret, Keep::Anywhere).await.unwrap();
    assert!(matches!(storage, Storage::Keychain { .. }), "{storage:?}");
    let got = resolver.resolve(&reference().to_string(), &storage).await.unwrap();
    assert_eq!(got.expose_secret(), "the-planted-canary");
    assert!(!std::fs::read_to_string(&seen).unwrap().contains("canary"));
    assert!(place.folder.remove_credential(&resolver, &reference()).await.unwrap());
    assert!(!kept.exists());
}
