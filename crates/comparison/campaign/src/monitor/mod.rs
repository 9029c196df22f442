//! The monitor: a thread that looks at the system and at the processes of a target every second.

mod kernel;
mod sample;

pub(crate) use kernel::KernelMemory;

use gemelo_base::{Clock, SystemClock};
use gemelo_record::{Better, Series, Stats};
use sample::Sample;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time from one look to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// Most looks of one run that are kept: a day. Later ones are not taken.
const MAX_SAMPLES: usize = 86_400;

/// What belongs to the target: its processes, and its memory in the kernel. Both are told while the
/// monitor runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    parts: Arc<Mutex<Parts>>,
}

#[derive(Debug, Clone, Default)]
struct Parts {
    pids: Vec<u32>,
    kernel: Option<KernelMemory>,
}

impl Watched {
    pub(crate) fn add(&self, pid: u32) {
        if let Ok(mut parts) = self.parts.lock()
            && !parts.pids.contains(&pid)
        {
            parts.pids.push(pid);
        }
    }

    /// Has the memory counted that a target in the kernel takes.
    pub(crate) fn add_kernel(&self, memory: KernelMemory) {
        if let Ok(mut parts) = self.parts.lock() {
            parts.kernel = Some(memory);
        }
    }

    fn all(&self) -> Parts {
        self.parts.lock().map(|parts| parts.clone()).unwrap_or_default()
    }
}

/// A request for a look at once. The answer is sent when it was taken.
type Ask = Sender<()>;

/// The running monitor.
pub(crate) struct TargetMonitor {
    asks: Sender<Ask>,
    thread: JoinHandle<Vec<Sample>>,
}

impl TargetMonitor {
    /// Starts to look. Times count from `start_ns` of the clock.
    pub(crate) fn start(
        clock: SystemClock,
        start_ns: u64,
        watched: Watched,
    ) -> std::io::Result<Self> {
        let (asks, receiver) = channel();
        let watch = move || looks(clock, start_ns, &watched, &receiver);
        let thread = std::thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(watch)
            .map_err(gemelo_base::threads::refused)?;
        Ok(Self { asks, thread })
    }

    /// Looks now, so that the averages of a phase begin or end here.
    pub(crate) fn look(&self) {
        let (answer, taken) = channel();
        if self.asks.send(answer).is_ok() {
            let _ = taken.recv();
        }
    }

    /// Ends the monitor. Returns the series of the run, and the averages of a phase as figures;
    /// [`None`] if the monitor panicked.
    pub(crate) fn finish(self, phase: Option<&Range<u64>>) -> Option<Stats> {
        drop(self.asks);
        // The panic hook has reported a panic of the thread.
        self.thread.join().ok().map(|samples| figures(&samples, phase))
    }
}

fn looks(
    clock: SystemClock,
    start_ns: u64,
    watched: &Watched,
    asks: &Receiver<Ask>,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    let look = |samples: &mut Vec<Sample>, is_asked| {
        if samples.len() < MAX_SAMPLES {
            let at_ns = clock.now_ns().saturating_sub(start_ns);
            samples.push(Sample { is_asked, ..Sample::take(at_ns, &watched.all()) });
        }
    };
    look(&mut samples, false);
    let mut next_ns = clock.now_ns() + INTERVAL.as_nanos() as u64;
    loop {
        let left = Duration::from_nanos(next_ns.saturating_sub(clock.now_ns()));
        match asks.recv_timeout(left) {
            Ok(answer) => {
                look(&mut samples, true);
                let _ = answer.send(());
            }
            Err(RecvTimeoutError::Timeout) => {
                look(&mut samples, false);
                next_ns = clock.now_ns().max(next_ns) + INTERVAL.as_nanos() as u64;
            }
            Err(RecvTimeoutError::Disconnected) => {
                look(&mut samples, false);
                return samples;
            }
        }
    }
}

/// A quantity between two looks.
struct Quantity {
    name: &'static str,
    value: fn(&Sample, &Sample) -> f64,
    /// Whether a look has it. A target may have no process.
    is_known: fn(&Sample) -> bool,
    better: Better,
}

const fn quantity(name: &'static str, value: fn(&Sample, &Sample) -> f64) -> Quantity {
    Quantity { name, value, is_known: |_| true, better: Better::Neither }
}

const fn of_target(
    name: &'static str,
    is_known: fn(&Sample) -> bool,
    value: fn(&Sample, &Sample) -> f64,
) -> Quantity {
    Quantity { name, value, is_known, better: Better::Lower }
}

const QUANTITIES: [Quantity; 8] = [
    quantity("system/cpu_share", |before, after| {
        cores(after.busy_ticks.saturating_sub(before.busy_ticks), before, after)
    }),
    quantity("system/memory_bytes", |_, after| after.memory_bytes as f64),
    quantity("system/disk_read_bytes_per_s", |before, after| {
        rate(before, after, |sample| sample.disk_read_bytes)
    }),
    quantity("system/disk_write_bytes_per_s", |before, after| {
        rate(before, after, |sample| sample.disk_written_bytes)
    }),
    quantity("system/network_bytes_per_s", |before, after| {
        rate(before, after, |sample| sample.network_bytes)
    }),
    of_target("target/cpu_share", Sample::has_processes, |before, after| {
        let grown = after.process_ticks.iter().map(|(pid, ticks)| {
            ticks.saturating_sub(before.process_ticks.get(pid).copied().unwrap_or(0))
        });
        cores(grown.sum(), before, after)
    }),
    of_target(
        "target/memory_bytes",
        |look| look.has_processes() || look.kernel_memory_bytes.is_some(),
        |_, after| (after.process_memory_bytes + after.kernel_memory_bytes.unwrap_or(0)) as f64,
    ),
    quantity("monitor/cpu_share", |before, after| {
        rate(before, after, |sample| sample.own_ns) / 1e9
    }),
];

