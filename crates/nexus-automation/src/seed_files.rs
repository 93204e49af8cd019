//! Content of the memory automations' folders. Texts lie in `seed/`; two files are made from facts.

use nexus_store::DatabaseName;
use nexus_workspace::Layout;

use crate::shipped::{Shipped, relative};

/// Whether a file belongs to the automation once it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// It learns and edits; only a missing file is made.
    Automation,
    /// It describes this version; an outdated file is made again.
    Generated,
}

#[derive(Debug)]
pub(crate) struct SeedFile {
    /// Path inside the automation's folder.
    pub(crate) path: &'static str,
    pub(crate) content: String,
    pub(crate) mode: u32,
    pub(crate) ownership: Ownership,
}

/// Folders inside an automation's folder, outermost first.
pub(crate) const FOLDERS: &[&str] = &["", "skills", "skills/memory"];

const PRIVATE: u32 = 0o600;
const EXECUTABLE: u32 = 0o700;

/// Databases that hold memory.
const MEMORY_DATABASES: [DatabaseName; 3] =
    [DatabaseName::Memory, DatabaseName::Identity, DatabaseName::Embeddings];

/// Returns the files of one automation's folder, in the order they are made.
pub(crate) fn files(automation: &Shipped, layout: &Layout) -> Vec<SeedFile> {
    let learned = |path, content: &str| SeedFile {
        path,
        content: content.to_owned(),
        mode: PRIVATE,
        ownership: Ownership::Automation,
    };
    let own = match automation.name {
        "memory-reader" => [
            learned("ROLE.md", include_str!("../seed/memory-reader/ROLE.md")),
            learned("SKILLS.md", include_str!("../seed/memory-reader/SKILLS.md")),
            learned("PATTERNS.md", include_str!("../seed/memory-reader/PATTERNS.md")),
            learned("ERRORS.md", include_str!("../seed/memory-reader/ERRORS.md")),
        ],
        "memory-writer" => [
            learned("ROLE.md", include_str!("../seed/memory-writer/ROLE.md")),
            learned("SKILLS.md", include_str!("../seed/memory-writer/SKILLS.md")),
            learned("PATTERNS.md", include_str!("../seed/memory-writer/PATTERNS.md")),
            learned("ERRORS.md", include_str!("../seed/memory-writer/ERRORS.md")),
        ],
        _ => return Vec::new(),
    };
    let script = |path, content: &str| SeedFile { mode: EXECUTABLE, ..learned(path, content) };
    let generated =
        |path, content| SeedFile { path, content, mode: PRIVATE, ownership: Ownership::Generated };
    let shared = [
        generated("skills/memory/SCHEMA.md", schema()),
        learned("skills/memory/QUERIES.md", include_str!("../seed/skills-memory/QUERIES.md")),
        script("skills/memory/memory-search.sh", include_str!("../seed/skills-memory/memory-search.sh")),
        script("skills/memory/memory-write.sh", include_str!("../seed/skills-memory/memory-write.sh")),
        generated("skills/memory/DB_PATHS", paths(layout)),
    ];
    own.into_iter().chain(shared).collect()
}

fn schema() -> String {
    let mut text = String::from(
        "# Schema of memory\n\nGenerated from the migrations of this version and renewed at start; edits are lost. \
         It shows\nwhat memory can hold. To query it, see QUERIES.md.\n",
    );
    for database in MEMORY_DATABASES {
        let migrations: Vec<&str> = database.sql().map(str::trim).collect();
        text.push_str(&format!("\n## {database}.db\n\n```sql\n{}\n```\n", migrations.join("\n\n")));
    }
    text
}

fn paths(layout: &Layout) -> String {
    let mut text = String::from(
        "# Path of the memory database, from the workspace's root. Closed to agents; use `nexus memory`.\n",
    );
    for database in MEMORY_DATABASES {
        let path = relative(layout, &database.file_in(&layout.data()));
        text.push_str(&format!("{}_DB={path}\n", database.as_str().to_uppercase()));
    }
    text
}
