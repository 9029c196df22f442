//! The verdicts on the claims of a paper or of a plan, with published and measured figures side by
//! side.

use super::data::Data;
use super::judgement::Judgement;
use crate::document::{Cell, Column, Item, Row, Section, Table, Text, Tone};
use crate::quantity::{Unit, significant};
use gemelo_base::units::format_counted;
use gemelo_compare::{ClaimVerdict, ConditionOutcome};
use gemelo_record::ClaimRecord;

/// Returns the section with the verdicts, if the plan has claims.
pub(super) fn section(data: &Data, judged: &Judgement) -> Option<Section> {
    if data.plan.claims.is_empty() {
        return None;
    }
    let title = if data.plan.paper.is_some() { "Findings of the paper" } else { "Claims" };
    let mut section = Section::new("claims", title);
    section.items.push(Item::Paragraph(summary(judged)));
    let columns = vec![
        Column::text("claim"),
        Column::text("verdict"),
        Column::text("published"),
        Column::text("measured"),
    ];
    let mut table = Table::new(
        format!("Verdicts. Ranges are {} intervals of what was measured", judged.level()),
        columns,
    );
    for (claim, judgement) in data.plan.claims.iter().zip(&judged.claims) {
        table.rows.push(Row {
            id: Some(crate::anchor("claim", &claim.id)),
            target: None,
            cells: vec![
                statement(claim),
                verdict(&judgement.verdict),
                published(claim),
                measured(&judgement.conditions),
            ],
        });
    }
    section.items.push(Item::Table(table));
    Some(section)
}

/// Counts the verdicts in a sentence.
fn summary(judged: &Judgement) -> Text {
    let count = |is: fn(&ClaimVerdict) -> bool| {
        judged.claims.iter().filter(|judgement| is(&judgement.verdict)).count()
    };
    let counts = [
        (count(|verdict| *verdict == ClaimVerdict::Confirmed), "confirmed"),
        (count(|verdict| *verdict == ClaimVerdict::Refuted), "refuted"),
        (count(|verdict| matches!(verdict, ClaimVerdict::Undecided { .. })), "undecided"),
        (count(|verdict| matches!(verdict, ClaimVerdict::NotTestable { .. })), "not testable here"),
    ];
    let total = format_counted(judged.claims.len() as u64, "claim");
    let mut text = Text::new().plain(format!("{total}: "));
    let mut separator = "";
    for (count, words) in counts.into_iter().filter(|(count, _)| *count > 0) {
        text = text.plain(separator).strong(format!("{count} {words}"));
        separator = ", ";
    }
    text.plain(".")
}

fn statement(claim: &ClaimRecord) -> Cell {
    let place = claim.place.as_deref().map_or_else(String::new, |place| format!(", {place}"));
    Cell::new(claim.claim.clone()).detail(format!("{}{place}", claim.id))
}

fn verdict(verdict: &ClaimVerdict) -> Cell {
    match verdict {
        ClaimVerdict::Confirmed => Cell::new(Text::new().strong("confirmed")).tone(Tone::Yes),
        ClaimVerdict::Refuted => Cell::new(Text::new().strong("refuted")).tone(Tone::No),
        ClaimVerdict::Undecided { reason } => Cell::new("undecided").detail(reason.clone()),
        ClaimVerdict::NotTestable { reason } => {
            Cell::new("not testable").detail(reason.clone()).tone(Tone::Muted)
        }
    }
}

fn published(claim: &ClaimRecord) -> Cell {
    claim.published.clone().map_or_else(|| Cell::missing("no figure"), Cell::new)
}

/// Returns the measured numbers of all conditions.
fn measured(conditions: &[ConditionOutcome]) -> Cell {
    let mut numbers = Text::new();
    let mut texts = String::new();
    let mut count = 0;
    for condition in conditions {
        let Some(estimate) = condition.measured else { continue };
        let range = estimate.interval.map_or_else(String::new, |interval| {
            format!(" ({})", Unit::Number.show_range(interval.low(), interval.high()))
        });
        let separator = if count > 0 { "; " } else { "" };
        count += 1;
        numbers = numbers.plain(format!("{separator}{}{range}", significant(estimate.value)));
        texts.push_str(separator);
        texts.push_str(&condition.condition);
    }
    if count == 0 {
        return Cell::missing("nothing");
    }
    Cell::new(numbers).detail(texts)
}
