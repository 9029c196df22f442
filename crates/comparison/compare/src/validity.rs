//! Measurements that do not measure the storage: they carry no verdict on a rate or a time.

use crate::Repetition;
use crate::verdict::Doubt;
use gemelo_figures::{Unit, name_parts};

/// Share of the time from which the generator of the load was the bottleneck.
const MAX_GENERATING: f64 = 0.5;

/// Share of the bytes read that come from disks, below which a cache served the reads, and above
/// which the disks did.
const MIN_DISK_SHARE: f64 = 0.05;
const MAX_CACHED_DISK_SHARE: f64 = 0.5;

/// Returns the reason why a rate or a time of two sides cannot be compared, if there is one.
pub(crate) fn invalid(figure: &str, sides: [&[Repetition]; 2]) -> Option<Doubt> {
    let is_speed = Unit::of_figure(figure).is_speed();
    let kind = name_parts(figure).kind;
    if !is_speed || !["write", "read", "all", "run"].contains(&kind) {
        return None;
    }
    if sides.into_iter().any(|side| is_bound_by_generator(figure, side)) {
        return Some(Doubt::Generator);
    }
    let [before, after] = sides.map(disk_share);
    let (low, high) = before.zip(after).map(|(a, b)| (a.min(b), a.max(b)))?;
    let differ = low < MIN_DISK_SHARE && high > MAX_CACHED_DISK_SHARE;
    (kind != "write" && differ).then_some(Doubt::Memory)
}

fn is_bound_by_generator(figure: &str, side: &[Repetition]) -> bool {
    let name = match name_parts(figure).job {
        Some(job) => format!("{job}.run/generating_share"),
        None => "run/generating_share".to_owned(),
    };
    mean(side, &name).is_some_and(|share| share > MAX_GENERATING)
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
    fn reads_from_memory_are_not_compared_with_reads_from_disks() {
        let reads =
            |disk| side(&[("read/bytes_per_s", 1e9), ("system/disk_read_bytes_per_s", disk)]);
        let (memory, disk) = (reads(1e6), reads(9e8));
        assert_eq!(invalid("read/operations_per_s", [&memory, &disk]), Some(Doubt::Memory));
        assert_eq!(invalid("read/operations_per_s", [&memory, &memory]), None);
        assert_eq!(invalid("read/operations_per_s", [&disk, &disk]), None);
    }
}
