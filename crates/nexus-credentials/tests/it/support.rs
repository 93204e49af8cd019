//! What several tests need.

use std::path::Path;

use nexus_credentials::CredentialFolder;

pub(crate) fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(crate) struct Place {
    pub(crate) temporary: tempfile::TempDir,
    pub(crate) folder: CredentialFolder,
}

impl Place {
    pub(crate) fn empty() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("state/credentials");
        std::fs::create_dir_all(&path).unwrap();
        Self { folder: CredentialFolder::new(path), temporary }
    }

    pub(crate) fn home(&self) -> std::path::PathBuf {
        self.temporary.path().join("home")
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        put(&self.temporary.path().join(path), text);
    }

    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let root = self.folder.path();
        let mut found = Vec::new();
        let mut open = vec![root.to_owned()];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
        found.sort();
        found
    }
}

#[expect(clippy::disallowed_methods, reason = "a test sets the scene; how durable it is does not matter")]
pub(crate) fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
