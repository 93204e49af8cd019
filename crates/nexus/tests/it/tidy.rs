//! The small habits: every file says what it owns and stays short, no test is forgotten, nothing
//! unfinished or bound to one machine is committed.

use std::collections::{BTreeMap, BTreeSet};

use crate::architecture::source::{RustFile, all_files, places, read, root, rust_files};

/// From here on a file must be named in [`LONG_FILES`] with the reason why it is not two files.
const LONG: usize = 500;
/// No reason is good enough beyond this.
const TOO_LONG: usize = 800;
/// Files between the two, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];
/// Tables of data, which may have any length.
const TABLES: &[&str] = &["crates/nexus-guide/src/words.rs"];
/// Packages in the lock file, ours included.
const MAX_PACKAGES: usize = 420;
/// AGENTS.md is part of every prompt.
const MAX_AGENTS_TEMPLATE_LEN: usize = 3_200;

fn nothing(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

#[test]
fn every_file_says_what_it_owns() {
    let found: Vec<String> = rust_files()
        .into_iter()
        // `foo/tests.rs` belongs to `foo.rs`, which says it; a file below `tests/it` is named after
        // the behaviour it tests, and another test sees to it that it is declared.
        .filter(|file| !file.is_test() || file.path.ends_with("/tests/it/main.rs"))
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.path)
        .collect();
    nothing(&found, "files that do not open with a //! line");
}

#[test]
fn files_stay_short() {
    let mut found = Vec::new();
    for file in rust_files().iter().filter(|file| !TABLES.contains(&file.path.as_str())) {
        let lines = file.lines_without_tests();
        let excused = LONG_FILES.iter().any(|(path, _)| *path == file.path);
        if lines > TOO_LONG {
            found.push(format!("{} has {lines} lines without tests; add a module", file.path));
        } else if lines > LONG && !excused {
            found.push(format!(
                "{} has {lines} lines without tests; split it, or name it with a reason",
                file.path
            ));
        } else if lines <= LONG && excused {
            found.push(format!("{} is short again; take it off the list", file.path));
        }
    }
    let known: BTreeSet<String> = all_files().into_iter().collect();
    let listed = LONG_FILES.iter().map(|(path, _)| *path).chain(TABLES.iter().copied());
    found.extend(listed.filter(|path| !known.contains(*path)).map(|path| format!("{path} is gone")));
    nothing(&found, "files over their length");
}

#[test]
fn every_rust_file_is_declared() {
    let files = rust_files();
    let mut found = Vec::new();
    for file in &files {
        let Some(module) = Module::of(&file.path) else { continue };
        let declared = files
            .iter()
            .filter(|parent| module.parents.contains(&parent.path))
            .any(|parent| declares(parent, &module.name));
        if !declared {
            found.push(format!("{} is compiled by nobody: no `mod {};`", file.path, module.name));
        }
    }
    nothing(&found, "forgotten files");
}

/// A file that another file has to declare.
struct Module {
    name: String,
    parents: Vec<String>,
}

impl Module {
    fn of(path: &str) -> Option<Self> {
        let (folder, file) = path.rsplit_once('/')?;
        let name = file.strip_suffix(".rs")?;
        let (above, folder_name) = folder.rsplit_once('/').unwrap_or(("", folder));
        // Targets of their own, which cargo finds by name.
        let is_target = match folder_name {
            "src" => matches!(name, "lib" | "main"),
            "it" => name == "main",
            "bin" | "examples" | "benches" | "fuzz_targets" => true,
            _ => name == "build",
        };
        if is_target {
            return None;
        }
        let parents = match folder_name {
            "src" => vec![format!("{folder}/lib.rs"), format!("{folder}/main.rs")],
            "it" => vec![format!("{folder}/main.rs")],
            _ => vec![format!("{above}/{folder_name}.rs"), format!("{folder}/mod.rs")],
        };
        Some(Self { name: name.to_owned(), parents })
    }
}

fn declares(parent: &RustFile, name: &str) -> bool {
    let line = format!("mod {name};");
    parent.text.lines().any(|text| {
        let text = text.trim_start();
        text == line || (text.starts_with("pub") && text.ends_with(&format!(" {line}")))
    })
}

#[test]
fn each_crate_has_one_integration_test_binary() {
    let found: Vec<String> = all_files()
        .into_iter()
        .filter(|path| path.ends_with(".rs"))
        .filter(|path| path.rsplit_once('/').is_some_and(|(folder, _)| folder.ends_with("/tests")))
        .filter(|path| !path.contains("/src/"))
        .collect();
    nothing(&found, "test binaries beside tests/it/main.rs");
}

