//! Targets by workloads: the main figures, and their ratios to the baseline.

use super::data::Data;
use super::judgement::{CampaignStatistics, Versus};
use crate::anchor;
use crate::chart::{Chart, Ratio, Ratios};
use crate::document::{Cell, Column, Item, Picture, Section, Table, Text, Tone};
use crate::quantity::{Unit, figure_title, ratio_range, significant};
use gemelo_compare::{Doubt, Verdict};
use gemelo_record::{Better, TargetRecord, WorkloadRecord};

/// Ratios in one picture at most.
const MAX_RATIOS: usize = 20;

/// A workload and one of the figures that rank targets on it.
pub(super) struct Rank<'a> {
    pub(super) workload: &'a WorkloadRecord,
    pub(super) figure: String,
    pub(super) better: Better,
    /// `true` if the workload has other such figures too.
    is_one_of_several: bool,
}

impl Rank<'_> {
    /// Returns the name of the workload, with the figure if there are several.
    pub(super) fn name(&self) -> String {
        if self.is_one_of_several {
            format!("{}, {}", self.workload.name, figure_title(&self.figure))
        } else {
            self.workload.name.clone()
        }
    }
}

/// Returns all figures that rank targets, in the order of the plan.
pub(super) fn ranks(data: &Data) -> Vec<Rank<'_>> {
    let mut ranks = Vec::new();
    for workload in &data.plan.workloads {
        let main = data.main_figures(workload);
        let is_one_of_several = main.len() > 1;
        for (figure, better) in main {
            ranks.push(Rank { workload, figure, better, is_one_of_several });
        }
    }
    ranks
}

/// Returns the section of targets by workloads.
pub(super) fn section(data: &Data, judged: &CampaignStatistics) -> Section {
    let mut section = Section::new("overview", "Targets and workloads");
    let ranks = ranks(data);
    let Some((_, baseline)) = data.baseline() else {
        section.items.push(Item::Paragraph("No run was complete.".into()));
        return section;
    };
    let pictures = ratio_pictures(data, judged, &ranks, baseline);
    if !pictures.is_empty() {
        section.items.push(Item::Pictures(pictures));
    }
    section.items.push(Item::Table(table(data, judged, &ranks, baseline)));
    section.items.push(Item::Paragraph(
        format!(
            "An arrow marks a difference that the data carry: the interval of the ratio leaves out \
             1. The intervals of all ratios of the campaign hold together at {}. A number leads to \
             its workload, and from there to its raw results.",
            judged.level(),
        )
        .into(),
    ));
    section
}

fn others<'a>(
    data: &'a Data,
    baseline: &'a TargetRecord,
) -> impl Iterator<Item = (usize, &'a TargetRecord)> {
    data.targets().filter(|(_, target)| target.name != baseline.name)
}

