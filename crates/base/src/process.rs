//! Processor time and memory of this process.

/// Returns the processor time in nanoseconds that this process has used.
#[must_use]
pub fn cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let part = |number| u64::try_from(number).unwrap_or(0);
    part(used.tv_sec) * 1_000_000_000 + part(used.tv_nsec)
}

/// Returns the bytes of memory that this process has at present; 0 where the system does not say.
#[must_use]
pub fn memory_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/status").map_or(0, |status| resident_bytes(&status))
}

/// The resident memory by the text of `/proc/self/status`, which counts in KiB.
fn resident_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_both() {
        assert!(cpu_ns() > 0);
        assert!(!cfg!(target_os = "linux") || memory_bytes() > 1 << 16);
        assert_eq!(resident_bytes("VmHWM:\t 7 kB\nVmRSS:\t    12 kB\n"), 12 << 10);
        assert_eq!(resident_bytes("Name:\tgemelo\n"), 0);
    }
}
