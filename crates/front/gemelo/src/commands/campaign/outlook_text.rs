//! The text of `gemelo campaign run --plan`.

use gemelo_base::units::{format_counted, format_duration_ns, format_line, format_size};
use gemelo_campaign::{Member, Outlook, Power};
use std::fmt::Write;

pub(super) fn text(outlook: &Outlook) -> String {
    let mut text = format!("{}\n", format_line(&outlook.title));
    members(&mut text, "targets", &outlook.targets);
    members(&mut text, "workloads", &outlook.workloads);
    for reason in &outlook.unsuitable {
        let _ = writeln!(text, "left out: {}", format_line(reason));
    }
    let _ = writeln!(text, "runs, in this order:");
    for run in &outlook.runs {
        let _ = writeln!(text, "  {}", run.id);
    }
    let runs = format_counted(outlook.runs.len() as u64, "run");
    let known_ns = u64::try_from(outlook.known_time.as_nanos()).unwrap_or(u64::MAX);
    let warm_up = match outlook.warm_up_runs {
        0 => String::new(),
        count => format!(" after {}", format_counted(count as u64, "warm-up run")),
    };
    let _ = write!(text, "{runs}{warm_up}, about {}", format_duration_ns(known_ns));
    if outlook.unknown_runs > 0 {
        let unknown = format_counted(outlook.unknown_runs as u64, "run");
        let _ = write!(text, " and {unknown} of unknown length");
    }
    let _ = writeln!(text, "; at most {} of each pair", outlook.max_repetitions);
    let space = outlook.space_bytes.map_or_else(|| "unknown".to_owned(), format_size);
    let _ = writeln!(text, "space for one target at a time: at most {space}");
    if let Some(power) = &outlook.power {
        let _ = writeln!(text, "{}", power_text(power));
    }
    text
}

/// Says what the comparisons can find, and what that assumes.
fn power_text(power: &Power) -> String {
    let percent = |share: f64| format!("{} %", (1000.0 * share).round() / 10.0);
    let unknown = match power.unknown_pairs {
        0 => String::new(),
        1 => " and those of 1 pair of targets whose runs tell how many".to_owned(),
        pairs => format!(" and those of {pairs} pairs of targets whose runs tell how many"),
    };
    format!(
        "{} find a difference of {} in {:.0} of 100 cases, at a common level of {} for {}{unknown}, if a \
         ratio varies by {} from round to round (assumed: 'spread' of the plan)",
        format_counted(u64::from(power.repetitions), "repetition"),
        percent(power.difference_share),
        100.0 * power.found_share,
        percent(power.confidence),
        format_counted(power.comparisons as u64, "comparison"),
        percent(power.spread_share),
    )
}

fn members(text: &mut String, kind: &str, members: &[Member]) {
    let _ = writeln!(text, "{kind}:");
    let width = members.iter().map(|member| member.name.chars().count()).max().unwrap_or(0);
    for member in members {
        let about = match &member.left_out {
            Some(reason) => format!("left out: {reason}"),
            None => member.description.clone(),
        };
        let _ = writeln!(text, "  {:<width$}  {}", member.name, format_line(&about));
    }
}
