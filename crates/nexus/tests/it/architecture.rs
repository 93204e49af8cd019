//! The house keeps its shape: crate edges, crates that alone may name a library, and the absences
//! that ARCHITECTURE.md promises.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use source::{RustFile, places, read, rust_files};

pub(crate) mod source;

/// Which crates a crate may use. ARCHITECTURE.md shows the same table; a test compares the two.
const CRATES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("protocol", &["base"]),
    ("process", &["base"]),
    ("net", &[]),
    ("workspace", &["base"]),
    ("store", &["base"]),
    ("kernel", &["base"]),
    ("credentials", &["base", "process"]),
    ("llm", &["base", "protocol", "net", "credentials"]),
    ("identity", &["base", "store"]),
    ("embedder", &[]),
    ("memory", &["base", "store", "identity", "embedder"]),
    ("project", &["base", "protocol", "process"]),
    ("guide", &["base", "protocol", "llm"]),
    ("models", &["base", "protocol", "net", "workspace", "store", "credentials", "llm", "guide"]),
    ("maintenance", &["base", "process", "workspace", "store", "credentials", "models"]),
    ("tools", &["base", "protocol", "process", "net", "workspace", "identity", "memory", "project"]),
    ("agent", &["base", "protocol", "workspace", "llm", "tools"]),
    ("automation", &["base", "process", "workspace", "store", "memory"]),
    ("adapter", &["base", "protocol", "process", "store"]),
    (
        "pipeline",
        &[
            "base",
            "protocol",
            "process",
            "net",
            "workspace",
            "store",
            "credentials",
            "llm",
            "identity",
            "memory",
            "project",
            "models",
            "tools",
            "agent",
            "automation",
        ],
    ),
    ("mcp", &["protocol"]),
    ("client", &["base", "protocol"]),
    (
        "operations",
        &[
            "base",
            "protocol",
            "process",
            "workspace",
            "store",
            "credentials",
            "identity",
            "memory",
            "project",
            "models",
            "tools",
            "agent",
            "automation",
            "pipeline",
        ],
    ),
    (
        "runtime",
        &[
            "base",
            "protocol",
            "process",
            "workspace",
            "store",
            "credentials",
            "identity",
            "memory",
            "models",
            "maintenance",
            "automation",
            "pipeline",
            "operations",
        ],
    ),
    ("bindings", &["base", "workspace", "project"]),
    ("server", &["base", "protocol", "mcp", "operations"]),
];

/// Libraries that only the named packages may depend on.
const ONLY: &[(&str, &[&str])] = &[
    ("rusqlite", &["nexus-store"]),
    ("reqwest", &["nexus-net"]),
    ("axum", &["nexus-server"]),
    ("rmcp", &["nexus-mcp"]),
    ("landlock", &["nexus-process"]),
    ("seccompiler", &["nexus-process"]),
    ("nix", &["nexus-process"]),
    ("zerocopy", &["nexus-kernel"]),
    ("ulid", &["nexus-base"]),
    ("getrandom", &["nexus-base"]),
    // Memory reads dates as people say them, which takes a calendar.
    ("jiff", &["nexus-base", "nexus-memory"]),
    // HTTP is known at the two ends of the control plane and where models are called, nowhere else.
    ("hyper", &["nexus-client", "nexus-server", "nexus-testkit"]),
    ("hyper-util", &["nexus-client", "nexus-server", "nexus-testkit"]),
    ("http", &["nexus-client", "nexus-server", "nexus-net", "nexus-testkit"]),
    ("http-body-util", &["nexus-client", "nexus-server", "nexus-testkit"]),
    // Libraries return typed errors and take values; only programs collapse errors and parse arguments.
    ("anyhow", &["nexus", "xtask"]),
    ("clap", &["nexus", "xtask"]),
    ("rustyline", &["nexus"]),
];

/// Where shipped code starts a program, how it is confined there, and why that is enough.
const STARTS: &[(&str, &str, &str)] = &[
    ("crates/nexus-process/src/git.rs", "Launch::new", "git: sandbox, always"),
    (
        "crates/nexus-process/src/sandbox/tier.rs",
        "Launch::new",
        "`true`, to find out which sandbox there is: in it or not at all",
    ),
    (
        "crates/nexus-tools/src/tools/bash.rs",
        "Launch::new",
        "commands of agents: sandbox, or the owner's yes",
    ),
    ("crates/nexus-automation/src/program.rs", "Launch::new", "automations: sandbox, always"),
    (
        "crates/nexus-credentials/src/program.rs",
        "Launch::new",
        "keychains and commands that the owner named as pointers: they need the owner's session; run in /, never \
         from a project",
    ),
    (
        "crates/nexus-project/src/conformance/server.rs",
        "Piped::start",
        "the server that a person named on this command line",
    ),
    ("crates/nexus/src/commands/up.rs", "start_detached", "this very program as the daemon"),
];

