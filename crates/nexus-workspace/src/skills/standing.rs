//! How a skill stands: what is there of what it needs, from credentials up to capabilities.

use serde::{Deserialize, Serialize};

use super::head::SkillHead;

/// How a skill or a capability stands, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Everything is there and it was used.
    Active,
    /// Everything is there.
    Ready,
    /// A credential is missing.
    NeedsSetup,
    /// A program is missing.
    NeedsInstall,
    /// Its only credentials do not work.
    Broken,
    /// Not for this system.
    Unavailable,
}

impl Standing {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Ready => "ready",
            Self::NeedsSetup => "needs-setup",
            Self::NeedsInstall => "needs-install",
            Self::Broken => "broken",
            Self::Unavailable => "unavailable",
        }
    }
}

/// How a service's credentials stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialState {
    /// At least one can be used.
    Usable,
    /// There are some, none works.
    Broken,
    /// There is none.
    Missing,
}

/// Judges a skill. `missing` gets every need that is not met, in words.
pub(super) fn judge(
    head: &SkillHead,
    has_program: &dyn Fn(&str) -> bool,
    credential: &dyn Fn(&str) -> CredentialState,
    was_used: bool,
    missing: &mut Vec<String>,
) -> Standing {
    let here = system();
    let fits = head.platform.is_empty()
        || head.platform.iter().any(|one| {
            let one = one.to_lowercase();
            one == here || one == "any" || one == "all" || (here == "macos" && one == "darwin")
        });
    if !fits {
        missing.push(format!("works on {} only", head.platform.join(", ")));
        return Standing::Unavailable;
    }
    let mut standing = if was_used { Standing::Active } else { Standing::Ready };
    let mut lower = |to: Standing, what: String| {
        standing = standing.max(to);
        missing.push(what);
    };
    for service in &head.requires.credentials {
        match credential(service) {
            CredentialState::Usable => {}
            CredentialState::Broken => {
                lower(Standing::Broken, format!("the credential of {service} does not work"));
            }
            CredentialState::Missing => lower(Standing::NeedsSetup, format!("a credential of {service}")),
        }
    }
    for program in &head.requires.bins {
        if !has_program(program) {
            lower(Standing::NeedsInstall, format!("the program {program}"));
        }
    }
    let any = &head.requires.any_bins;
    if !any.is_empty() && !any.iter().any(|program| has_program(program)) {
        lower(Standing::NeedsInstall, format!("one of the programs {}", any.join(", ")));
    }
    standing
}

const fn system() -> &'static str {
    if cfg!(target_os = "macos") { "macos" } else { "linux" }
}
