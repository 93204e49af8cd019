//! The `nexus` binary.

fn main() {}
