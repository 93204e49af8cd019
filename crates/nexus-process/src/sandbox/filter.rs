//! Seccomp: the system calls a sandboxed program gets refused, and with which error.
//!
//! A deny list on purpose: an allow list breaks with every new libc, and files are guarded by Landlock. What
//! is listed leads around Landlock (descriptors, mounts, tracing), to the network, or into rarely used parts
//! of the kernel.

mod tables;

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use tables::{
    AS_IT_IS, ATTRIBUTES, CONNECTED_KINDS, FLAG_REQUESTS, IOPRIO_OF_USER, MODE_CALLS, NAMESPACE_FLAGS,
    OF_A_PROCESS, OWNER_CALLS, REFUSED, SET_GROUP, SET_USER, SHARED_MEMORY, SIGNALS_SINCE, TRACED,
    TRUNCATE_SINCE, TYPING_REQUESTS,
};

use super::{Network, Tier};

/// Calls with this bit use the x32 convention on x86-64 and must be filtered under both numbers.
#[cfg(target_arch = "x86_64")]
const X32_BIT: i64 = 0x4000_0000;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What decides about the rules.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) network: Network,
    pub(super) tier: Tier,
    /// Processes that are not to be signalled.
    pub(super) protected: &'a [i32],
    pub(super) landlock_abi: u32,
    pub(super) user: u32,
    pub(super) group: u32,
}

/// Filters the calling thread, and everything it becomes or starts.
pub(super) fn apply(surroundings: &Surroundings<'_>) -> Result<(), String> {
    let refusals = filters(surroundings)?.into_iter().map(|(rules, error)| {
        let error = u32::try_from(error).unwrap_or(1);
        (rules, SeccompAction::Errno(error))
    });
    let traced = match surroundings.tier {
        Tier::Broker => Some((traced(), SeccompAction::Trace(0))),
        Tier::Namespaces | Tier::Landlock => None,
    };
    for (rules, action) in refusals.chain(traced) {
        let architecture = std::env::consts::ARCH.try_into().map_err(text)?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture).map_err(text)?;
        let program: BpfProgram = filter.try_into().map_err(text)?;
        seccompiler::apply_filter(&program)
            .map_err(|error| format!("setting up the system call filter: {error}"))?;
    }
    Ok(())
}

/// One rule set for each error code, since a filter has one answer.
fn filters(surroundings: &Surroundings<'_>) -> Result<Vec<(Rules, i32)>, String> {
    let mut refused = Rules::new();
    for call in REFUSED {
        refuse(&mut refused, *call);
    }
    for flag in NAMESPACE_FLAGS {
        let bit = u64::from(flag.cast_unsigned());
        refuse_when(&mut refused, libc::SYS_clone, &[(0, SeccompCmpOp::MaskedEq(bit), bit)])?;
    }
    for request in TYPING_REQUESTS {
        refuse_when(&mut refused, libc::SYS_ioctl, &[(1, SeccompCmpOp::Eq, *request)])?;
    }
    modes(&mut refused, surroundings.user == 0)?;
    owners(&mut refused, surroundings)?;
    // Its flags lie in memory a filter cannot read. "Not implemented" makes every libc use `clone`.
    let mut absent = Rules::new();
    refuse(&mut absent, libc::SYS_clone3);
    match surroundings.tier {
        // Whatever can be named there is the program's own; only "all of my user" reaches further on old kernels.
        Tier::Namespaces => {
            let user = u64::from(libc::PRIO_USER);
            refuse_when(&mut refused, libc::SYS_setpriority, &[(0, SeccompCmpOp::Eq, user)])?;
            refuse_when(&mut refused, libc::SYS_ioprio_set, &[(0, SeccompCmpOp::Eq, IOPRIO_OF_USER)])?;
        }
        Tier::Broker => {
            without_namespaces(surroundings, &mut refused, &mut absent)?;
            // A child that is not traced would outlive its supervisor.
            let untraced = u64::from(libc::CLONE_UNTRACED.cast_unsigned());
            refuse_when(&mut refused, libc::SYS_clone, &[(0, SeccompCmpOp::MaskedEq(untraced), untraced)])?;
            #[cfg(target_arch = "x86_64")]
            for call in TRACED {
                refused.entry(call | X32_BIT).or_default();
            }
        }
        Tier::Landlock => without_namespaces(surroundings, &mut refused, &mut absent)?,
    }

    let mut unsupported = Rules::new();
    for call in ATTRIBUTES {
        refuse(&mut unsupported, *call);
    }
    for request in FLAG_REQUESTS {
        refuse_when(&mut unsupported, libc::SYS_ioctl, &[(1, SeccompCmpOp::Eq, *request)])?;
    }

    let (local, internet) = sockets(surroundings.network)?;
    Ok(vec![
        (refused, libc::EPERM),
        (absent, libc::ENOSYS),
        (unsupported, libc::EOPNOTSUPP),
        (local, libc::EACCES),
        (internet, libc::ENETUNREACH),
    ])
}

/// The calls a tracing supervisor makes in the program's place, under their ordinary numbers.
fn traced() -> Rules {
    TRACED.iter().map(|call| (*call, Vec::new())).collect()
}

