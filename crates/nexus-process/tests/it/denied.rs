//! What a confined command cannot do, however it tries.

use nexus_process::{Confinement, Environment, Launch, LaunchError, SandboxProfile};

use crate::machine::{Machine, helper, put};

#[tokio::test]
async fn the_owner_token_cannot_be_read() {
    let machine = Machine::new();
    for command in ["cat ../state/config.json", "cp ../state/config.json .", "grep -r token ../state"] {
        let ran = machine.run(command).await.must_be_denied("may write only in");
        assert!(!ran.stdout.contains("the-owner-token") && !ran.stderr.contains("the-owner-token"));
    }
}

#[tokio::test]
async fn databases_credentials_and_the_root_cannot_be_listed() {
    let machine = Machine::new();
    for folder in ["..", "../state", "../state/data", "../state/credentials"] {
        machine.run(&format!("ls {folder}")).await.must_be_denied("may write only in");
    }
}

#[tokio::test]
async fn keys_in_the_owners_home_cannot_be_read() {
    let machine = Machine::new();
    let key = machine.owner.join(".ssh/id_ed25519");
    machine.run(&format!("cat {}", key.display())).await.must_be_denied("may write only in");
    machine.run("cat /etc/shadow").await.must_be_denied("may write only in");
}

#[tokio::test]
async fn nothing_outside_the_task_folder_can_be_written() {
    let machine = Machine::new();
    for command in [
        "echo x > ../state/config.json",
        "echo x >> ../AGENTS.md",
        "touch ../state/agents/new",
        "rm ../AGENTS.md",
        "mv ../AGENTS.md .",
        "ln ../AGENTS.md copy",
        "mkdir ../new",
        "truncate -s 0 ../state/config.json",
        "python3 -c \"import os; os.truncate('../AGENTS.md', 0)\"",
    ] {
        let ran = machine.run(command).await;
        assert!(!ran.outcome.succeeded(), "{command} worked");
    }
    assert_eq!(std::fs::read_to_string(machine.root.join("AGENTS.md")).unwrap(), "rules");
    assert_eq!(std::fs::read_to_string(machine.root.join("state/config.json")).unwrap(), "the-owner-token");
    // Where it works, it is a folder of the command's own.
    machine.run("echo x > /tmp/nexus-denied-test").await;
    assert!(!std::path::Path::new("/tmp/nexus-denied-test").exists());
}

#[tokio::test]
async fn a_link_in_the_task_folder_leads_nowhere() {
    let machine = Machine::new();
    machine.run("ln -s ../state/config.json link && cat link").await.must_be_denied("may write only in");
}

#[tokio::test]
async fn a_task_folder_replaced_by_a_link_stops_the_launch() {
    let machine = Machine::new();
    let profile = machine.profile();
    std::fs::remove_dir(machine.task()).unwrap();
    std::os::unix::fs::symlink(machine.root.join("state"), machine.task()).unwrap();
    let error = machine.bash_with("cat config.json", profile).run().await.unwrap_err();
    assert!(matches!(&error, LaunchError::Setup { reason } if reason.contains("home")), "{error:?}");
}

#[tokio::test]
async fn the_daemon_cannot_be_signalled() {
    let machine = Machine::new();
    let own = std::process::id();
    machine.run(&format!("kill -0 {own}")).await.must_be_denied("nexus stop");
    machine.run(&format!("kill -TERM {own}")).await.must_be_denied("nexus stop");
    let ran = machine.run(&format!("python3 -c 'import os; os.killpg(os.getpgid({own}), 0)'")).await;
    assert!(!ran.outcome.succeeded());
}

#[tokio::test]
async fn the_daemons_memory_and_environment_cannot_be_read() {
    let machine = Machine::new();
    let own = std::process::id();
    for file in ["environ", "mem", "maps", "cmdline", "cwd/Cargo.toml"] {
        let ran = machine.run(&format!("head -c1 /proc/{own}/{file}")).await;
        assert!(!ran.outcome.succeeded(), "{file} was read: {}", ran.stdout);
    }
}