/// Where the sandbox may be left out; each is a row above that says why.
const UNCONFINED: &[&str] =
    &["crates/nexus-tools/src/tools/bash.rs", "crates/nexus-credentials/src/program.rs"];

/// Packages nothing that ships may depend on.
const DEVELOPMENT_ONLY: [&str; 2] = ["nexus-testkit", "xtask"];

struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    development: bool,
}

#[expect(clippy::disallowed_methods, reason = "asks cargo for the package graph")]
fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(source::root())
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages: Vec<Package> = metadata["packages"]
        .as_array()
        .expect("metadata lists packages")
        .iter()
        .map(|package| Package {
            name: text(&package["name"]),
            dependencies: package["dependencies"]
                .as_array()
                .expect("a package lists its dependencies")
                .iter()
                .map(|dependency| Dependency {
                    name: text(&dependency["name"]),
                    development: dependency["kind"] == "dev",
                })
                .collect(),
        })
        .collect();
    assert!(packages.len() > 10, "cargo metadata lists {} packages only", packages.len());
    packages
}

fn text(value: &Value) -> String {
    value.as_str().expect("cargo metadata names things by strings").to_owned()
}

fn nothing(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

/// Searches shipped code outside the allowed packages for names.
fn outside(allowed: &[&str], needles: &[&str]) -> Vec<String> {
    rust_files()
        .iter()
        .filter(|file| !allowed.contains(&file.package()))
        .flat_map(|file| places(&file.path, &file.code(), needles))
        .collect()
}

#[test]
fn every_edge_between_crates_is_in_the_table() {
    let allowed: BTreeMap<&str, &[&str]> = CRATES.iter().copied().collect();
    let mut found = Vec::new();
    for package in packages() {
        let Some(name) = package.name.strip_prefix("nexus-") else { continue };
        if DEVELOPMENT_ONLY.contains(&package.name.as_str()) {
            continue;
        }
        let Some(uses) = allowed.get(name) else {
            found.push(format!("{} has no row", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.development) {
            if let Some(used) = dependency.name.strip_prefix("nexus-")
                && !uses.contains(&used)
            {
                found.push(format!("{} → {}", package.name, dependency.name));
            }
        }
    }
    nothing(&found, "edges that the table in architecture.rs lacks");
}

#[test]
fn what_a_crate_declares_it_uses() {
    let files = rust_files();
    let mut found = Vec::new();
    for package in packages() {
        let own: Vec<&RustFile> = files.iter().filter(|file| file.package() == package.name).collect();
        // Text and not code: a name in a macro or an attribute is a use as well.
        let names = |file: &&RustFile, name: &str| !places(&file.path, &file.text, &[name]).is_empty();
        for dependency in &package.dependencies {
            let name = dependency.name.replace('-', "_");
            let used = own.iter().filter(|file| dependency.development || !file.path.contains("/tests/"));
            // Tests compile the generator of the manual by its path, and it lies in xtask.
            let by_path = package.name == "nexus" && name == "clap_mangen";
            if !by_path && !used.clone().any(|file| names(file, &name)) {
                found.push(format!("{} declares {}", package.name, dependency.name));
            }
        }
        let Some(row) = CRATES.iter().find(|(name, _)| package.name == format!("nexus-{name}")) else {
            continue;
        };
        for used in row.1 {
            if !package.dependencies.iter().any(|dependency| dependency.name == format!("nexus-{used}")) {
                found.push(format!("the table lists {} → {used}", row.0));
            }
        }
    }
    nothing(&found, "declared and used by nobody");
}

#[test]
fn the_table_of_crates_has_no_cycle() {
    // Arrows point down only: each crate names crates that stand above it in the list.
    let mut seen = BTreeSet::new();
    for (name, uses) in CRATES {
        for used in *uses {
            assert!(seen.contains(used), "{name} uses {used}, which is not listed before it");
        }
        assert!(seen.insert(name), "{name} has two rows");
    }
}

#[test]
fn nothing_that_ships_depends_on_development_crates() {
    let mut found = Vec::new();
    for package in packages() {
        if DEVELOPMENT_ONLY.contains(&package.name.as_str()) {
            continue;
        }
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.development) {
            if DEVELOPMENT_ONLY.contains(&dependency.name.as_str()) || dependency.name == "nexus" {
                found.push(format!("{} → {}", package.name, dependency.name));
            }
        }
    }
    nothing(&found, "dependencies on crates that do not ship");
}

#[test]
fn a_library_with_one_home_is_named_nowhere_else() {
    let only: BTreeMap<&str, &[&str]> = ONLY.iter().copied().collect();
    let mut found = Vec::new();
    for package in packages() {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.development) {
            if let Some(homes) = only.get(dependency.name.as_str())
                && !homes.contains(&package.name.as_str())
            {
                found.push(format!("{} names {}, home of {homes:?}", package.name, dependency.name));
            }
        }
    }
    nothing(&found, "libraries outside their home");
}

#[test]
fn the_document_shows_the_same_table() {
    let document = read("ARCHITECTURE.md");
    let built = document_rows(&document, "## Crate map");
    let reserved = document_rows(&document, "### Reserved crates");
    let existing: BTreeSet<String> = packages()
        .into_iter()
        .filter_map(|package| package.name.strip_prefix("nexus-").map(str::to_owned))
        .filter(|name| name != "testkit")
        .collect();

    let mut found = Vec::new();
    for (name, uses) in CRATES {
        let row = if existing.contains(*name) { built.get(*name) } else { reserved.get(*name) };
        let expected: BTreeSet<String> = uses.iter().map(|used| (*used).to_owned()).collect();
        match row {
            None if existing.contains(*name) => found.push(format!("{name} is missing under “Crate map”")),
            None => found.push(format!("{name} is missing under “Reserved crates”")),
            Some(shown) if *shown != expected => {
                found.push(format!("{name} may use {expected:?}, the document says {shown:?}"));
            }
            Some(_) => {}
        }
    }
    for name in built.keys().filter(|name| !existing.contains(*name)) {
        found.push(format!("{name} is under “Crate map” and does not exist"));
    }
    for name in reserved.keys().filter(|name| existing.contains(*name)) {
        found.push(format!("{name} is under “Reserved crates” and exists"));
    }
    nothing(&found, "ARCHITECTURE.md and architecture.rs differ");
}

/// Reads `| `crate` | owns | may use |` rows of the section under `heading`.
fn document_rows(document: &str, heading: &str) -> BTreeMap<String, BTreeSet<String>> {
    let section: Vec<&str> = document
        .lines()
        .skip_while(|line| *line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .collect();
    assert!(!section.is_empty(), "ARCHITECTURE.md has no section {heading:?}");
    section
        .iter()
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
            let [name, _, uses] = cells.as_slice() else { return None };
            let name = name.strip_prefix('`')?.strip_suffix('`')?;
            let uses = uses.split(',').map(str::trim).filter(|used| !used.is_empty() && *used != "–");
            Some((name.to_owned(), uses.map(str::to_owned).collect()))
        })
        .collect()
}

