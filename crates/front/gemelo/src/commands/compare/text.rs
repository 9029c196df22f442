//! The comparison as text.

use crate::table::Table;
use gemelo_base::units::{format_counted, format_percent};
use gemelo_compare::{Basis, Doubt, Limited, Measured, Place, Row, Settings, Summary, Verdict};
use gemelo_figures::Unit;

/// Returns a table for each workload and target, and a sentence about all of them.
pub(super) fn of_summary(summary: &Summary, settings: &Settings) -> String {
    let mut text = String::new();
    for rows in summary.rows.chunk_by(|one, other| one.place == other.place) {
        if let Some(row) = rows.first() {
            text += &heading(&row.place, row);
        }
        let mut table = Table::new();
        table.row(["figure", "before", "after", "ratio", "interval", "verdict"]);
        rows.iter().for_each(|row| table.row(cells(row)));
        text += &table.render(0);
        text.push('\n');
    }
    text + &sentences(summary, settings)
}

fn heading(place: &Place, row: &Row) -> String {
    let counts = format!("{} and {}", row.before.repetitions, row.after.repetitions);
    match (&place.workload, &place.target) {
        (None, None) => format!("repetitions before and after: {counts}\n"),
        _ => format!("{place}, repetitions before and after: {counts}\n"),
    }
}

fn cells(row: &Row) -> [String; 6] {
    let interval =
        row.ratio.and_then(|ratio| ratio.interval).map_or_else(String::new, |interval| {
            let mark = if row.basis == Basis::TimeSeries { "*" } else { "" };
            format!("{:.3} to {:.3}{mark}", interval.low(), interval.high())
        });
    [
        row.figure.clone(),
        value(row, &row.before),
        value(row, &row.after),
        row.ratio.map_or_else(String::new, |ratio| format!("{:.3}", ratio.value)),
        interval,
        verdict(row),
    ]
}

/// The mean, with half of the width of its interval in percent.
fn value(row: &Row, measured: &Measured) -> String {
    let mean = Unit::of_figure(&row.figure).format(measured.mean);
    let share = measured.interval.map(|interval| interval.half_width() / measured.mean.abs());
    match share.filter(|share| share.is_finite()) {
        Some(share) => format!("{mean} ± {:.1} %", 100.0 * share),
        None => mean,
    }
}

fn verdict(row: &Row) -> String {
    let is_speed = Unit::of_figure(&row.figure).is_speed();
    match row.verdict {
        Verdict::Better => if is_speed { "faster" } else { "better" }.to_owned(),
        Verdict::Worse => if is_speed { "slower" } else { "worse" }.to_owned(),
        Verdict::Same => "the same".to_owned(),
        Verdict::Undecided => match (row.doubt, row.repetitions_needed) {
            (Some(Doubt::Wide), Some(needed)) => format!("undecided ({needed} repetitions needed)"),
            (Some(Doubt::OneRepetition), _) => "undecided (one repetition)".to_owned(),
            (Some(Doubt::NoSpread), _) => "undecided (no spread)".to_owned(),
            (Some(Doubt::Zero), _) => "undecided (zero)".to_owned(),
            (Some(Doubt::Generator), _) => "not measured (generator)".to_owned(),
            (Some(Doubt::Memory), _) => "not measured (memory)".to_owned(),
            _ => "undecided".to_owned(),
        },
        Verdict::NotJudged => "-".to_owned(),
    }
}

fn sentences(summary: &Summary, settings: &Settings) -> String {
    let Summary { rows, better, worse, same, undecided, limit } = summary;
    let judged = rows.iter().filter(|row| row.verdict != Verdict::NotJudged).count();
    let mut text = format!(
        "{better} better, {worse} worse, {same} the same within {}, {undecided} undecided; {} at a \
         common level of {}\n",
        format_percent(settings.margin.share()),
        format_counted(judged as u64, "interval"),
        format_percent(settings.confidence.level()),
    );
    if rows.iter().any(|row| row.basis == Basis::TimeSeries) {
        text += "* interval of the noise within the two runs; other runs may differ more\n";
    }
    if rows.iter().any(|row| row.doubt == Some(Doubt::OneRepetition)) {
        text += "a side has one repetition: repeat the measurement, and give all files with --a \
                 and --b\n";
    }
    for doubt in [Doubt::Generator, Doubt::Memory, Doubt::NoSpread] {
        if rows.iter().any(|row| row.doubt == Some(doubt)) {
            text += &format!("not decided: {}\n", doubt.sentence());
        }
    }
    text + &limit.as_ref().map_or_else(String::new, limited)
}

/// Answers the limit of the user.
fn limited(answer: &Limited) -> String {
    let place = |place: &Place| match place {
        place if *place == Place::default() => String::new(),
        place => format!(" ({place})"),
    };
    let mut text = String::new();
    for one in &answer.slower {
        let loss = format_percent(one.loss_share);
        text += &format!("slower than permitted: {}{} by {loss}\n", one.figure, place(&one.place));
    }
    for one in &answer.undecided {
        let most = one.max_loss_share.map_or_else(
            || ": the noise is unknown".to_owned(),
            |share| format!(": by up to {}", format_percent(share)),
        );
        text +=
            &format!("may be slower than permitted: {}{}{most}\n", one.figure, place(&one.place));
    }
    if answer.speeds == 0 {
        text += "no rate and no time was compared, so nothing is known about the limit\n";
    }
    text
}
