//! The scale of the measurements that a claim refers to.

use super::condition::Term;
use crate::{Groups, Place};
use gemelo_base::units::{format_counted, format_duration_ns, format_percent, format_size};
use gemelo_record::{CampaignRecord, LeastFigure, LeastScale};

/// Returns the reason why the measurements of a term are too small for a claim, as a sentence
/// without a full stop, or `None` if they are large enough.
pub(super) fn too_small(
    least: &LeastScale,
    term: &Term,
    campaign: &CampaignRecord,
    groups: &Groups,
) -> Option<String> {
    let place = Place::new(&term.workload, &term.target);
    let runs = groups.runs(&place);
    let repetitions = u32::try_from(runs.len()).unwrap_or(u32::MAX);
    if let Some(needed) = least.repetitions.filter(|needed| repetitions < *needed) {
        let there = format_counted(u64::from(repetitions), "repetition");
        return Some(format!("{place} has {there}, and the claim needs {needed}"));
    }
    let shortest_ns = runs.iter().filter_map(|run| run.measured_ns).min();
    if let Some((needed, there)) = least.time_ns.zip(shortest_ns)
        && there < needed
    {
        return Some(format!(
            "{place} was measured for {}, and the claim needs {}",
            format_duration_ns(there),
            format_duration_ns(needed)
        ));
    }
    if let Some(least) = &least.figure {
        let lowest = runs.iter().filter_map(|run| run.figures.value(&least.name)).reduce(f64::min);
        if lowest.is_none_or(|lowest| lowest < least.value) {
            let there = lowest.map_or_else(|| "nothing".to_owned(), |lowest| lowest.to_string());
            let LeastFigure { name, value } = least;
            return Some(format!("{place} has {there} of {name}, and the claim needs {value}"));
        }
    }
    let workload = campaign.workloads.iter().find(|load| load.name == term.workload)?;
    let target = campaign.targets.iter().find(|target| target.name == term.target)?;
    let data_bytes = workload.data_bytes?;
    if let Some(needed) = least.data_bytes.filter(|needed| data_bytes < *needed) {
        return Some(format!(
            "{} uses {}, and the claim needs {}",
            term.workload,
            format_size(data_bytes),
            format_size(needed)
        ));
    }
    let memory_bytes = Some(campaign.provenance.memory_bytes);
    let shares = [
        (least.memory_share, memory_bytes, "the memory of the machine".to_owned()),
        (least.fill_share, target.capacity_bytes, format!("the capacity of {}", term.target)),
    ];
    shares.into_iter().find_map(|(needed, whole, of)| {
        let (needed, whole) = needed.zip(whole)?;
        let share = data_bytes as f64 / whole as f64;
        (share < needed).then(|| {
            format!(
                "the data of {} are {} of {of}, and the claim needs {}",
                term.workload,
                format_percent(share),
                format_percent(needed)
            )
        })
    })
}
