//! The sandbox in every tier, as root and as an ordinary user: what a worker's command must not do to files, processes
//! and sockets outside, that nothing outlives its call, and what must go on working.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use nexus_testkit::{Workspace, until};
use serde_json::json;

use crate::commands_without_a_sandbox::without_call;
use crate::scripted::{self, Scripted};

/// Who runs things in tests that are run by root.
const NOBODY: u32 = 65_534;

/// What the sandbox is left with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    Namespaces,
    Broker,
    Landlock,
}

impl Tier {
    /// Does something where only this much can be had.
    fn during<T: Send>(self, work: impl FnOnce() -> T + Send) -> T {
        match self {
            Self::Namespaces => work(),
            Self::Broker => without_call(UNSHARE, work),
            Self::Landlock => without_call(UNSHARE, || without_call(PTRACE, work)),
        }
    }

    /// How `status` and `doctor` name it.
    fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces (user, process, mount, IPC)",
            Self::Broker => "filter and a tracing supervisor",
            Self::Landlock => "filter and a supervisor",
        }
    }
}

const UNSHARE: i64 = if cfg!(target_arch = "x86_64") { 272 } else { 97 };
const PTRACE: i64 = if cfg!(target_arch = "x86_64") { 101 } else { 117 };

/// What stands around commands, and whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    tier: Tier,
    is_root: bool,
}

/// Every setting that can be had here.
fn settings() -> Vec<Setting> {
    let root = rustix::process::geteuid().is_root();
    let users: &[bool] = if root { &[true, false] } else { &[false] };
    let settings = users.iter().flat_map(|is_root| {
        [Tier::Namespaces, Tier::Broker, Tier::Landlock].map(|tier| Setting { tier, is_root: *is_root })
    });
    settings.collect()
}

/// A workspace with a daemon in a setting, and things of the owner outside every folder of a worker.
struct Arena {
    scripted: Scripted,
    setting: Setting,
    key: PathBuf,
    _wrapper: tempfile::TempDir,
}

