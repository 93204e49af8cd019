//! Seccomp: the system calls a sandboxed program gets refused, and with which error.
//!
//! A deny list on purpose: an allow list breaks with every new libc, and files are guarded by Landlock. What
//! is listed leads around Landlock (descriptors, mounts, tracing), to the network, or into rarely used parts
//! of the kernel.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::Network;

/// Calls with this bit use the x32 convention on x86-64 and must be filtered under both numbers.
#[cfg(target_arch = "x86_64")]
const X32_BIT: i64 = 0x4000_0000;

/// Refused whatever their arguments.
const REFUSED: &[i64] = &[
    // Looking into or steering other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    // Another view of the file system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    libc::SYS_unshare,
    // Its requests (sockets among them) pass no filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The owner's key ring.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The kernel itself and the machine as a whole.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// `clone` flags that make a new namespace.
const NAMESPACE_FLAGS: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Terminal requests that type into somebody else's terminal.
const TYPING_REQUESTS: &[u64] = &[0x5412, 0x541C];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Filters the calling thread, and everything it becomes or starts.
pub(super) fn apply(
    network: Network,
    protected_process: i32,
    truncate_is_guarded: bool,
) -> Result<(), String> {
    for (rules, error) in filters(network, protected_process, truncate_is_guarded)? {
        let error = u32::try_from(error).unwrap_or(1);
        let architecture = std::env::consts::ARCH.try_into().map_err(text)?;
        let filter =
            SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error), architecture)
                .map_err(text)?;
        let program: BpfProgram = filter.try_into().map_err(text)?;
        seccompiler::apply_filter(&program)
            .map_err(|error| format!("setting up the system call filter: {error}"))?;
    }
    Ok(())
}

/// One rule set for each error code, since a filter has one answer.
fn filters(
    network: Network,
    protected_process: i32,
    truncate_is_guarded: bool,
) -> Result<Vec<(Rules, i32)>, String> {
    let mut refused = Rules::new();
    for call in REFUSED {
        refuse(&mut refused, *call);
    }
    if !truncate_is_guarded {
        refuse(&mut refused, libc::SYS_truncate);
    }
    for flag in NAMESPACE_FLAGS {
        let bit = u64::from(flag.cast_unsigned());
        refuse_when(&mut refused, libc::SYS_clone, &[(0, SeccompCmpOp::MaskedEq(bit), bit)])?;
    }
    for request in TYPING_REQUESTS {
        refuse_when(&mut refused, libc::SYS_ioctl, &[(1, SeccompCmpOp::Eq, *request)])?;
    }
    // Landlock keeps signals inside on new kernels; the daemon is guarded on all.
    for target in [protected_process, -protected_process, -1] {
        let target = u64::from(target.cast_unsigned());
        for call in [libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo] {
            refuse_when(&mut refused, call, &[(0, SeccompCmpOp::Eq, target)])?;
        }
    }

    // Its flags lie in memory a filter cannot read. "Not implemented" makes every libc use `clone`.
    let mut absent = Rules::new();
    refuse(&mut absent, libc::SYS_clone3);

    let (local, internet) = sockets(network)?;
    Ok(vec![
        (refused, libc::EPERM),
        (absent, libc::ENOSYS),
        (local, libc::EACCES),
        (internet, libc::ENETUNREACH),
    ])
}

/// Socket rules: those refused as local ones, those refused as unreachable network.
fn sockets(network: Network) -> Result<(Rules, Rules), String> {
    let family = |family: i32| u64::from(family.cast_unsigned());
    let (unix, four, six, link) =
        (family(libc::AF_UNIX), family(libc::AF_INET), family(libc::AF_INET6), family(libc::AF_NETLINK));
    let mut local = Rules::new();
    // A named local socket leads to the owner's other programs (containers, key agents, the session bus), and
    // a filter cannot see which one. Pairs are harmless once connected; datagram pairs can be re-addressed.
    refuse_when(&mut local, libc::SYS_socket, &[(0, SeccompCmpOp::Eq, unix)])?;
    let datagram = u64::from(libc::SOCK_DGRAM.cast_unsigned());
    refuse_when(&mut local, libc::SYS_socketpair, &[(1, SeccompCmpOp::MaskedEq(0xf), datagram)])?;
    refuse_when(&mut local, libc::SYS_socketpair, &[(0, SeccompCmpOp::Ne, unix)])?;

    let mut internet = Rules::new();
    match network {
        Network::Off => {
            refuse_when(&mut internet, libc::SYS_socket, &[(0, SeccompCmpOp::Ne, unix)])?;
        }
        Network::On => {
            let others = [unix, four, six, link].map(|family| (0, SeccompCmpOp::Ne, family));
            refuse_when(&mut internet, libc::SYS_socket, &others)?;
            let raw = u64::from(libc::SOCK_RAW.cast_unsigned());
            for family in [four, six] {
                let raw_socket = [(0, SeccompCmpOp::Eq, family), (1, SeccompCmpOp::MaskedEq(0xf), raw)];
                refuse_when(&mut internet, libc::SYS_socket, &raw_socket)?;
            }
            // Protocol 0 lists addresses and routes, which name resolution asks for.
            let other_link = [(0, SeccompCmpOp::Eq, link), (2, SeccompCmpOp::Ne, 0)];
            refuse_when(&mut internet, libc::SYS_socket, &other_link)?;
        }
    }
    Ok((local, internet))
}

/// Refuses a call whatever its arguments.
fn refuse(rules: &mut Rules, call: i64) {
    for number in numbers(call) {
        rules.entry(number).or_default();
    }
}

/// Refuses a call when every condition holds; several such rules are alternatives.
fn refuse_when(rules: &mut Rules, call: i64, conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<(), String> {
    for number in numbers(call) {
        rules.entry(number).or_default().push(rule(conditions)?);
    }
    Ok(())
}

fn numbers(call: i64) -> impl Iterator<Item = i64> {
    [
        Some(call),
        #[cfg(target_arch = "x86_64")]
        Some(call | X32_BIT),
    ]
    .into_iter()
    .flatten()
}

/// A rule that matches when every condition (argument, comparison, value) holds, on the low 32 bits.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, String> {
    let conditions = conditions
        .iter()
        .map(|(argument, operation, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operation.clone(), *value).map_err(text)
        })
        .collect::<Result<Vec<_>, _>>()?;
    SeccompRule::new(conditions).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    format!("building the system call filter: {error}")
}