fn ratio_pictures(
    data: &Data,
    judged: &CampaignStatistics,
    ranks: &[Rank<'_>],
    baseline: &TargetRecord,
) -> Vec<Picture> {
    let mut rows: Vec<(usize, String, Versus)> = Vec::new();
    for rank in ranks {
        for (number, target) in others(data, baseline) {
            if let Some(versus) = judged.versus(&rank.workload.name, &target.name, &rank.figure) {
                rows.push((number, rank.name(), versus));
            }
        }
    }
    let reach = reach(&rows);
    let mut pictures = Vec::new();
    for (number, target) in others(data, baseline) {
        let of_target: Vec<_> = rows.iter().filter(|row| row.0 == number).cloned().collect();
        for (part, rows) in of_target.chunks(MAX_RATIOS).enumerate() {
            let id = anchor("ratios", &format!("{}-{}", target.name, part + 1));
            let title = format!("{} against {}", target.name, baseline.name);
            pictures.push(ratio_picture(id, title, rows, baseline, reach));
        }
    }
    pictures
}

/// Farthest ends of intervals, from the ratios, that the axis makes room for. An interval that goes
/// on beyond tells nothing, and would press all others together.
const FARTHEST: f64 = 20.0;

/// Returns the least and the most of all ratios and their intervals.
fn reach(rows: &[(usize, String, Versus)]) -> (f64, f64) {
    let ratios = || rows.iter().map(|(_, _, versus)| versus.ratio).filter(|ratio| *ratio > 0.0);
    let (least, most) = (ratios().fold(1.0, f64::min), ratios().fold(1.0, f64::max));
    let ends = || rows.iter().filter_map(|(_, _, versus)| versus.interval);
    let low = ends().map(|(low, _)| low.max(least / FARTHEST)).fold(least, f64::min);
    let high = ends().map(|(_, high)| high.min(most * FARTHEST)).fold(most, f64::max);
    (low, high)
}

fn ratio_picture(
    id: String,
    title: String,
    rows: &[(usize, String, Versus)],
    baseline: &TargetRecord,
    reach: (f64, f64),
) -> Picture {
    let columns = vec![
        Column::text("workload"),
        Column::number("ratio"),
        Column::number("interval"),
        Column::number("p-value"),
    ];
    let mut table = Table::new(format!("Ratios to {}", baseline.name), columns);
    for (number, name, versus) in rows {
        let interval = versus.interval.map(ratio_range);
        table.push_of(
            Some(*number),
            vec![
                Cell::new(name.clone()),
                Cell::new(significant(versus.ratio)),
                interval.map_or_else(|| Cell::missing("none"), Cell::new),
                versus.p_value.map_or_else(|| Cell::missing("none"), |p| Cell::new(p_text(p))),
            ],
        );
    }
    let ratios = rows.iter().map(|(number, name, versus)| Ratio {
        label: name.clone(),
        colour: *number,
        ratio: versus.ratio,
        interval: versus.interval,
        is_unbounded: versus.doubt == Some(Doubt::Zero),
        is_significant: versus.is_significant(),
    });
    Picture {
        id,
        title,
        note: "A full dot is a difference that the data carry, and an empty one is none. The line \
               is the interval of the ratio."
            .to_owned(),
        chart: Chart::Ratios(Ratios {
            baseline: baseline.name.clone(),
            reach,
            rows: ratios.collect(),
        }),
        linear: None,
        table,
    }
}

/// Says why a ratio has no interval.
pub(super) fn without_interval(versus: &Versus) -> &'static str {
    if versus.doubt == Some(Doubt::Zero) { "unbounded interval" } else { "no interval" }
}

/// Writes a p-value. Smaller ones than a thousandth say no more.
pub(super) fn p_text(p_value: f64) -> String {
    if p_value < 0.001 { "below 0.001".to_owned() } else { format!("{p_value:.3}") }
}

fn table(
    data: &Data,
    judged: &CampaignStatistics,
    ranks: &[Rank<'_>],
    baseline: &TargetRecord,
) -> Table {
    let mut columns = vec![Column::text("workload"), Column::text("figure")];
    columns.extend(
        data.targets().map(|(number, target)| Column::number(target.name.clone()).of(Some(number))),
    );
    let caption = format!("Main figures, and ratios to {}", baseline.name);
    let mut table = Table::new(caption, columns);
    for rank in ranks {
        let figure = match rank.better {
            Better::Lower => format!("{}, lower is better", figure_title(&rank.figure)),
            _ => figure_title(&rank.figure),
        };
        let mut cells = vec![Cell::new(rank.workload.name.clone()), Cell::new(figure)];
        cells.extend(data.targets().map(|(_, target)| cell(judged, rank, target)));
        table.push(cells);
    }
    table
}

fn cell(judged: &CampaignStatistics, rank: &Rank<'_>, target: &TargetRecord) -> Cell {
    let (workload, figure) = (rank.workload.name.as_str(), rank.figure.as_str());
    let Some(estimate) = judged.estimate(workload, &target.name, figure) else {
        let is_left_out = target.left_out.is_some() || rank.workload.left_out.is_some();
        return Cell::missing(if is_left_out { "left out" } else { "no run" });
    };
    let unit = Unit::of_figure(figure);
    let address = format!("#{}", anchor("workload", workload));
    let cell = Cell::new(Text::new().link(unit.show(estimate.value), address));
    let Some(versus) = judged.versus(workload, &target.name, figure) else {
        return match estimate.interval {
            Some((low, high)) => cell.detail(unit.show_range(low, high)),
            None if estimate.count == 1 => cell.detail("one run"),
            None => cell.detail(format!("the same in {} runs", estimate.count)),
        };
    };
    let detail = match versus.interval {
        Some(interval) => format!("{}× ({})", significant(versus.ratio), ratio_range(interval)),
        None => format!("{}×, {}", significant(versus.ratio), without_interval(&versus)),
    };
    let tone = match versus.verdict {
        Verdict::Better => Tone::Better,
        Verdict::Worse => Tone::Worse,
        Verdict::Same | Verdict::Undecided | Verdict::NotJudged => Tone::Plain,
    };
    cell.detail(detail).tone(tone)
}
