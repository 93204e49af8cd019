//! Recognises a denial in what a confined program said and names the way out.

use crate::launch::Outcome;
use crate::sandbox::{Network, SandboxProfile};

/// How much of each stream's end is looked at.
const LOOKED_AT: usize = 16 * 1024;

/// What programs say when they cannot reach the network.
const NETWORK_SIGNS: &[&str] = &[
    "network is unreachable",
    "could not resolve",
    "couldn't resolve",
    "temporary failure in name resolution",
    "name or service not known",
    "no address associated with hostname",
    "nodename nor servname",
    "failed to lookup address",
    "dns error",
    "enetunreach",
    "eai_again",
    "enotfound",
    "couldn't connect to server",
    "could not connect to server",
    "failed to connect to",
    "unable to connect to",
    "unable to access 'http",
    "could not read from remote repository",
    "failed to establish a new connection",
    "error trying to connect",
    "socket: operation not permitted",
    "socket: permission denied",
];

/// What programs say when a file or call was refused.
const DENIAL_SIGNS: &[&str] = &[
    "permission denied",
    "operation not permitted",
    "permissionerror",
    "eacces",
    "eperm",
    "access denied",
    "read-only file system",
    "erofs",
];

/// Returns one line naming the remedy when `outcome` looks like a denial by `profile`.
///
/// Standard error is always looked at; standard output only after a failure, since a program that succeeded
/// may well print such words.
pub fn remedy(outcome: &Outcome, profile: &SandboxProfile) -> Option<String> {
    let mut said = tail(&outcome.stderr.text());
    if !outcome.succeeded() {
        said.push('\n');
        said.push_str(&tail(&outcome.stdout.text()));
    }
    let said = said.to_lowercase();
    if profile.network == Network::Off && NETWORK_SIGNS.iter().any(|sign| said.contains(sign)) {
        return Some(
            "[sandbox] The network is off for this command. Call it again with \"network\": true to ask the owner \
             about exactly this command; they can also set tools.bash.network to allow."
                .to_owned(),
        );
    }
    let denied = |line: &str| DENIAL_SIGNS.iter().any(|sign| line.contains(sign));
    let no_target = |line: &str| denied(line) || line.contains("no such process");
    if said.lines().any(|line| line.contains("kill") && no_target(line)) {
        return Some(
            "[sandbox] Processes outside this command cannot be seen or signalled from here; the owner can stop the \
             daemon with `nexus stop`."
                .to_owned(),
        );
    }
    said.lines().any(denied).then(|| {
        let folders: Vec<String> = profile.writable().map(|folder| folder.display().to_string()).collect();
        format!(
            "[sandbox] This command may write only in {}, and read little else. Work there; the owner can open \
             another folder with `nexus chat --project FOLDER` or run the command themselves.",
            if folders.is_empty() { "no folder".to_owned() } else { folders.join(", ") }
        )
    })
}

fn tail(text: &str) -> String {
    let mut start = text.len().saturating_sub(LOOKED_AT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::capture::Captured;
    use crate::launch::Status;

    fn check(status: Status, stderr: &str, stdout: &str, expected: Option<&str>) {
        let captured = |text: &str| Captured { head: text.as_bytes().to_vec(), ..Captured::default() };
        let outcome = Outcome {
            status,
            stdout: captured(stdout),
            stderr: captured(stderr),
            duration: Duration::ZERO,
            strays: 0,
        };
        let found = remedy(&outcome, &SandboxProfile::system().write("/task"));
        match expected {
            None => assert_eq!(found, None),
            Some(part) => assert!(found.as_deref().is_some_and(|line| line.contains(part)), "{found:?}"),
        }
    }

    #[test]
    fn denials_are_recognised() {
        check(Status::Exited(6), "curl: (6) Could not resolve host: example.org", "", Some("network is off"));
        check(Status::Exited(1), "cat: x: Permission denied", "", Some("/task"));
        check(Status::Exited(1), "bash: line 1: kill: (7) - Operation not permitted", "", Some("nexus stop"));
        check(Status::Exited(1), "bash: line 1: kill: (7) - No such process", "", Some("nexus stop"));
        check(Status::Exited(1), "touch: x: Read-only file system", "", Some("/task"));
        check(Status::Exited(1), "", "PermissionError: [Errno 13]", Some("/task"));
    }

    #[test]
    fn ordinary_output_is_left_alone() {
        check(Status::Exited(0), "", "permission denied is a phrase", None);
        check(Status::Exited(2), "no such file", "", None);
    }
}