impl Arena {
    fn new(setting: Setting) -> Self {
        let wrapper = tempfile::tempdir().unwrap();
        std::fs::set_permissions(wrapper.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = wrapper.path().join("nexus-as-user");
        let drop = match setting.is_root || !rustix::process::geteuid().is_root() {
            true => String::new(),
            false => format!("setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "),
        };
        let text = format!("#!/bin/sh\nexec {drop}{} \"$@\"\n", env!("CARGO_BIN_EXE_nexus"));
        nexus_base::file::replace(&program, text.as_bytes(), 0o755, nexus_base::file::Durability::Crash)
            .unwrap();
        let server = scripted::server();
        let workspace = Workspace::new(program);
        give(&workspace, setting);
        workspace.init();
        let workspace = scripted::onboarded(workspace, &server);
        let key = workspace.home().join(".ssh/id_rsa");
        std::fs::create_dir_all(key.parent().unwrap()).unwrap();
        nexus_base::file::replace(&key, b"the key", 0o600, nexus_base::file::Durability::Crash).unwrap();
        let start = || Scripted::start_in(workspace, server, |workspace| give(workspace, setting));
        let scripted = setting.tier.during(start);
        Self { scripted, setting, key, _wrapper: wrapper }
    }

    fn run(&self, script: &str) -> String {
        let mut done = self.scripted.work(&json!([["bash", { "command": script, "timeout_ms": 120_000 }]]));
        done.results.pop().unwrap()
    }

    /// Starts something of the owner's that runs beside the daemon.
    #[expect(clippy::disallowed_methods, reason = "a bystander of the test's own")]
    fn bystander(&self, seconds: &str) -> Bystander {
        let mut command = Command::new("setpriv");
        let user = if self.setting.is_root { 0 } else { rustix::process::geteuid().as_raw().max(1) };
        let user = if !self.setting.is_root && rustix::process::geteuid().is_root() { NOBODY } else { user };
        command.args([format!("--reuid={user}"), "sleep".to_owned(), seconds.to_owned()]);
        Bystander(command.spawn().unwrap())
    }
}

struct Bystander(Child);

impl Bystander {
    fn number(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gives everything of a workspace to whoever runs it.
#[expect(clippy::disallowed_methods, reason = "recursion into a temporary folder")]
fn give(workspace: &Workspace, setting: Setting) {
    if !setting.is_root && rustix::process::geteuid().is_root() {
        let folder = workspace.root().parent().unwrap();
        let owner = format!("{NOBODY}:{NOBODY}");
        assert!(Command::new("chown").args(["-R", &owner]).arg(folder).status().unwrap().success());
    }
}

/// Mode, owner, group, when it was changed and how long it is. Not when it was read: the daemon reads, too.
fn facts(path: &Path) -> (u32, u32, u32, i64, u64) {
    let found = path.symlink_metadata().unwrap();
    (found.mode(), found.uid(), found.gid(), found.mtime(), found.len())
}

/// Limits, niceness, scheduling and processors of a process.
fn standing(process: u32) -> Vec<String> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
    let stat = read("stat");
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap_or_default().1.split_whitespace().collect();
    let state = fields.first().is_some_and(|state| !matches!(*state, "Z" | "T" | "t"));
    let status = read("status");
    let processors = status.lines().filter(|line| line.starts_with("Cpus_allowed:")).map(str::to_owned);
    let mut standing = vec![read("limits"), format!("{state} {:?} {:?}", fields.get(16), fields.get(39))];
    standing.extend(processors);
    standing
}

/// Calls a system function by name from a command, and tells what came of it.
const PYTHON: &str = "import ctypes,os,socket,sys; l=ctypes.CDLL(None,use_errno=True)";

#[test]
fn s3_mode_owner_times_and_attributes_outside_stay() {
    for setting in settings() {
        let arena = Arena::new(setting);
        let (key, rules) = (arena.key.clone(), arena.scripted.workspace.path("AGENTS.md"));
        let before = (facts(&key), facts(&rules));
        let (key_text, rules_text) = (key.display().to_string(), rules.display().to_string());
        let mut script = format!(
            "exec 2>&1; chown 1:1 {key_text}; chgrp 1 {rules_text}; ln {rules_text} hard; \
             python3 -c \"{PYTHON}; os.setxattr('{rules_text}','user.x',b'1')\"; \
             cp /bin/true own; chmod 4755 own; chmod u+s own; install -m 4755 /bin/true own2; \
             python3 -c \"{PYTHON}; os.open('own3', os.O_CREAT|os.O_WRONLY, 0o4755)\"; "
        );
        // Without namespaces and tracing this is a gap that `doctor` names.
        if setting.tier != Tier::Landlock {
            script += &format!(
                "chmod 644 {key_text}; chmod 777 {rules_text}; chmod -R a+rwx {}; touch -d 2001-01-01 {key_text} \
                 {rules_text}; ln -s {key_text} link; chmod 666 link; touch -m link; \
                 python3 -c \"{PYTHON}; f=os.open('{rules_text}',os.O_RDONLY); os.fchmod(f,0o777)\"; \
                 python3 -c \"{PYTHON}; f=os.open('{rules_text}',os.O_RDONLY); os.utime(f,(1,1))\"; \
                 python3 -c \"{PYTHON}; f=os.open('{rules_text}',os.O_PATH); os.chmod('/proc/self/fd/%d'%f,0o777)\"; \
                 for p in 1 $PPID; do chmod 644 /proc/$p/root{key_text} /proc/$p/cwd/../AGENTS.md; done; ",
                key.parent().unwrap().display()
            );
        }
        script += "for f in own own2 own3; do [ -e $f ] && stat -c 'mode of %n: %a' $f; done; echo end";
        let said = arena.run(&script);
        assert!(said.contains("end"), "{setting:?}: {said}");
        assert_eq!((facts(&key), facts(&rules)), before, "{setting:?}: {said}");
        for line in said.lines().filter(|line| line.starts_with("mode of")) {
            let mode = line.rsplit_once(' ').unwrap().1;
            assert!(mode.len() < 4, "{setting:?}: {line}");
        }
    }
}

#[test]
fn s4_other_processes_stay_as_they_are() {
    for setting in settings() {
        let arena = Arena::new(setting);
        let (daemon, other) = (arena.scripted.daemon.pid(), arena.bystander("613"));
        let victims = [daemon, other.number()];
        let before = victims.map(standing);
        assert!(before.iter().all(|standing| standing[1].starts_with("true")), "{before:?}");
        let mut script = "exec 2>&1; ".to_owned();
        for victim in victims {
            script += &format!(
                "prlimit --pid {victim} --cpu=1:1; prlimit --pid {victim} --fsize=0:0; renice -n 5 -p {victim}; \
                 taskset -p 1 {victim}; chrt -b -p 0 {victim}; ionice -c3 -p {victim}; kill -STOP {victim}; \
                 kill -9 {victim}; kill -9 -{victim}; \
                 python3 -c \"{PYTHON}; f=os.pidfd_open({victim}); import signal; signal.pidfd_send_signal(f,9)\"; \
                 python3 -c \"{PYTHON}; print('attach', l.ptrace(16,{victim},0,0))\"; \
                 head -c1 /proc/{victim}/mem; cat /proc/{victim}/environ; "
            );
        }
        script += "prlimit --pid $PPID --fsize=0:0; kill -9 $PPID; renice -n 1 -u $(id -u); kill -CONT -1; echo end";
        let said = arena.run(&script);
        let after = victims.map(standing);
        assert_eq!(after, before, "{setting:?}: {said}");
        // The daemon still writes files and answers.
        let said = arena.run("echo still here");
        assert!(said.contains("still here"), "{setting:?}: {said}");
    }
}

#[test]
fn s5_nothing_outlives_its_call() {
    for setting in settings() {
        let arena = Arena::new(setting);
        for command in [
            "setsid env -i sleep SECONDS & sleep 0.05",
            "setsid -f env -i sleep SECONDS",
            "(setsid bash -c 'setsid sleep SECONDS & disown; exit' &) ; sleep 0.1",
            "nohup setsid env -i bash -c 'trap \"\" TERM HUP; (sleep SECONDS &); exec sleep SECONDS' >/dev/null 2>&1 & \
             sleep 0.1",
            "for i in $(seq 100); do setsid -f env -i sleep SECONDS >/dev/null 2>&1; done",
        ] {
            let sleep = format!("614.{}", std::process::id());
            arena.run(&command.replace("SECONDS", &sleep));
            assert_eq!(sleepers(&sleep), 0, "{setting:?}: {command}");
        }
    }
}

#[test]
fn s5_nothing_outlives_a_daemon_that_was_killed() {
    for setting in settings() {
        let arena = Arena::new(setting);
        let sleep = format!("615.{}{}{}", std::process::id(), setting.tier as u8, u8::from(setting.is_root));
        let command = format!("setsid -f env -i sleep {sleep} >/dev/null 2>&1; sleep {sleep}");
        arena.scripted.begin_work(&json!([["bash", { "command": command }]]));
        until("the command runs", Duration::from_secs(30), || (sleepers(&sleep) == 2).then_some(()));
        let Arena { scripted, .. } = arena;
        scripted.daemon.kill9();
        until("nothing is left", Duration::from_secs(10), || (sleepers(&sleep) == 0).then_some(()));
    }
}

#[test]
fn s5_nothing_outlives_a_helper_that_was_killed() {
    // Without namespaces and tracing this is a gap that `doctor` names.
    for setting in settings().into_iter().filter(|setting| setting.tier != Tier::Landlock) {
        let arena = Arena::new(setting);
        let sleep = format!("616.{}{}{}", std::process::id(), setting.tier as u8, u8::from(setting.is_root));
        let command = format!("setsid -f env -i sleep {sleep} >/dev/null 2>&1; sleep {sleep}");
        let begun = arena.scripted.begin_work(&json!([["bash", { "command": command }]]));
        until("the command runs", Duration::from_secs(30), || (sleepers(&sleep) == 2).then_some(()));
        for helper in children(arena.scripted.daemon.pid()) {
            let helper = rustix::process::Pid::from_raw(helper).unwrap();
            rustix::process::kill_process(helper, rustix::process::Signal::KILL).unwrap();
        }
        until("nothing is left", Duration::from_secs(10), || (sleepers(&sleep) == 0).then_some(()));
        arena.scripted.finish(&begun);
    }
}

#[test]
fn s5_a_command_may_use_its_grace() {
    for setting in settings() {
        let arena = Arena::new(setting);
        let command = "trap 'echo saved > kept; exit 0' TERM; while :; do sleep 0.05; done";
        arena.scripted.work(&json!([["bash", { "command": command, "timeout_ms": 1500 }]]));
        assert_eq!(arena.scripted.workspace.file("home/kept"), "saved\n", "{setting:?}");
    }
}

#[test]
fn s11_no_socket_reaches_outside() {
    for setting in settings() {
        let arena = Arena::new(setting);
        let place = arena.scripted.workspace.path("home/heard");
        let listener = UnixDatagram::bind(&place).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut script = "exec 2>&1; ".to_owned();
        for kind in 1..=10 {
            script += &format!(
                "python3 -c \"{PYTHON}; a,b=socket.socketpair(socket.AF_UNIX,{kind}); a.sendto(b'hi','{}')\"; ",
                place.display()
            );
        }
        let pair = format!(
            "python3 -c \"{PYTHON}; a,b=socket.socketpair(); a.send(b'x'); print('pair', b.recv(1))\"; echo end"
        );
        let said = arena.run(&(script + &pair));
        assert!(said.contains("pair b'x'"), "connected pairs work, {setting:?}: {said}");
        let heard = listener.recv(&mut [0; 8]);
        assert!(heard.is_err(), "{setting:?}: a datagram arrived");
    }
}

#[test]
fn s12_memory_and_disk_of_others_are_spared() {
    for setting in settings() {
        let arena = Arena::new(setting);
        let shared = || std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
        let before = shared();
        let said = arena.run("exec 2>&1; ipcmk -M 1000000; ipcmk -Q; cat /proc/$$/oom_score_adj; ulimit -d");
        assert_eq!(shared(), before, "{setting:?}: {said}");
        assert!(said.contains("500\n"), "{setting:?}: {said}");
        assert!(!said.contains("unlimited"), "{setting:?}: {said}");
        let daemon = arena.scripted.daemon.pid();
        let score = std::fs::read_to_string(format!("/proc/{daemon}/oom_score_adj")).unwrap();
        assert!(score.trim().parse::<i32>().unwrap() < 500, "{score}");
    }
}

#[test]
fn s12_a_command_that_fills_the_disk_is_ended() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can mount a small disk");
        return;
    }
    let scripted = Scripted::start(|_| {});
    let small = scripted.workspace.path("home");
    let mount = |arguments: &[&str]| run("mount", arguments);
    mount(&["-t", "tmpfs", "-o", "size=120m", "none", small.to_str().unwrap()]);
    let done = scripted.work(&json!([["bash", {
        "command": "head -c 100M /dev/zero > big; sleep 60; echo not ended", "timeout_ms": 50_000
    }]]));
    let again = scripted.work(&json!([["bash", { "command": "rm big && echo removed" }]]));
    run("umount", &["-l", small.to_str().unwrap()]);
    assert!(done.results[0].contains("because the disk was nearly full"), "{done:?}");
    assert!(again.results[0].contains("removed"), "{again:?}");
}

