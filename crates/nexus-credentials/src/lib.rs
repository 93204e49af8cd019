//! Credentials as pointers: where a secret is, never what it is.
//!
//! `state/credentials/{service}/{account}.json` names the place of each secret; the value is fetched
//! when it is used and lives in memory only. This crate finds credentials in the environment and in
//! other tools' logins, takes secrets in, lists them, resolves pointers and remembers how they fared. It
//! speaks to no provider: whether a secret is accepted is for those who use it to say.

mod account;
mod add;
mod check;
mod choose;
mod failure;
mod folder;
mod index;
mod keychain;
mod name;
mod program;
mod reference;
mod resolve;
mod scan;
mod seal;
mod storage;
mod sync;

pub use account::{Account, Credential, CredentialStats, Kind, Observer, Status};
pub use add::{AddError, Keep, NewCredential};
pub use check::Checked;
pub use choose::{AccessRules, Candidate};
pub use failure::{Breakage, FailureKind, mark_of};
pub use folder::{CredentialFolder, Listed, Listing, Summary};
pub use index::{Index, IndexedAccount, IndexedService};
pub use name::{AccountName, NameError, ServiceName};
pub use program::ProgramError;
pub use reference::{FindError, Reference};
pub use resolve::{ResolveError, Resolver, resolve};
pub use scan::{Depth, Finding, Findings, scan};
pub use seal::{KeyPlace, SealError};
pub use storage::{FileFormat, Storage, split_words};
pub use sync::{DEFAULT_SYNC_TTL, SyncReport, SyncRequest, boot_sync, keychain_sync};
