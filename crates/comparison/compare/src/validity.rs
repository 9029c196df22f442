//! Measurements that do not measure the storage: they carry no verdict on a rate or a time.

use crate::Repetition;
use crate::verdict::Doubt;
use gemelo_figures::{Unit, name_parts};

/// Share of the time from which the generator of the load was the bottleneck.
const MAX_GENERATING: f64 = 0.5;

/// Share of the processors' time from which the generator and the storage compete for it.
const MAX_BUSY: f64 = 0.9;

/// Share of the bytes read that come from disks, below which a cache served the reads, and above
/// which the disks did.
const MIN_DISK_SHARE: f64 = 0.05;
const MAX_CACHED_DISK_SHARE: f64 = 0.5;

/// Returns the reason why a rate or a time of two sides cannot be compared, if there is one.
pub(crate) fn invalid(figure: &str, sides: [&[Repetition]; 2]) -> Option<Doubt> {
    let is_bound =
        |side| mean(side, &generating_share(figure)).is_some_and(|share| share > MAX_GENERATING);
    if is_of_load(figure) && sides.into_iter().any(is_bound) {
        return Some(Doubt::Generator);
    }
    differs_in_memory(figure, sides).then_some(Doubt::Memory)
}

/// Returns whether one side read from memory and the other from disks, so that the figure measures
/// two things.
pub(crate) fn differs_in_memory(figure: &str, sides: [&[Repetition]; 2]) -> bool {
    let [before, after] = sides.map(disk_share);
    is_of_load(figure)
        && name_parts(figure).kind != "write"
        && before.zip(after).is_some_and(|(before, after)| {
            before.min(after) < MIN_DISK_SHARE && before.max(after) > MAX_CACHED_DISK_SHARE
        })
}

/// Returns the least and the greatest value that a figure of a run could have with a generator that
/// takes no time, or `None` if that is unknown. The time in which the load waited for the storage
/// remains, which bounds rates and the length of the run. A latency could go either way, because
/// more operations would compete. On busy processors the generator slows the storage down as well.
pub(crate) fn without_generator(
    figure: &str,
    run: &Repetition,
    processors: u64,
) -> Option<[f64; 2]> {
    let value = run.figures.value(figure)?;
    if !is_of_load(figure) {
        return Some([value, value]);
    }
    let busy = run.figures.value("system/cpu_share").unwrap_or(0.0);
    if busy > MAX_BUSY * processors as f64 {
        return None;
    }
    let generating = run.figures.value(&generating_share(figure)).unwrap_or(0.0);
    let rest = (1.0 - generating).max(0.0);
    match Unit::of_figure(figure) {
        Unit::Nanoseconds if name_parts(figure).bare == "run/elapsed_ns" => {
            Some([value * rest, value])
        }
        Unit::PerSecond | Unit::BytesPerSecond if rest > 0.0 => Some([value, value / rest]),
        _ => None,
    }
}

/// Returns whether a figure is a speed or a time of a load.
fn is_of_load(figure: &str) -> bool {
    let is_speed = Unit::of_figure(figure).is_speed();
    is_speed && ["write", "read", "all", "run"].contains(&name_parts(figure).kind)
}

/// Returns the name of the generator's share of the time in which a figure was measured.
fn generating_share(figure: &str) -> String {
    match name_parts(figure).job {
        Some(job) => format!("{job}.run/generating_share"),
        None => "run/generating_share".to_owned(),
    }
}

/// Returns the share of the bytes read that came from disks, if a campaign has measured it.
fn disk_share(side: &[Repetition]) -> Option<f64> {
    let read = mean(side, "read/bytes_per_s").filter(|rate| *rate > 0.0)?;
    Some(mean(side, "system/disk_read_bytes_per_s")? / read)
}

/// Returns the mean of a figure if every repetition has it.
fn mean(side: &[Repetition], name: &str) -> Option<f64> {
    let values: Option<Vec<f64>> = side.iter().map(|run| run.figures.value(name)).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_record::{Better, Stats};

    fn side(figures: &[(&str, f64)]) -> Vec<Repetition> {
        let mut all = Stats::default();
        for (name, value) in figures {
            all.push(*name, *value, Better::Neither);
        }
        vec![Repetition { number: 1, figures: all, measured_ns: None }]
    }

    #[test]
    fn a_generator_that_is_the_bottleneck_measures_no_storage() {
        let (slow, fast) = (side(&[("run/generating_share", 0.7)]), side(&[]));
        let of = |figure| invalid(figure, [&fast, &slow]);
        assert_eq!(of("write/operations_per_s"), Some(Doubt::Generator));
        assert_eq!(of("read/latency_p99_ns"), Some(Doubt::Generator));
        assert_eq!(of("space/data_bytes"), None);
        assert_eq!(of("other.write/operations_per_s"), None);
        assert_eq!(invalid("write/operations_per_s", [&fast, &fast]), None);
    }

    #[test]
    fn without_the_generator_rates_are_higher_and_runs_shorter() {
        let figures = [
            ("run/generating_share", 0.75),
            ("write/operations_per_s", 100.0),
            ("run/elapsed_ns", 80.0),
            ("write/latency_mean_ns", 7.0),
            ("space/data_bytes", 4096.0),
            ("other.write/bytes_per_s", 50.0),
        ];
        let runs = side(&figures);
        for (figure, expected) in [
            ("write/operations_per_s", Some([100.0, 400.0])),
            ("run/elapsed_ns", Some([20.0, 80.0])),
            ("write/latency_mean_ns", None),
            ("space/data_bytes", Some([4096.0, 4096.0])),
            ("other.write/bytes_per_s", Some([50.0, 50.0])),
            ("read/bytes_per_s", None),
        ] {
            assert_eq!(without_generator(figure, &runs[0], 2), expected, "{figure}");
        }
        let busy = side(&[("run/elapsed_ns", 80.0), ("system/cpu_share", 1.9)]);
        assert_eq!(without_generator("run/elapsed_ns", &busy[0], 2), None);
        assert_eq!(without_generator("run/elapsed_ns", &busy[0], 4), Some([80.0, 80.0]));
    }

    #[test]
    fn reads_from_memory_are_not_compared_with_reads_from_disks() {
        let reads =
            |disk| side(&[("read/bytes_per_s", 1e9), ("system/disk_read_bytes_per_s", disk)]);
        let (memory, disk) = (reads(1e6), reads(9e8));
        assert_eq!(invalid("read/operations_per_s", [&memory, &disk]), Some(Doubt::Memory));
        assert_eq!(invalid("read/operations_per_s", [&memory, &memory]), None);
        assert_eq!(invalid("read/operations_per_s", [&disk, &disk]), None);
    }
}
