//! The plan and the result of a replay as text.

use crate::stored::stored_text;
use crate::table::Table;
use gemelo_base::units::{
    format_count, format_counted, format_duration_ns, format_rate, format_size,
};
use gemelo_replay::{MapRule, ReplayOptions, ReplayPlan, ReplayResult, ReplayStats, Speed};
use gemelo_target::TargetUri;

/// Returns the plan, which is printed before the replay.
pub(super) fn plan(plan: &ReplayPlan, options: &ReplayOptions, target: &TargetUri) -> String {
    let map = match plan.map() {
        MapRule::Refuse => "at the places of the trace".to_owned(),
        MapRule::Dense => "with all places side by side".to_owned(),
        MapRule::Fold => {
            format!(
                "with {} beyond the end moved inside",
                format_counted(plan.folded_places, "place")
            )
        }
    };
    let duration_ns = match options.speed {
        Speed::Times(factor) => {
            let length = format_duration_ns((plan.duration_ns as f64 / factor) as u64);
            format!("at {factor} times the recorded speed, which takes {length}")
        }
        Speed::Unlimited => "as fast as the target takes them".to_owned(),
    };
    let mut text = format!(
        "{} onto {} of {target}, {map}; {duration_ns}\n",
        format_counted(plan.requests, "request"),
        format_size(plan.target_bytes()),
    );
    if plan.populated_blocks() > 0 {
        let blocks = format_counted(plan.populated_blocks(), "block");
        text += &format!(
            "{blocks} to write first, because the trace reads them before it writes them\n"
        );
    }
    let drawn = plan.drawn_blocks();
    if drawn > 0 {
        text +=
            &format!("{} with contents from the distribution\n", format_counted(drawn, "block"));
    }
    if plan.widened > 0 {
        let widened = format_counted(plan.widened, "request");
        let block = format_size(plan.block_bytes());
        text += &format!("{widened} widened to whole blocks of {block}\n");
    }
    text
}

/// Returns the result.
pub(super) fn result(result: &ReplayResult) -> String {
    let mut text = format!(
        "{} in {}\n",
        format_counted(result.records, "record"),
        format_duration_ns(result.duration_ns)
    );
    let mut table = Table::new();
    table.row(["", "operations", "a second", "throughput", "p50", "p99", "max"]);
    for (name, side) in [("writes", &result.writes), ("reads", &result.reads)] {
        if side.operations > 0 {
            table.row(row(name, side, result.duration_ns));
        }
    }
    text += &table.render(2);
    if result.populated_blocks > 0 {
        let took = format_duration_ns(result.populate_ns);
        text += &format!(
            "  {} populated in {took}\n",
            format_counted(result.populated_blocks, "block")
        );
    }
    text += &format!("  {} making contents\n", format_duration_ns(result.generating_ns));
    if let Some(lateness) = &result.lateness {
        let after = format_duration_ns(lateness.late_after_ns);
        text += &format!(
            "  {} started more than {after} late",
            format_counted(lateness.late, "operation")
        );
        if let Some(summary) = &lateness.summary {
            let by = [summary.mean_ns as u64, summary.max_ns].map(format_duration_ns);
            text += &format!(", by {} on average and {} at most", by[0], by[1]);
        }
        text.push('\n');
    }
    if result.trims > 0 {
        text += &format!("  {}\n", format_counted(result.trims, "trim"));
    }
    if let Some(stored) = &result.stored {
        text += &stored_text(stored);
    }
    text += &verification(result);
    if let Some(failure) = &result.failure {
        text += &format!("failed: {failure}\n");
    } else if !result.is_complete {
        text += "interrupted: the trace was not replayed to its end\n";
    }
    text
}

fn row(name: &str, side: &ReplayStats, duration_ns: u64) -> [String; 7] {
    let seconds = (duration_ns as f64 / 1e9).max(1e-9);
    let summary = side.response_summary.as_ref();
    let latency =
        |percent: f64| summary.and_then(|summary| summary.percentile_ns(percent)).unwrap_or(0);
    [
        name.to_owned(),
        format_count(side.operations),
        format!("{:.0}", side.operations as f64 / seconds),
        format_rate(side.data_bytes as f64 / seconds),
        format_duration_ns(latency(50.0)),
        format_duration_ns(latency(99.0)),
        format_duration_ns(summary.map_or(0, |summary| summary.max_ns)),
    ]
}

/// Most mismatches that are printed.
const SHOWN: usize = 10;

fn verification(result: &ReplayResult) -> String {
    let found = &result.verification;
    if found.checked == 0 {
        return String::new();
    }
    let checked = format_counted(found.checked, "block");
    let mut text = format!("  {checked} checked, {} wrong\n", format_count(found.wrong));
    for wrong in found.mismatches.iter().take(SHOWN) {
        text += &format!(
            "    block {}: {} expected, found {}\n",
            wrong.block, wrong.expected, wrong.found
        );
    }
    text
}
