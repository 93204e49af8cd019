//! Credentials as pointers: where a secret is, never what it is.
//!
//! `state/credentials/{service}/{account}.json` names the place of each secret; the value is fetched
//! when it is used and lives in memory only. This room finds credentials in the environment and in
//! other tools' logins, lists them and resolves pointers. Who may use which is decided elsewhere.

mod account;
mod folder;
mod index;
mod name;
mod resolve;
mod scan;
mod storage;
mod sync;

pub use account::{Account, Credential, CredentialStats, Kind, Status};
pub use folder::{CredentialFolder, Listed, Listing, Summary};
pub use index::{Index, IndexedAccount, IndexedService};
pub use name::{AccountName, NameError, ServiceName};
pub use resolve::{ResolveError, resolve};
pub use scan::{Depth, Finding, Findings, scan};
pub use storage::{FileFormat, Storage};
pub use sync::{DEFAULT_SYNC_TTL, SyncReport, SyncRequest, boot_sync};
