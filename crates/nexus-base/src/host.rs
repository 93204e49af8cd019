//! The machine this runs on.

/// Returns the operating system with its release, and the architecture, such as `Linux 6.8.0 (x86_64)`.
pub fn describe() -> String {
    let name = rustix::system::uname();
    let system = name.sysname().to_string_lossy();
    format!("{system} {} ({})", name.release().to_string_lossy(), std::env::consts::ARCH)
}
