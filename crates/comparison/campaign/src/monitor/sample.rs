//! One look at the counters of the system and of the watched processes, from `/proc`.

use super::{KernelMemory, Parts};
use crate::process::stat_fields;
use crate::system::busy_ticks;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::Path;

/// Unit of the counters of `/proc/diskstats`, in bytes.
const SECTOR_BYTES: u64 = 512;

/// Prefixes of block devices whose data also pass through another device, or through none.
const VIRTUAL_DISKS: [&str; 8] = ["loop", "ram", "zram", "dm-", "md", "nbd", "sr", "fd"];

/// Most processes that are watched. It bounds the cost of a look.
const MAX_PROCESSES: usize = 1000;

/// Counters at one moment. Those of time and of bytes only grow.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// Nanoseconds since the start of the run.
    pub(super) at_ns: u64,
    /// `true` if the look was asked for, as the beginning or the end of a phase.
    pub(super) is_asked: bool,
    /// Time that all processors were busy, in clock ticks.
    pub(super) busy_ticks: u64,
    pub(super) memory_bytes: u64,
    pub(super) disk_read_bytes: u64,
    pub(super) disk_written_bytes: u64,
    pub(super) network_bytes: u64,
    /// Processor time in clock ticks of each watched process.
    pub(super) process_ticks: BTreeMap<u32, u64>,
    /// Memory of the watched processes together.
    pub(super) process_memory_bytes: u64,
    /// Memory of a target in the kernel, if it can be told.
    pub(super) kernel_memory_bytes: Option<u64>,
    /// Processor time of the monitor.
    pub(super) own_ns: u64,
}

impl Sample {
    /// Looks at all counters. Processes are watched with all that they have started.
    pub(super) fn take(at_ns: u64, watched: &Parts) -> Self {
        let (disk_read_bytes, disk_written_bytes) = disks(&text("/proc/diskstats"));
        let mut sample = Self {
            at_ns,
            busy_ticks: busy_ticks(&text("/proc/stat")),
            memory_bytes: used_memory(&text("/proc/meminfo")),
            disk_read_bytes,
            disk_written_bytes,
            network_bytes: network(&text("/proc/net/dev")),
            kernel_memory_bytes: watched.kernel.as_ref().and_then(KernelMemory::bytes),
            ..Self::default()
        };
        for pid in family(&watched.pids) {
            sample.look_at(pid);
        }
        sample.own_ns = thread_ns();
        sample
    }

    /// Returns whether the target has processes.
    pub(super) fn has_processes(&self) -> bool {
        !self.process_ticks.is_empty()
    }

    fn look_at(&mut self, pid: u32) {
        let Some(fields) = stat_fields(pid) else { return };
        // Fields 14, 15 and 24 of stat(5); the first after the name is field 3.
        let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
        let ticks = number(11).unwrap_or(0) + number(12).unwrap_or(0);
        self.process_ticks.insert(pid, ticks);
        let pages = number(21).unwrap_or(0);
        self.process_memory_bytes += pages.saturating_mul(rustix::param::page_size() as u64);
    }
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the processor time of this thread.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

fn used_memory(meminfo: &str) -> u64 {
    let of = |name: &str| -> u64 {
        let line = meminfo.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    of("MemTotal:").saturating_sub(of("MemAvailable:")) * 1024
}

/// Returns the bytes read from and written to all physical disks.
fn disks(diskstats: &str) -> (u64, u64) {
    let mut sums = (0, 0);
    for line in diskstats.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(read), Some(written)) = (fields.get(2), fields.get(5), fields.get(9))
        else {
            continue;
        };
        // A partition is not in /sys/block, and its disk is counted already.
        let is_physical = !VIRTUAL_DISKS.iter().any(|prefix| name.starts_with(prefix))
            && Path::new("/sys/block").join(name).exists();
        if is_physical {
            sums.0 += read.parse::<u64>().unwrap_or(0) * SECTOR_BYTES;
            sums.1 += written.parse::<u64>().unwrap_or(0) * SECTOR_BYTES;
        }
    }
    sums
}

/// Returns the bytes that all interfaces but the loopback have received and sent.
fn network(dev: &str) -> u64 {
    let of_line = |line: &str| -> Option<u64> {
        let (name, counters) = line.split_once(':')?;
        let counters: Vec<u64> =
            counters.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        (name.trim() != "lo")
            .then(|| counters.first().copied().zip(counters.get(8).copied()))?
            .map(|(received, sent)| received + sent)
    };
    dev.lines().filter_map(of_line).sum()
}

/// Returns processes and all processes that they have started, directly or not.
fn family(roots: &[u32]) -> Vec<u32> {
    let mut found = Vec::new();
    let mut pending = roots.to_vec();
    while let Some(pid) = pending.pop() {
        if found.len() >= MAX_PROCESSES || found.contains(&pid) {
            continue;
        }
        found.push(pid);
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.path().join("children"));
            let children = children.unwrap_or_default();
            pending.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_proc_are_read() {
        assert_eq!(busy_ticks("cpu  10 1 5 1000 70 2 3 4 9 9\ncpu0 1 1\n"), 25);
        assert_eq!(
            used_memory("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 60 kB\n"),
            40 * 1024
        );
        let dev =
            "Inter-|   Receive\n    lo: 5 0 0 0 0 0 0 0 5 0\n  eth0: 100 1 0 0 0 0 0 0 23 4\n";
        assert_eq!(network(dev), 123);
        assert_eq!(disks("   7       0 loop0 1 1 8 1 1 1 8 1\n"), (0, 0));
    }

    #[test]
    fn a_process_and_its_children_are_watched() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "sleep 60; true"]).spawn().unwrap();
        let watched = Parts { pids: vec![child.id()], kernel: None };
        let mut sample = Sample::take(0, &watched);
        gemelo_tools::wait_until("the child has a child", || {
            sample = Sample::take(0, &watched);
            sample.process_ticks.len() == 2
        });
        assert!(sample.process_memory_bytes > 0);
        for pid in sample.process_ticks.keys() {
            let pid = rustix::process::Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
    }
}
