//! The comparison as text.

use crate::table::Table;
use gemelo_base::units::{format_counted, format_percent};
use gemelo_compare::{Basis, Measured, Place, Row, Summary, Verdict};
use gemelo_figures::{Quantity, quantity};
use gemelo_stats::Confidence;

/// Returns a table for each workload and target, and a sentence about all of them.
pub(super) fn of_summary(summary: &Summary, confidence: Confidence) -> String {
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
    text + &sentences(summary, confidence)
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
    let mean = quantity(&row.figure).format(measured.mean);
    let share = measured.interval.map(|interval| interval.half_width() / measured.mean.abs());
    match share.filter(|share| share.is_finite()) {
        Some(share) => format!("{mean} ± {:.1} %", 100.0 * share),
        None => mean,
    }
}

fn verdict(row: &Row) -> String {
    let is_speed = matches!(
        quantity(&row.figure),
        Quantity::Nanoseconds | Quantity::PerSecond | Quantity::BytesPerSecond
    );
    match row.verdict {
        Verdict::Better => if is_speed { "faster" } else { "better" }.to_owned(),
        Verdict::Worse => if is_speed { "slower" } else { "worse" }.to_owned(),
        Verdict::Same => "same within noise".to_owned(),
        Verdict::TooFew => match row.repetitions_needed {
            Some(needed) => format!("too few repetitions ({needed} needed)"),
            None => "too few repetitions".to_owned(),
        },
        Verdict::NotJudged => "-".to_owned(),
    }
}

fn sentences(summary: &Summary, confidence: Confidence) -> String {
    let Summary { rows, better, worse, same, too_few, slower } = summary;
    let judged = rows.iter().filter(|row| row.adjusted_p_value.is_some()).count();
    let mut text = format!(
        "{better} better, {worse} worse, {same} the same within noise, {too_few} with too few \
         repetitions; level {}, corrected for {}\n",
        format_percent(confidence.level()),
        format_counted(judged as u64, "comparison"),
    );
    if rows.iter().any(|row| row.basis == Basis::TimeSeries) {
        text += "* interval of the noise within the two runs; other runs may differ more\n";
    }
    let single = |row: &Row| row.before.repetitions == 1 || row.after.repetitions == 1;
    if rows.iter().any(|row| row.verdict == Verdict::TooFew && single(row)) {
        text += "a side has one repetition: repeat the measurement, and give all files with --a and \
                 --b\n";
    }
    for one in slower {
        let place =
            if one.place == Place::default() { String::new() } else { format!(" ({})", one.place) };
        let loss = format_percent(one.loss_share);
        text += &format!("slower than permitted: {}{place} by {loss}\n", one.figure);
    }
    text
}
