//! Sets of workloads as curves: load curves, sweeps of a parameter, entropies.

use super::data::Data;
use super::judgement::CampaignStatistics;
use crate::anchor;
use crate::chart::{Axis, AxisKind, Chart, Line, Lines};
use crate::document::{Cell, Column, Item, Picture, Section, Table, Text};
use crate::quantity::{Unit, figure_title};
use gemelo_record::{Better, WorkloadRecord};
use std::collections::BTreeSet;

/// Stats beside the main one that a set is drawn with, if the workloads have them.
const FURTHER_FIGURES: [&str; 4] =
    ["all/latency_p99_ns", "write/latency_p99_ns", "read/latency_p99_ns", "space/data_bytes"];

/// Returns the section with a picture for each set, if the plan has any.
pub(super) fn section(data: &Data, judged: &CampaignStatistics) -> Option<Section> {
    let mut known = BTreeSet::new();
    let names: Vec<&str> = data
        .plan
        .workloads
        .iter()
        .filter_map(|workload| workload.set.as_ref())
        .map(|(name, _)| name.as_str())
        .filter(|name| known.insert(*name))
        .collect();
    let mut section = Section::new("sets", "Curves over sets of workloads");
    for name in names {
        let pictures = set(data, judged, name);
        if !pictures.is_empty() {
            section.items.push(Item::Heading(name.to_owned()));
            section.items.push(Item::Pictures(pictures));
        }
    }
    (!section.items.is_empty()).then_some(section)
}

/// A workload of a set and its value in it.
type Member<'a> = (&'a WorkloadRecord, &'a str);

fn set(data: &Data, judged: &CampaignStatistics, name: &str) -> Vec<Picture> {
    let members: Vec<Member<'_>> = data
        .plan
        .workloads
        .iter()
        .filter_map(|workload| {
            let (set, value) = workload.set.as_ref()?;
            (set == name && workload.left_out.is_none()).then_some((workload, value.as_str()))
        })
        .collect();
    let mut figures: Vec<(String, Better)> = Vec::new();
    for (workload, _) in &members {
        let all = data.figure_names(workload);
        let further = all.into_iter().filter(|(name, _)| FURTHER_FIGURES.contains(&name.as_str()));
        for figure in data.main_figures(workload).into_iter().chain(further) {
            if !figures.contains(&figure) {
                figures.push(figure);
            }
        }
    }
    figures.iter().map(|figure| picture(data, judged, name, &members, figure)).collect()
}

fn picture(
    data: &Data,
    judged: &CampaignStatistics,
    set: &str,
    members: &[Member<'_>],
    (figure, better): &(String, Better),
) -> Picture {
    let unit = Unit::of_figure(figure);
    let (axis, places) = places(set, members);
    let mut columns = vec![Column::text(set)];
    let mut lines = Vec::new();
    for (number, target) in data.measured_targets() {
        columns.push(Column::number(target.name.clone()).of(Some(number)));
        let mut line = Line::new(target.name.clone(), number, Vec::new());
        line.has_marks = true;
        for ((workload, _), place) in members.iter().zip(&places) {
            let Some(estimate) = judged.estimate(&workload.name, &target.name, figure) else {
                continue;
            };
            line.points.push((*place, estimate.value));
            line.intervals.push(estimate.interval.unwrap_or((estimate.value, estimate.value)));
        }
        if !line.points.is_empty() {
            lines.push(line);
        }
    }
    let mut table = Table::new(format!("{} by {set}", figure_title(figure)), columns);
    for (workload, value) in members {
        let address = format!("#{}", anchor("workload", &workload.name));
        let mut cells = vec![Cell::new(Text::new().link(*value, address))];
        cells.extend(data.measured_targets().map(|(_, target)| {
            let estimate = judged.estimate(&workload.name, &target.name, figure);
            estimate.map_or_else(|| Cell::missing("none"), |of| Cell::new(unit.show(of.value)))
        }));
        table.push(cells);
    }
    let direction = match better {
        Better::Higher => "Higher is better. ",
        Better::Lower => "Lower is better. ",
        Better::Neither => "",
    };
    let y = Axis::new(figure_title(figure), unit, AxisKind::Linear);
    Picture {
        id: anchor(&anchor("set", set), figure),
        title: format!("{} by {set}", figure_title(figure)),
        note: format!("{direction}Vertical lines are {} intervals.", judged.level()),
        chart: Chart::Lines(Lines { x: axis, y, lines }),
        linear: None,
        table,
    }
}

/// Returns the horizontal axis of a set, and the place of each member: its number if all values
/// are numbers, else its order.
fn places(set: &str, members: &[Member<'_>]) -> (Axis, Vec<f64>) {
    let numbers: Vec<f64> = members
        .iter()
        .filter_map(|(_, value)| value.trim_end_matches([' ', '%']).parse().ok())
        .collect();
    if numbers.len() == members.len() {
        return (Axis::new(set, Unit::Number, AxisKind::LinearFromLeast), numbers);
    }
    let names = members.iter().map(|(_, value)| (*value).to_owned()).collect();
    let axis = Axis::new(set, Unit::Number, AxisKind::Names(names));
    (axis, (0..members.len()).map(|place| place as f64).collect())
}