#[tokio::test]
async fn kernel_doors_are_closed() {
    let machine = Machine::new();
    // What is tried below is there, and calls the system as it should where that is allowed.
    machine.run("command -v unshare mount chroot mknod").await.must_work();
    let harmless = "python3 -c 'import ctypes,sys; l=ctypes.CDLL(None,use_errno=True); sys.exit(0 if l.getpid()>0 else 1)'";
    machine.run(harmless).await.must_work();
    for command in [
        "unshare -r true",
        "unshare -m true",
        "mount -t tmpfs none .",
        "chroot . true",
        "mknod disk b 8 0",
        "python3 -c 'import ctypes,sys; l=ctypes.CDLL(None,use_errno=True); \
         sys.exit(0 if l.syscall(425,1,0)>=0 else 1)'",
        "python3 -c 'import ctypes,sys; l=ctypes.CDLL(None,use_errno=True); sys.exit(0 if l.ptrace(0,0,0,0)>=0 else 1)'",
    ] {
        let ran = machine.run(command).await;
        assert!(!ran.outcome.succeeded(), "{command} worked");
    }
}

#[tokio::test]
async fn privileges_are_gone() {
    let machine = Machine::new();
    let ran = machine.run("cat /proc/$$/status").await.must_work();
    let line = |name: &str| {
        ran.stdout.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap().to_owned()
    };
    assert_eq!(line("NoNewPrivs:"), "1");
    assert_eq!(line("Seccomp:"), "2");
    // At most DAC_OVERRIDE, FOWNER and FSETID: bits 1, 3 and 4.
    assert_eq!(u64::from_str_radix(&line("CapPrm:"), 16).unwrap() & !0b1_1010, 0);
    assert_eq!(u64::from_str_radix(&line("CapEff:"), 16).unwrap() & !0b1_1010, 0);
    assert_eq!(line("CapAmb:"), "0000000000000000");
}

#[tokio::test]
async fn limits_hold() {
    let machine = Machine::new();
    let mut limits = nexus_process::Limits { file_bytes: Some(4096), ..Default::default() };
    limits.open_files = Some(64);
    let profile = machine.profile().limits(limits);
    let outcome = machine.bash_with("head -c 10000 /dev/zero > big", profile.clone()).run().await.unwrap();
    assert!(!outcome.succeeded());
    assert!(std::fs::metadata(machine.task().join("big")).unwrap().len() <= 4096);
    let outcome =
        machine.bash_with("test $(ulimit -n) = 64 && test $(ulimit -c) = 0", profile).run().await.unwrap();
    assert!(outcome.succeeded());
}

#[tokio::test]
async fn a_profile_that_opens_the_workspace_is_refused() {
    let machine = Machine::new();
    let profile = machine.profile().write(&machine.root);
    let error = machine.bash_with("true", profile).run().await.unwrap_err();
    assert!(matches!(error, LaunchError::Profile(_)), "{error:?}");
}

#[tokio::test]
async fn a_helper_that_is_none_runs_nothing() {
    let machine = Machine::new();
    let mut wrong = helper();
    wrong.program = "/bin/true".into();
    let error = machine.bash("touch ran").helper(wrong).run().await.unwrap_err();
    assert!(matches!(error, LaunchError::Setup { .. }), "{error:?}");
    assert!(!machine.task().join("ran").exists());
}

#[tokio::test]
async fn a_missing_program_is_an_error_not_an_outcome() {
    let machine = Machine::new();
    for confinement in [Confinement::Sandbox(machine.profile()), Confinement::Unsandboxed] {
        let launch = Launch::new("/usr/bin/no-such-program", machine.task(), confinement)
            .environment(machine.environment())
            .helper(helper());
        let error = launch.run().await.unwrap_err();
        match error {
            LaunchError::Program { source, .. } => assert_eq!(source.kind(), std::io::ErrorKind::NotFound),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn granted_files_can_be_read() {
    let machine = Machine::new();
    put(&machine.root.join("skills/one.md"), "skill");
    let ran = machine.run("cat ../AGENTS.md ../skills/one.md").await.must_work();
    assert_eq!(ran.stdout, "rulesskill");
}

#[tokio::test]
async fn what_holds_here_is_reported() {
    let support = nexus_process::support();
    assert!(support.is_usable(), "these tests need Landlock and seccomp: {support:?}");
    // A profile alone never opens more than the system.
    let outcome = Launch::new("/bin/sh", "/", Confinement::Sandbox(SandboxProfile::system()))
        .arguments(["-c", "ls /root /home"])
        .environment(Environment::clean().set(crate::machine::HELPER_VARIABLE, "1").unwrap())
        .helper(helper())
        .run()
        .await
        .unwrap();
    assert!(!outcome.succeeded());
}