#[test]
fn every_check_the_document_names_exists() {
    let document = read("ARCHITECTURE.md");
    let mut named = 0;
    let mut found = Vec::new();
    for piece in document.split('`').skip(1).step_by(2) {
        let Some((module, function)) = piece.split_once("::") else { continue };
        if !["architecture", "tidy", "crash_sweep"].contains(&module) {
            continue;
        }
        named += 1;
        let path = format!("crates/nexus/tests/it/{module}.rs");
        if !read(&path).contains(&format!("fn {function}(")) {
            found.push(format!("{piece} is not in {path}"));
        }
    }
    assert!(named >= 10, "ARCHITECTURE.md names {named} checks only");
    nothing(&found, "ARCHITECTURE.md names checks that do not exist");
}

#[test]
fn processes_start_in_one_crate() {
    let found = outside(
        &["nexus-process", "nexus-testkit", "xtask"],
        &["Command::new", "process::Command", "fork", "execve"],
    );
    nothing(&found, "a process is started outside nexus-process");
}

/// Files outside `nexus-base` that open or change files by the standard library, and why that is right there.
const OWN_OPENERS: &[(&str, &str)] = &[
    ("crates/nexus-kernel/src/log.rs", "its own flags; a device is a log, too"),
    ("crates/nexus-kernel/src/server.rs", "the mode of a socket"),
    ("crates/nexus-kernel/src/torture", "plants files for the checks"),
    ("crates/nexus-process/src/", "the kernel's tables, devices and inherited descriptors"),
    ("crates/nexus-project/src/conformance", "folders made for one fixture"),
    ("crates/nexus-store/src/store.rs", "syncs the folder of the databases"),
    ("crates/nexus-operations/src/metrics.rs", "the kernel's tables"),
    ("crates/nexus-maintenance/src/backup/restore.rs", "lays links again in a folder nobody else sees yet"),
    ("crates/nexus-tools/src/tools/shell.rs", "a link in a temporary folder of its own"),
    ("crates/nexus/src/commands/project/conformance.rs", "a file named on the command line"),
];