#[test]
fn nothing_unfinished_is_committed() {
    // Put together here, so that this file does not hold them itself.
    let macros = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!"));
    let remarks = ["TO-DO", "FIX-ME", "XX-X:", "HA-CK:"].map(|word| word.replace('-', ""));
    let macros: Vec<&str> = macros.iter().map(String::as_str).collect();
    let remarks: Vec<&str> = remarks.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    for file in rust_files() {
        found.extend(places(&file.path, &file.text, &macros));
        found.extend(places(&file.path, &file.text, &remarks));
    }
    nothing(&found, "unfinished code");
}

#[test]
fn no_machine_is_named() {
    let root = root();
    let checkout = root.to_string_lossy();
    let mut found = Vec::new();
    for path in all_files() {
        let text = read(&path);
        for (index, line) in text.lines().enumerate() {
            // A checkout right below `/` could share its name with an ordinary folder.
            let names_checkout = root.components().count() > 2 && line.contains(checkout.as_ref());
            if names_checkout || starts_path(line, concat!("/wo", "rk/")) {
                found.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    nothing(&found, "paths of one machine");
}

fn starts_path(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        !line[..at].ends_with(|before: char| {
            before.is_alphanumeric() || matches!(before, '.' | '_' | '-' | '}' | '~')
        })
    })
}

#[test]
fn the_lock_file_stays_small_and_public() {
    let lock = read("Cargo.lock");
    let packages = lock.lines().filter(|line| *line == "[[package]]").count();
    assert!(packages <= MAX_PACKAGES, "{packages} packages in Cargo.lock, {MAX_PACKAGES} are allowed");
    let found: Vec<String> = lock
        .lines()
        .filter(|line| line.starts_with("source = "))
        .filter(|line| *line != "source = \"registry+https://github.com/rust-lang/crates.io-index\"")
        .map(str::to_owned)
        .collect();
    nothing(&found, "packages from elsewhere than crates.io");
}

#[test]
fn the_agents_template_is_small() {
    let templates: Vec<String> = all_files()
        .into_iter()
        .filter(|path| path.starts_with("crates/") && path.ends_with("/AGENTS.md"))
        .collect();
    assert!(!templates.is_empty(), "no AGENTS.md template below crates/");
    for path in templates {
        let bytes = read(&path).len();
        assert!(bytes <= MAX_AGENTS_TEMPLATE_LEN, "{path} has {bytes} bytes of {MAX_AGENTS_TEMPLATE_LEN}");
    }
}

#[test]
fn the_readme_asks_for_two_commands() {
    let readme = read("README.md");
    let mut commands = Vec::new();
    let mut inside = false;
    for line in readme.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            command if inside && !command.is_empty() => commands.push(command.to_owned()),
            _ => {}
        }
    }
    assert_eq!(commands, ["cargo run --release -- up", "cargo test --workspace"]);
}

#[test]
fn ci_runs_the_command_of_the_readme() {
    let script = read(".ci/run");
    for command in ["cargo fmt --all --check", "cargo clippy", "-D warnings", "cargo test --workspace"] {
        assert!(script.contains(command), ".ci/run lacks `{command}`");
    }
}

#[test]
fn decisions_are_numbered_without_holes() {
    let mut numbers = Vec::new();
    for path in all_files() {
        let Some(name) = path.strip_prefix("docs/decisions/").filter(|name| *name != "README.md") else {
            continue;
        };
        let number = name.split_once('-').and_then(|(digits, _)| digits.parse::<usize>().ok());
        let number = number.unwrap_or_else(|| panic!("docs/decisions/{name} should begin with four digits"));
        assert!(
            name.starts_with(&format!("{number:04}-")),
            "docs/decisions/{name} should begin with four digits"
        );
        let text = read(&path);
        assert!(text.starts_with(&format!("# {number}. ")), "{path} should be titled with its number");
        numbers.push(number);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
}

#[test]
fn every_route_is_in_the_documentation() {
    let page = read("docs/control-plane.md");
    for route in nexus_server::routes() {
        let (verb, path) = (route.verb, route.path);
        assert!(page.contains(&format!("| `{verb} {path}")), "docs/control-plane.md lacks {verb} {path}");
    }
}

#[test]
fn a_failpoint_name_belongs_to_one_file() {
    // Twice in one file is fine: `name@1` dies before a commit, `name@2` after it.
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    for file in rust_files() {
        let text = file.code_and_strings();
        for piece in text.split("failpoint::hit(\"").skip(1) {
            let name = piece.split('"').next().unwrap_or_default().to_owned();
            let owner = seen.entry(name.clone()).or_insert_with(|| file.path.clone());
            if *owner != file.path {
                found.push(format!("{name} in {owner} and in {}", file.path));
            }
        }
    }
    assert!(!seen.is_empty(), "no failpoint found");
    nothing(&found, "failpoints that share a name");
}
