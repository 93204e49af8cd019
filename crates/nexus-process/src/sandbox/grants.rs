//! What every sandbox is given: the system's programs and the owner's toolchains, without secrets.

use std::path::{Path, PathBuf};

use super::{Access, Grant, Links};

/// Programs and libraries. `/etc` is not here: root could read password hashes and keys in it.
const PROGRAMS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/run/current-system",
    "/home/linuxbrew/.linuxbrew",
];

/// The parts of `/etc` and its kin that ordinary programs read and that hold no secrets.
const SETTINGS: &[&str] = &[
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/crypto-policies",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/alternatives",
    "/etc/gitconfig",
    "/etc/inputrc",
    "/etc/terminfo",
    "/etc/mime.types",
    "/etc/magic",
    "/etc/os-release",
    "/etc/lsb-release",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/python3",
    "/etc/java",
    "/etc/maven",
    "/etc/perl",
    "/etc/lsb-base",
    "/run/systemd/resolve",
    // Numbers about the machine. The rest of /proc shows other programs and their command lines.
    "/proc/self",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/sys/fs",
    "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage",
    "/sys/fs/cgroup",
];

/// Devices that are no doors.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Where the loader of shared libraries lies.
const LOADER_FOLDERS: &[&str] = &["/lib", "/lib64"];

/// Folders below a home that hold programs, and the folder of each to look programs up in.
const HOME_TOOLCHAINS: &[(&str, &str)] = &[
    (".cargo/bin", ".cargo/bin"),
    (".rustup", ""),
    (".pyenv", ".pyenv/shims"),
    (".nvm/versions", ""),
    (".volta", ".volta/bin"),
    (".bun/bin", ".bun/bin"),
    (".deno/bin", ".deno/bin"),
    (".local/bin", ".local/bin"),
    (".local/share/uv/python", ""),
    (".local/share/uv/tools", ""),
    (".local/share/mise/installs", ""),
    (".asdf/installs", ""),
    (".sdkman/candidates", ""),
    ("go/bin", "go/bin"),
    (".go/bin", ".go/bin"),
];

pub(super) fn system() -> Vec<Grant> {
    let grant = |access| {
        move |path: &&str| Grant { path: PathBuf::from(*path), access, links: Links::Follow, required: false }
    };
    PROGRAMS
        .iter()
        .map(grant(Access::Execute))
        .chain(SETTINGS.iter().map(grant(Access::Read)))
        .chain(DEVICES.iter().map(grant(Access::Device)))
        .collect()
}

/// As [`system`], with nothing to execute but `program` and the loader of its libraries.
pub(super) fn only(program: &Path) -> Vec<Grant> {
    let mut grants = system();
    for grant in &mut grants {
        if grant.access == Access::Execute {
            grant.access = Access::Read;
        }
    }
    let executable = |path| Grant { path, access: Access::Execute, links: Links::Follow, required: false };
    grants.push(executable(program.to_owned()));
    grants.extend(loaders().map(executable));
    grants
}

/// The programs that load the libraries of another one, without which none but a static one starts.
fn loaders() -> impl Iterator<Item = PathBuf> {
    let entries =
        LOADER_FOLDERS.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let is_loader = |name: &str| name.starts_with("ld") && name.contains(".so");
    entries.filter(move |entry| entry.file_name().to_str().is_some_and(is_loader)).map(|entry| entry.path())
}

/// The owner's compilers and interpreters below their home folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchains {
    home: PathBuf,
    /// Folders to grant.
    folders: Vec<PathBuf>,
    /// Folders to look programs up in.
    programs: Vec<PathBuf>,
}

impl Toolchains {
    /// Looks for toolchains below `home`.
    pub fn below(home: &Path) -> Self {
        let there = HOME_TOOLCHAINS.iter().filter(|(folder, _)| home.join(folder).is_dir());
        let (folders, programs): (Vec<PathBuf>, Vec<&str>) =
            there.map(|(folder, programs)| (home.join(folder), *programs)).unzip();
        let programs = programs
            .into_iter()
            .filter(|folder| !folder.is_empty())
            .map(|folder| home.join(folder))
            .collect();
        Self { home: home.to_owned(), folders, programs }
    }

    /// Returns the folders to look programs up in.
    pub fn programs(&self) -> &[PathBuf] {
        &self.programs
    }

    /// Returns the variables that tell the toolchains where they are when `HOME` points elsewhere.
    pub fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        [("RUSTUP_HOME", ".rustup"), ("PYENV_ROOT", ".pyenv"), ("VOLTA_HOME", ".volta")]
            .into_iter()
            .map(|(name, folder)| (name, self.home.join(folder)))
            .filter(|(_, folder)| self.folders.contains(folder))
            .collect()
    }

    pub(super) fn grants(&self) -> impl Iterator<Item = Grant> {
        self.folders.iter().map(|folder| Grant {
            path: folder.clone(),
            access: Access::Execute,
            // The owner may keep them elsewhere behind a link, and no tool can write here.
            links: Links::Follow,
            required: false,
        })
    }
}