#[test]
fn s1_files_are_opened_and_changed_in_one_module() {
    let needles = [
        "OpenOptions",
        "File::open",
        "File::create",
        "File::create_new",
        "File::options",
        "fs::write",
        "fs::read",
        "fs::read_to_string",
        "fs::rename",
        "fs::copy",
        "fs::hard_link",
        "fs::create_dir",
        "fs::create_dir_all",
        "fs::set_permissions",
        "fs::symlink",
    ];
    let files = rust_files();
    let is_own = |file: &&RustFile| OWN_OPENERS.iter().any(|(path, _)| file.path.starts_with(path));
    let searched =
        |file: &&RustFile| !["nexus-base", "nexus-testkit", "xtask", "fuzz"].contains(&file.package());
    let names = |file: &RustFile| places(&file.path, &file.code(), &needles);
    let found: Vec<String> =
        files.iter().filter(searched).filter(|file| !is_own(file)).flat_map(names).collect();
    nothing(&found, "a file is opened or changed without nexus_base::file or nexus_base::jail");
    for (path, _) in OWN_OPENERS {
        let used =
            files.iter().filter(|file| file.path.starts_with(path)).any(|file| !names(file).is_empty());
        assert!(used, "{path} is listed and opens nothing");
    }
}

#[test]
fn every_start_of_a_program_is_reviewed() {
    let ways = ["Launch::new", "Piped::start", "start_detached"];
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for file in shipped() {
        let code = file.code();
        for way in ways {
            let uses: Vec<String> = places(&file.path, &code, &[way])
                .into_iter()
                .filter(|place| {
                    ![format!("fn {way}"), "use ".to_owned()].iter().any(|not| place.contains(not))
                })
                .collect();
            if uses.is_empty() {
                continue;
            }
            match STARTS.iter().find(|(path, listed, _)| *path == file.path && *listed == way) {
                Some(row) => drop(seen.insert(row)),
                None => found.extend(uses),
            }
        }
        let is_launch = file.path == "crates/nexus-process/src/launch.rs"
            || file.path == "crates/nexus-process/src/running.rs";
        if !is_launch && !UNCONFINED.contains(&file.path.as_str()) {
            found.extend(places(&file.path, &code, &["Unsandboxed"]));
        }
    }
    nothing(
        &found,
        "a program is started, or started without a sandbox, where STARTS and UNCONFINED do not say so",
    );
    let stale: Vec<String> = STARTS
        .iter()
        .filter(|row| !seen.contains(row))
        .map(|(path, way, _)| format!("{path}: {way}"))
        .collect();
    nothing(&stale, "rows of STARTS that start nothing");
}

#[test]
fn git_starts_in_one_module() {
    // The guide knows the names of commands people type.
    let exempt = ["crates/nexus-process/src/git.rs", "crates/nexus-guide/src/command.rs"];
    let named = |line: &str| ["\"git\"", "bin/git\""].iter().any(|name| line.contains(name));
    let found: Vec<String> = shipped()
        .filter(|file| !exempt.contains(&file.path.as_str()))
        .flat_map(|file| {
            let text = file.code_and_strings();
            let lines = text.lines().filter(|line| named(line)).map(str::trim);
            lines.map(|line| format!("{}: {line}", file.path)).collect::<Vec<_>>()
        })
        .collect();
    nothing(&found, "git is named as a program outside nexus-process's git module");
    let module = read("crates/nexus-process/src/git.rs");
    assert!(!module.contains("Unsandboxed") && module.contains("Confinement::Sandbox(profile)"));
}

/// Returns the files of packages that ship.
fn shipped() -> impl Iterator<Item = RustFile> {
    rust_files().into_iter().filter(|file| !DEVELOPMENT_ONLY.contains(&file.package()))
}