/// Programs people work with: what each does, and the program without which it is skipped.
const WORK: &[(&str, &str)] = &[
    (
        "git",
        "git init -q r && cd r && echo 1 > f && git add f && git commit -qm one && git gc -q && git checkout -qb b && \
         git status --short && git stash list",
    ),
    (
        "tar",
        "mkdir -p t/a && echo 1 > t/a/f && chmod 755 t/a/f && tar czf t.tgz t && rm -r t && tar xzf t.tgz && [ -x t/a/f ]",
    ),
    (
        "cp",
        "echo 1 > c1 && touch -d 2020-01-01 c1 && cp -p c1 c2 && [ \"$(stat -c %Y c1)\" = \"$(stat -c %Y c2)\" ] && cp -a c1 c3 && install -m 755 c1 c4",
    ),
    (
        "make",
        "printf 'all: out\\nout: in\\n\\tcp in out\\n' > Makefile && echo 1 > in && make -s && [ -e out ]",
    ),
    (
        "gcc",
        "printf '#include <stdio.h>\\nint main(void){puts(\"built\");}' > m.c && gcc -O1 m.c -o m && ./m | grep -q built",
    ),
    (
        "python3",
        "python3 -m venv v && v/bin/python -c 'import json, ssl, sqlite3' && v/bin/python -m pip --version",
    ),
    (
        "python3",
        "python3 -c 'import multiprocessing as m; p=m.Pool(2); print(sum(p.map(abs,range(9))))' | grep -q 36 || [ \"$HAS_NAMESPACES\" = false ]",
    ),
    (
        "python3",
        "python3 -c 'import numpy; print(numpy.ones((200,200)).dot(numpy.ones((200,200))).sum())' 2>&1 | grep -Eq '8000000|No module'",
    ),
    (
        "npm",
        "mkdir -p n && cd n && npm init -y >/dev/null && npm pack --silent >/dev/null && node -e 'require(\"fs\").writeFileSync(\"x\",\"1\")'",
    ),
    (
        "cargo",
        "cargo init -q --vcs none --name hello made && cd made && cargo build -q --offline && ./target/debug/hello | grep -q Hello",
    ),
    (
        "mktemp",
        "t=$(mktemp) && echo 1 > $t && d=$(mktemp -d) && mv $t $d/x && diff <(echo a) <(echo a) && kill -0 $$ && sleep 9 & kill $! && wait $!; [ $? = 143 ]",
    ),
];

