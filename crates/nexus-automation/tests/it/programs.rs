//! Files that may become automations: what is shown of them, and what is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nexus_automation::{ProgramError, inspect};

use crate::support::{Place, put};

fn executable(path: &Path, text: &str) {
    put(path, text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_file_is_shown_with_its_hash_however_it_is_named() {
    let place = Place::new();
    let folder = place.layout.automations();
    std::fs::create_dir_all(&folder).unwrap();
    executable(&folder.join("greet"), "#!/bin/sh\necho '{}'\n");
    let found = inspect(&place.layout, Path::new("greet")).unwrap();
    assert_eq!(found.path, "automations/greet");
    assert_eq!(found.interpreter.as_deref(), Some("/bin/sh"));
    assert_eq!(found.size, 20);
    assert_eq!(inspect(&place.layout, Path::new("automations/greet")).unwrap(), found);
    assert_eq!(inspect(&place.layout, &folder.join("greet")).unwrap(), found);
    executable(&folder.join("greet"), "#!/bin/sh\necho '{ }'\n");
    assert_ne!(inspect(&place.layout, Path::new("greet")).unwrap().hash, found.hash);
}

#[test]
fn what_lies_elsewhere_leads_elsewhere_or_cannot_run_is_refused() {
    let place = Place::new();
    let folder = place.layout.automations();
    std::fs::create_dir_all(&folder).unwrap();
    put(&folder.join("plain"), "text");
    executable(&place.layout.root().join("outside"), "#!/bin/sh\n");
    std::os::unix::fs::symlink("../outside", folder.join("link")).unwrap();
    let refused = |path: &str| inspect(&place.layout, Path::new(path)).unwrap_err();
    assert!(matches!(refused("plain"), ProgramError::NotExecutable { .. }));
    assert!(matches!(refused("/bin/sh"), ProgramError::Elsewhere { .. }));
    assert!(matches!(refused("../outside"), ProgramError::Jail(_)));
    assert!(matches!(refused("link"), ProgramError::Jail(_)));
    assert!(matches!(refused("missing"), ProgramError::Jail(_)));
    assert!(matches!(refused("automations"), ProgramError::Elsewhere { .. }));
}