#[test]
fn databases_open_in_one_module() {
    let found: Vec<String> = rust_files()
        .iter()
        .filter(|file| !file.path.starts_with("crates/nexus-store/src/open"))
        .flat_map(|file| {
            let needles = [
                "Connection::open",
                "Connection::open_with_flags",
                "Connection::open_in_memory",
                "sqlite3_open",
            ];
            places(&file.path, &file.code(), &needles)
        })
        .collect();
    nothing(&found, "a database is opened outside nexus-store's opening module");
}

#[test]
fn sql_stays_in_the_store() {
    let statements =
        ["INSERT INTO", "INSERT OR", "DELETE FROM", "CREATE TABLE", "PRAGMA ", "BEGIN IMMEDIATE"];
    let found: Vec<String> = rust_files()
        .iter()
        .filter(|file| !["nexus-store", "nexus-testkit"].contains(&file.package()))
        .flat_map(|file| {
            let text = file.code_and_strings();
            let mut found = places(&file.path, &text, &statements);
            let both = |line: &str, first: &str, second: &str| line.contains(first) && line.contains(second);
            found.extend(
                text.lines()
                    .filter(|line| both(line, "SELECT ", " FROM ") || both(line, "UPDATE ", " SET "))
                    .map(|line| format!("{}: {}", file.path, line.trim())),
            );
            found
        })
        .collect();
    nothing(&found, "SQL outside nexus-store");
}

#[test]
fn no_foreign_key_crosses_a_database_file() {
    let migrations: Vec<String> = source::all_files()
        .into_iter()
        .filter(|path| path.starts_with("crates/nexus-store/migrations/"))
        .collect();
    let mut by_database: BTreeMap<String, String> = BTreeMap::new();
    for path in &migrations {
        let database = path.split('/').nth(3).expect("one folder per database").to_owned();
        by_database.entry(database).or_default().push_str(&read(path));
    }
    assert_eq!(by_database.len(), 6, "six databases have migrations: {:?}", by_database.keys());
    let mut found = Vec::new();
    for (database, sql) in &by_database {
        let words: Vec<&str> =
            sql.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
        for pair in words.windows(2).filter(|pair| pair[0].eq_ignore_ascii_case("references")) {
            if !sql.contains(&format!("TABLE {}", pair[1])) {
                found.push(format!("{database}.db references {}", pair[1]));
            }
        }
    }
    nothing(&found, "foreign keys to tables of another file");
}

#[test]
fn libraries_never_print() {
    let needles =
        ["println!", "eprintln!", "print!", "eprint!", "io::stdout", "io::stderr", "stdout()", "stderr()"];
    // The kernel's server repeats its log file on standard error for whoever started it.
    let exempt = ["crates/nexus-kernel/src/log.rs"];
    let found: Vec<String> = rust_files()
        .iter()
        .filter(|file| !["nexus", "xtask"].contains(&file.package()) && !exempt.contains(&file.path.as_str()))
        .flat_map(|file| places(&file.path, &file.code(), &needles))
        .collect();
    nothing(&found, "a library writes to the terminal");
}

#[test]
fn nothing_below_the_server_knows_http() {
    let found = outside(
        &["nexus-server", "nexus-client", "nexus-net", "nexus-llm", "nexus-mcp", "nexus-testkit", "xtask"],
        &["StatusCode", "HeaderMap", "HeaderValue", "axum", "hyper", "http::"],
    );
    nothing(&found, "HTTP below nexus-server");
}

#[test]
fn sockets_open_only_at_the_edges() {
    let found = outside(
        &["nexus-runtime", "nexus-server", "nexus-client", "nexus-net", "nexus-testkit", "nexus", "xtask"],
        &["TcpListener", "TcpStream", "UdpSocket", "ToSocketAddrs", "lookup_host"],
    );
    nothing(&found, "a network socket outside the crates that may have one");
}

/// What is filled when it is first asked for and not by another part: caches, with what they keep.
const CACHES: &[(&str, &str)] = &[(
    "crates/nexus-pipeline/src/file_taint.rs",
    "the marks of files, read from the ledger at the first question",
)];

/// Binding later what was made before breaks a cycle in a way that nobody can follow. A channel or a durable row that is
/// made before both ends does it in sight.
#[test]
fn what_the_daemon_is_made_of_is_bound_when_it_is_made() {
    let needles = ["OnceLock", "OnceCell", "Weak", "fn connect", "fn bind_to", "Arc::new_cyclic"];
    let found: Vec<String> = rust_files()
        .iter()
        .filter(|file| ["nexus-pipeline", "nexus-runtime", "nexus-operations"].contains(&file.package()))
        .filter(|file| CACHES.iter().all(|(path, _)| *path != file.path))
        .flat_map(|file| places(&file.path, &file.code(), &needles))
        .collect();
    nothing(&found, "a part of the daemon is bound after it was made");
}