#[test]
fn ordinary_work_goes_on_in_every_tier() {
    for setting in settings() {
        let arena = Arena::new(setting);
        let mut said = String::new();
        for (number, (program, work)) in WORK.iter().enumerate() {
            said += &arena.run(&format!(
                "export HAS_NAMESPACES={}; mkdir -p w{number}; if command -v {program} >/dev/null; then \
                 if ( cd w{number}; {work} ) > w{number}/said 2>&1; then echo 'worked: {program}'; \
                 else echo 'FAILED: {program} {number}'; tail -5 w{number}/said; fi; \
                 else echo 'SKIPPED: {program}'; fi",
                setting.tier == Tier::Namespaces
            ));
        }
        println!("{setting:?}\n{said}");
        assert!(!said.contains("FAILED"), "{setting:?}: {said}");
        assert!(said.contains("worked: git") && said.contains("worked: tar"), "{setting:?}: {said}");
    }
}

#[test]
fn the_tier_is_named() {
    for setting in settings() {
        let arena = Arena::new(setting);
        let workspace = &arena.scripted.workspace;
        assert!(workspace.nexus(&["status"]).ok().stdout.contains("not tried yet"), "{setting:?}");
        arena.run("true");
        let status = workspace.nexus(&["status"]).ok().stdout;
        let doctor = setting.tier.during(|| workspace.nexus(&["doctor"]).stdout);
        for said in [status, doctor] {
            assert!(said.contains(setting.tier.name()), "{setting:?}: {said}");
            assert_eq!(
                said.contains("not covered: "),
                setting.tier != Tier::Namespaces,
                "{setting:?}: {said}"
            );
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a disk of the test's own")]
fn run(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
}

/// The processes that one started.
fn children(parent: u32) -> Vec<i32> {
    let table = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = table.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent_of = |number: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    numbers.filter(|number| parent_of(number) == Some(parent)).collect()
}

/// How many processes live that sleep for so long.
fn sleepers(seconds: &str) -> usize {
    let needle = format!("sleep\0{seconds}\0").into_bytes();
    let table = std::fs::read_dir("/proc").unwrap().flatten();
    table
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| line.ends_with(&needle))
        .count()
}
