//! Checks, benches and soaks of the workspace.

fn main() {}