/// A bare task loses the span of whoever starts it, and with it the request its log lines belong to; and no stop waits
/// for it.
#[test]
fn tasks_start_in_one_module() {
    let found: Vec<String> = shipped()
        .filter(|file| file.path != "crates/nexus-base/src/task.rs")
        .flat_map(|file| {
            let needles = ["tokio::spawn", "tokio::task::spawn", "TaskTracker", "Handle::spawn"];
            places(&file.path, &file.code(), &needles)
        })
        .collect();
    nothing(&found, "a task is started past nexus_base::task");
}

/// The list of `cargo xtask walk` in the document names files that exist, each once, with every stage among them.
#[test]
fn the_way_of_a_message_names_files_that_exist() {
    let document = read("ARCHITECTURE.md");
    let (_, rest) = document.split_once("`cargo xtask walk --write`").expect("the document has the walk");
    let block = rest.split("```\n").nth(1).expect("the walk has a block");
    let files: Vec<&str> = block
        .lines()
        .filter(|line| line.starts_with("crates/"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let known: BTreeSet<String> = rust_files().into_iter().map(|file| file.path).collect();
    let gone: Vec<String> =
        files.iter().filter(|file| !known.contains(**file)).map(|file| format!("{file} is gone")).collect();
    nothing(&gone, "run `cargo xtask walk --write`");
    for stage in ["receive", "identify", "authorize", "automate", "context", "run", "deliver", "finalize"] {
        let file = format!("crates/nexus-pipeline/src/stages/{stage}.rs");
        assert_eq!(files.iter().filter(|known| **known == file).count(), 1, "{file}");
    }
}

/// The eight stages stand one below the other in one file, each with a file of its own and a word about what is durable.
#[test]
fn the_eight_stages_are_listed_in_one_file() {
    let list = read("crates/nexus-pipeline/src/stages.rs");
    let mut at = 0;
    for (number, stage) in
        ["receive", "identify", "authorize", "automate", "context", "run", "deliver", "finalize"]
            .iter()
            .enumerate()
    {
        let comment = format!("// {}. ", number + 1);
        let found =
            list[at..].find(&comment).unwrap_or_else(|| panic!("{comment:?} is missing or out of order"));
        at += found;
        let call = list[at..].find(&format!("{stage}::")).expect("the stage is called below its number");
        let next = format!("// {}. ", number + 2);
        assert!(!list[at..at + call].contains(&next), "{stage} is not called under its own number");
        at += call;
        let file = read(&format!("crates/nexus-pipeline/src/stages/{stage}.rs"));
        assert!(file.starts_with("//! Stage "), "{stage}.rs says which stage it is");
    }
}

#[test]
fn libraries_take_values_and_not_environment_variables() {
    // The failpoint is compiled out of release builds; nexus-process cleans what children inherit.
    let exempt = |file: &&RustFile| {
        file.path != "crates/nexus-base/src/failpoint.rs"
            && !["nexus", "nexus-process", "nexus-testkit", "xtask"].contains(&file.package())
    };
    let found: Vec<String> = rust_files()
        .iter()
        .filter(exempt)
        .flat_map(|file| {
            places(
                &file.path,
                &file.code(),
                &["env::var", "env::var_os", "env::vars", "env::vars_os", "set_var"],
            )
        })
        .collect();
    nothing(&found, "a library reads the environment");
}

#[test]
fn there_is_no_unsafe_code() {
    let found = outside(&[], &["unsafe"]);
    // `unsafe_code` inside an attribute is another name; a lifted module would be listed here.
    nothing(&found, "unsafe code");
}

#[test]
fn provider_wire_formats_stay_in_one_crate() {
    let found: Vec<String> = rust_files()
        .iter()
        // Scripted models of the tests and of the harness runs answer in those formats.
        .filter(|file| !["nexus-llm", "nexus-testkit", "xtask"].contains(&file.package()))
        .flat_map(|file| {
            places(
                &file.path,
                &file.code_and_strings(),
                &["anthropic-version", "/v1/messages", "/chat/completions", "content_block_delta"],
            )
        })
        .collect();
    nothing(&found, "a provider's wire format outside nexus-llm");
}
