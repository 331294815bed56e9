//! `launch confine`: becomes a program that can make no sockets but pairs, no namespaces, and no calls that programs of
//! models do not need. It is the last step of the sandbox, after the namespaces have been made.

use std::convert::Infallible;
use std::ffi::OsString;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

use crate::become_program;

/// System calls that are refused with `EPERM`, whatever their arguments are: sockets, namespaces and mounts, other
/// processes, the kernel itself.
const REFUSED: [i64; 50] = [
    libc::SYS_socket,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_personality,
];

/// System calls that the kernel seems not to have, so that programs use others: the arguments of `clone3` cannot be checked,
/// and `io_uring` makes calls past the filter.
const ABSENT: [i64; 4] =
    [libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Flags of `clone` that make namespaces.
const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    CLONE_NEWTIME,
];
/// Missing in `libc`.
const CLONE_NEWTIME: i32 = 0x80;

/// Calls of the x32 interface have the numbers of x86-64 with this bit.
#[cfg(target_arch = "x86_64")]
const OTHER_INTERFACE: Option<i64> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const OTHER_INTERFACE: Option<i64> = None;

/// Becomes a confined program.
pub(crate) fn exec_confined(argv: &[OsString]) -> Result<Infallible, String> {
    let built = filters().map_err(|error| format!("the system-call filter cannot be made: {error}"))?;
    for filter in built {
        apply_filter(&filter).map_err(|error| format!("the system-call filter cannot be applied: {error}"))?;
    }
    become_program(argv)
}

/// The filters; a call passes if no one refuses it.
fn filters() -> Result<[BpfProgram; 2], seccompiler::Error> {
    let mut refused: Vec<(i64, Vec<SeccompRule>)> = REFUSED.map(|call| (call, Vec::new())).into();
    let clone = NAMESPACES.map(|flag| {
        let flag = flag.cast_unsigned().into();
        rule(0, SeccompCmpOp::MaskedEq(flag), flag)
    });
    refused.push((libc::SYS_clone, clone.into_iter().collect::<Result<_, _>>()?));
    let unix = libc::AF_UNIX.cast_unsigned().into();
    refused.push((libc::SYS_socketpair, vec![rule(0, SeccompCmpOp::Ne, unix)?]));
    let absent = ABSENT.map(|call| (call, Vec::new())).into();
    Ok([filter(refused, libc::EPERM)?, filter(absent, libc::ENOSYS)?])
}

fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::Error> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}

fn filter(calls: Vec<(i64, Vec<SeccompRule>)>, errno: i32) -> Result<BpfProgram, seccompiler::Error> {
    let others: Vec<_> = OTHER_INTERFACE
        .into_iter()
        .flat_map(|bit| calls.iter().map(move |(call, rules)| (call | bit, rules.clone())))
        .collect();
    let rules = calls.into_iter().chain(others).collect();
    let action = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_can_be_built() {
        let built = filters().expect("the rules are valid");
        assert!(built.iter().all(|filter| !filter.is_empty()));
    }
}
