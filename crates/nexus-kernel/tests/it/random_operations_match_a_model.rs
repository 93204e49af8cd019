//! Several clients do random things to random ids; a set of names says what must be true.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use nexus_kernel::{Authority, Client, ClientError, Role, RunDir, ServeOptions, Server};
use proptest::prelude::*;
use serde_json::json;

#[derive(Debug, Clone)]
enum Step {
    Create(String),
    Destroy(String),
    List,
    UnarmedDestroy(String),
    PlantFolder(String),
    PlantFile(String),
    Restart,
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "c", "A", "-", "_z", "x1"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["root", "kernel", "engine", "system"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["", "..", "a/b", "~", "a.b", ".new-a", "é"]).prop_map(str::to_owned),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => any_name().prop_map(Step::Create),
        4 => any_name().prop_map(Step::Destroy),
        3 => Just(Step::List),
        1 => any_name().prop_map(Step::UnarmedDestroy),
        1 => prop::sample::select(vec!["a", "b", "hand"]).prop_map(|name| Step::PlantFolder(name.to_owned())),
        1 => prop::sample::select(vec!["c", "file"]).prop_map(|name| Step::PlantFile(name.to_owned())),
        1 => Just(Step::Restart),
    ]
}

/// The run folder as plain sets.
#[derive(Debug, Default)]
struct Model {
    workspaces: BTreeSet<String>,
    files: BTreeSet<String>,
}

enum Target {
    Illegal,
    Reserved,
    Fine,
}

fn judge(name: &str) -> Target {
    let legal = !name.is_empty()
        && name.len() <= 35
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character));
    match (legal, ["root", "kernel", "engine", "system"].contains(&name)) {
        (false, _) => Target::Illegal,
        (true, true) => Target::Reserved,
        (true, false) => Target::Fine,
    }
}

fn code(outcome: Result<serde_json::Value, ClientError>) -> Result<serde_json::Value, u64> {
    outcome.map_err(|error| error.code().unwrap_or_else(|| panic!("{error}")))
}

fn connect(run_dir: &RunDir) -> Client {
    let mut client = Client::connect(&run_dir.root_socket(), Duration::from_secs(10)).unwrap();
    client.handshake(Authority::USER).unwrap();
    client
}

fn start(run_dir: &RunDir) -> Server {
    Server::start(ServeOptions::new(run_dir.clone())).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn one_step_at_a_time_from_several_clients(steps in prop::collection::vec((any_step(), 0_usize..3), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path().join("run"));
        let mut server = Some(start(&run_dir));
        let mut clients: Vec<Client> = (0..3).map(|_| connect(&run_dir)).collect();
        let mut model = Model::default();
        let at = |name: &str| run_dir.path().join(name);
        for (step, who) in steps {
            let client = &mut clients[who];
            match step {
                Step::Create(name) => {
                    let found = code(client.call("ws_create", &json!({ "ws_id": name }), Authority::OPERATOR));
                    let expected = match judge(&name) {
                        Target::Illegal | Target::Reserved => Err(102),
                        Target::Fine if model.files.contains(&name) => Err(500),
                        Target::Fine => {
                            let created = model.workspaces.insert(name.clone());
                            Ok(json!({ "status": "ok", "ws_id": name, "created": created }))
                        }
                    };
                    prop_assert_eq!(found, expected);
                }
                Step::Destroy(name) => {
                    let found = code(client.call("ws_destroy", &json!({ "ws_id": name }), Authority::OPERATOR));
                    let expected = match judge(&name) {
                        Target::Illegal | Target::Reserved => Err(102),
                        Target::Fine if model.files.contains(&name) => Err(500),
                        Target::Fine if model.workspaces.remove(&name) => {
                            Ok(json!({ "status": "ok", "ws_id": name, "destroyed": true }))
                        }
                        Target::Fine => Ok(json!({
                            "status": "ok", "ws_id": name, "destroyed": false, "note": "already_absent"
                        })),
                    };
                    prop_assert_eq!(found, expected);
                }
                Step::List => {
                    let found = client.list_all(Authority { role: Role::None, armed: false }).unwrap();
                    prop_assert_eq!(found, model.workspaces.iter().cloned().collect::<Vec<_>>());
                }
                Step::UnarmedDestroy(name) => {
                    let unarmed = Authority { role: Role::Operator, armed: false };
                    let found = code(client.call("ws_destroy", &json!({ "ws_id": name }), unarmed));
                    prop_assert_eq!(found, Err(201));
                }
                Step::PlantFolder(name) => {
                    if std::fs::create_dir(at(&name)).is_ok() {
                        model.workspaces.insert(name);
                    }
                }
                Step::PlantFile(name) => {
                    if std::fs::File::create_new(at(&name)).is_ok() {
                        model.files.insert(name);
                    }
                }
                Step::Restart => {
                    drop(server.take());
                    server = Some(start(&run_dir));
                    clients = (0..3).map(|_| connect(&run_dir)).collect();
                }
            }
        }
        prop_assert_eq!(on_disk(run_dir.path()), (model.workspaces, model.files));
    }
}

/// Folders and files of the run folder, the planes' own left out.
fn on_disk(path: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut folders, mut files) = (BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if ["root", "kernel"].contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            folders.insert(name)
        } else {
            files.insert(name)
        };
    }
    (folders, files)
}

/// At once, only the sum can be known: for each id, what was made minus what was removed stands.
#[test]
fn clients_at_once_agree_with_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run_dir = RunDir::new(folder.path().join("run"));
    let _server = start(&run_dir);
    let ids = ["p", "q", "r"];
    let balances: Vec<[i64; 3]> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6_usize)
            .map(|who| {
                let run_dir = &run_dir;
                scope.spawn(move || {
                    let mut client = connect(run_dir);
                    let mut balance = [0; 3];
                    for turn in 0..150_usize {
                        // A fixed scramble: every client walks the ids and operations differently.
                        let mixed = (turn * 7 + who * 13) ^ (turn >> 2);
                        let (id, method) = (mixed % 3, ["ws_create", "ws_destroy"][(mixed / 3 + who) % 2]);
                        let answer =
                            client.call(method, &json!({ "ws_id": ids[id] }), Authority::OPERATOR).unwrap();
                        balance[id] += i64::from(answer["created"] == true);
                        balance[id] -= i64::from(answer["destroyed"] == true);
                    }
                    balance
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let (folders, files) = on_disk(run_dir.path());
    for (number, id) in ids.iter().enumerate() {
        let standing: i64 = balances.iter().map(|balance| balance[number]).sum();
        assert_eq!(standing, i64::from(folders.contains(*id)), "{id}");
    }
    assert!(files.is_empty());
    assert!(folders.iter().all(|name| ids.contains(&name.as_str())), "{folders:?}");
}