/// What namespaces cover elsewhere: other processes, shared memory, truncation on old kernels.
fn without_namespaces(
    surroundings: &Surroundings<'_>,
    refused: &mut Rules,
    absent: &mut Rules,
) -> Result<(), String> {
    for call in SHARED_MEMORY {
        refuse(refused, *call);
    }
    if surroundings.landlock_abi < TRUNCATE_SINCE {
        refuse(refused, libc::SYS_truncate);
    }
    for call in OF_A_PROCESS {
        refuse_when(refused, *call, &[(0, SeccompCmpOp::Ne, 0)])?;
    }
    // (1, 0) and (0, 0) are the caller itself.
    for (call, own) in [(libc::SYS_ioprio_set, 1), (libc::SYS_setpriority, 0)] {
        refuse_when(refused, call, &[(0, SeccompCmpOp::Ne, own)])?;
        refuse_when(refused, call, &[(1, SeccompCmpOp::Ne, 0)])?;
    }
    // Landlock keeps signals inside on new kernels; the daemon and the supervisor are guarded on all.
    if surroundings.landlock_abi < SIGNALS_SINCE {
        refuse(absent, libc::SYS_pidfd_send_signal);
    }
    let protected = surroundings.protected.iter().flat_map(|process| [*process, -process]);
    for target in protected.chain([-1]) {
        let target = u64::from(target.cast_unsigned());
        for call in [
            libc::SYS_kill,
            libc::SYS_tkill,
            libc::SYS_tgkill,
            libc::SYS_rt_sigqueueinfo,
            libc::SYS_rt_tgsigqueueinfo,
        ] {
            refuse_when(refused, call, &[(0, SeccompCmpOp::Eq, target)])?;
        }
    }
    Ok(())
}

/// Refuses to give files away. Root's archive programs say of every file that it is root's; without the capability the
/// kernel lets that pass for root's own files only.
fn owners(refused: &mut Rules, surroundings: &Surroundings<'_>) -> Result<(), String> {
    let (user, group) = (u64::from(surroundings.user), u64::from(surroundings.group));
    let may_repeat = surroundings.user == 0 || surroundings.tier == Tier::Namespaces;
    for (call, argument) in OWNER_CALLS {
        if !may_repeat {
            refuse(refused, *call);
            continue;
        }
        for (argument, own) in [(*argument, user), (argument + 1, group)] {
            let others = [(argument, SeccompCmpOp::Ne, own), (argument, SeccompCmpOp::Ne, AS_IT_IS)];
            refuse_when(refused, *call, &others)?;
        }
    }
    Ok(())
}

/// Refuses modes that would make others run a program's file as its owner. The bit of the group is ordinary on
/// folders, so only root's is refused.
fn modes(refused: &mut Rules, is_root: bool) -> Result<(), String> {
    let bits = if is_root { [Some(SET_USER), Some(SET_GROUP)] } else { [Some(SET_USER), None] };
    for bit in bits.into_iter().flatten() {
        for (call, argument) in MODE_CALLS {
            refuse_when(refused, *call, &[(*argument, SeccompCmpOp::MaskedEq(bit), bit)])?;
        }
        let creates = u64::from(libc::O_CREAT.cast_unsigned());
        #[cfg(target_arch = "x86_64")]
        {
            refuse_when(refused, libc::SYS_creat, &[(1, SeccompCmpOp::MaskedEq(bit), bit)])?;
            refuse_when(refused, libc::SYS_mknod, &[(1, SeccompCmpOp::MaskedEq(bit), bit)])?;
            let made = [(1, SeccompCmpOp::MaskedEq(creates), creates), (2, SeccompCmpOp::MaskedEq(bit), bit)];
            refuse_when(refused, libc::SYS_open, &made)?;
        }
        refuse_when(refused, libc::SYS_mknodat, &[(2, SeccompCmpOp::MaskedEq(bit), bit)])?;
        let made = [(2, SeccompCmpOp::MaskedEq(creates), creates), (3, SeccompCmpOp::MaskedEq(bit), bit)];
        refuse_when(refused, libc::SYS_openat, &made)?;
    }
    Ok(())
}

/// Socket rules: those refused as local ones, those refused as unreachable network.
fn sockets(network: Network) -> Result<(Rules, Rules), String> {
    let family = |family: i32| u64::from(family.cast_unsigned());
    let (unix, four, six, link) =
        (family(libc::AF_UNIX), family(libc::AF_INET), family(libc::AF_INET6), family(libc::AF_NETLINK));
    let mut local = Rules::new();
    // A named local socket leads to the owner's other programs (containers, key agents, the session bus), and
    // a filter cannot see which one. Connected pairs are
    // harmless; datagram and raw ones can be sent anywhere.
    refuse_when(&mut local, libc::SYS_socket, &[(0, SeccompCmpOp::Eq, unix)])?;
    for kind in (0..=0xf).filter(|kind| !CONNECTED_KINDS.contains(kind)) {
        refuse_when(&mut local, libc::SYS_socketpair, &[(1, SeccompCmpOp::MaskedEq(0xf), kind)])?;
    }
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