fn seconds(before: &Sample, after: &Sample) -> f64 {
    after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9
}

fn rate(before: &Sample, after: &Sample, counter: impl Fn(&Sample) -> u64) -> f64 {
    counter(after).saturating_sub(counter(before)) as f64 / seconds(before, after)
}

/// Returns clock ticks between two looks as processor seconds a second.
fn cores(ticks: u64, before: &Sample, after: &Sample) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64 / seconds(before, after)
}

/// Shortest time between two samples that give a rate. Counters advance in steps of 10 ms.
const SHORTEST_NS: u64 = 50_000_000;

fn figures(samples: &[Sample], phase: Option<&Range<u64>>) -> Stats {
    let mut figures = Stats::default();
    let pairs = pairs(samples);
    for quantity in &QUANTITIES {
        let points: Vec<(u64, f64, f64)> = pairs
            .iter()
            .filter(|(_, after)| (quantity.is_known)(after))
            .map(|(before, after)| {
                (after.at_ns, (quantity.value)(before, after), seconds(before, after))
            })
            .filter(|(_, value, _)| value.is_finite())
            .collect();
        let is_in = |at_ns: u64| phase.is_none_or(|p| p.start < at_ns && at_ns <= p.end);
        let of_phase = || points.iter().filter(|(at_ns, ..)| is_in(*at_ns));
        let length_s: f64 = of_phase().map(|(.., length)| length).sum();
        if length_s > 0.0 {
            let sum: f64 = of_phase().map(|(_, value, length)| value * length).sum();
            figures.push(quantity.name, sum / length_s, quantity.better);
        }
        if !points.is_empty() {
            let points = points.into_iter().map(|(at_ns, value, _)| (at_ns, value)).collect();
            figures.series.push(Series { name: quantity.name.to_owned(), points });
        }
    }
    figures
}

/// Returns neighbouring looks. Of two that follow too closely, the one that was asked for stays,
/// because it is the boundary of a phase.
fn pairs(samples: &[Sample]) -> Vec<(&Sample, &Sample)> {
    let mut kept: Vec<&Sample> = Vec::with_capacity(samples.len());
    for sample in samples {
        match kept.last() {
            Some(last) if sample.at_ns.saturating_sub(last.at_ns) < SHORTEST_NS => {
                if sample.is_asked && !last.is_asked {
                    kept.pop();
                    kept.push(sample);
                }
            }
            _ => kept.push(sample),
        }
    }
    kept.iter().copied().zip(kept.iter().copied().skip(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, own_ms: u64, ticks: &[(u32, u64)]) -> Sample {
        Sample {
            at_ns: (at_s * 1e9) as u64,
            own_ns: own_ms * 1_000_000,
            process_ticks: ticks.iter().copied().collect(),
            ..Sample::default()
        }
    }

    #[test]
    fn averages_are_those_of_the_phase_and_series_those_of_the_run() {
        let hertz = rustix::param::clock_ticks_per_second();
        let samples = [
            sample(0.0, 0, &[]),
            sample(1.0, 100, &[(7, 0)]),
            sample(2.0, 100, &[(7, hertz)]),
            sample(4.0, 100, &[(7, hertz), (8, hertz)]),
        ];
        let figures = figures(&samples, Some(&(1_000_000_000..4_000_000_000)));
        let share = figures.value("target/cpu_share").unwrap();
        assert!((share - 2.0 / 3.0).abs() < 1e-9, "{share}");
        assert_eq!(figures.value("monitor/cpu_share"), Some(0.0));
        let own = figures.series.iter().find(|series| series.name == "monitor/cpu_share").unwrap();
        assert_eq!(own.points.len(), 3);
        assert!((own.points[0].1 - 0.1).abs() < 1e-9);
    }

    #[test]
    fn memory_of_a_target_in_the_kernel_counts_without_a_process() {
        let with = |at_s, kernel| Sample { kernel_memory_bytes: kernel, ..sample(at_s, 0, &[]) };
        let samples = [with(0.0, None), with(1.0, Some(5)), with(2.0, Some(7))];
        let figures = figures(&samples, None);
        assert_eq!(figures.value("target/memory_bytes"), Some(6.0));
        assert_eq!(figures.value("target/cpu_share"), None);
    }

    #[test]
    fn a_busy_process_is_seen() {
        let clock = SystemClock::new();
        let watched = Watched::default();
        let monitor = TargetMonitor::start(clock, 0, watched.clone()).unwrap();
        watched.add(std::process::id());
        monitor.look();
        let start_ns = clock.now_ns();
        while clock.now_ns() < start_ns + 300_000_000 {
            std::hint::spin_loop();
        }
        monitor.look();
        let figures = monitor.finish(Some(&(start_ns..clock.now_ns()))).unwrap();
        assert!(figures.value("target/cpu_share").unwrap() > 0.1);
        assert!(figures.value("target/memory_bytes").unwrap() > 1e6);
        assert!(figures.value("system/cpu_share").unwrap() > 0.0);
    }

    #[test]
    fn a_monitor_that_panicked_has_no_figures() {
        let (asks, receiver) = channel();
        let panics = move || {
            let _ = receiver.recv();
            panic!("a look failed");
        };
        let monitor = TargetMonitor { asks, thread: std::thread::spawn(panics) };
        monitor.look();
        assert!(monitor.finish(None).is_none());
    }
}
