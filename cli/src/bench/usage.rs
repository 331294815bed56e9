//! CPU time and memory of processes, from `/proc`.

use std::fs;

/// CPU time and peak memory of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUsage {
    /// User and system time, microseconds; the kernel counts in ticks of 10 ms.
    pub cpu_us: u64,
    /// Peak resident memory, bytes.
    pub peak_bytes: u64,
}

/// Kernel ticks a second, as `/proc/<pid>/stat` counts (`USER_HZ`, fixed at 100 on Linux).
const TICKS_PER_SECOND: u64 = 100;

/// Reads a process's usage; zero where `/proc` has none.
pub fn process_usage(pid: u32) -> ProcessUsage {
    ProcessUsage { cpu_us: cpu_us(pid).unwrap_or(0), peak_bytes: peak_bytes(pid).unwrap_or(0) }
}

fn cpu_us(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks * 1_000_000 / TICKS_PER_SECOND)
}

fn peak_bytes(pid: u32) -> Option<u64> {
    memory_bytes(pid, "VmHWM:")
}

/// The resident memory of a process; zero where `/proc` has none.
pub fn resident_bytes(pid: u32) -> u64 {
    memory_bytes(pid, "VmRSS:").unwrap_or(0)
}

fn memory_bytes(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1_024)
}
