//! The pictures of a scan.

use super::savings::Saving as _;
use super::savings_table;
use crate::chart::{Axis, AxisKind, Bar, Bars, Chart, Line, Lines};
use crate::document::{Cell, Column, Picture, Table};
use crate::quantity::{Unit, percent, significant};
use gemelo_scan::{BlockSizeResult, ScanResult};

/// Block sizes up to which savings are bars. More are lines.
const MAX_SIZES_AS_BARS: usize = 3;

pub(super) fn savings(scan: &ScanResult, id: &str) -> Picture {
    let mut table = savings_table(scan);
    table.caption = "Savings".to_owned();
    let axis = Axis::new("share of the data that is saved", Unit::Share, AxisKind::Linear);
    let of = |size: &BlockSizeResult| {
        let savings = size.savings(size.without_zeros());
        [
            ("deduplication", Some(savings.deduplication)),
            ("compression", savings.compression),
            ("both", savings.both),
        ]
    };
    let chart = if scan.block_sizes.len() <= MAX_SIZES_AS_BARS {
        let bars = scan.block_sizes.iter().flat_map(|size| {
            of(size).into_iter().enumerate().filter_map(|(colour, (name, share))| {
                let share = share?;
                Some(Bar {
                    label: format!("{}, {name}", size.name()),
                    value: percent(share),
                    colour,
                    parts: vec![share.max(0.0)],
                    interval: None,
                })
            })
        });
        Chart::Bars(Bars { axis, bars: bars.collect() })
    } else {
        let mut lines: Vec<Line> = Vec::new();
        for (place, size) in scan.block_sizes.iter().enumerate() {
            for (colour, (name, share)) in of(size).into_iter().enumerate() {
                let Some(share) = share else { continue };
                let found = lines.iter().position(|line| line.colour == colour);
                let number = found.unwrap_or_else(|| {
                    let line = Line::new(name.to_owned(), colour, Vec::new());
                    lines.push(Line { has_marks: true, ..line });
                    lines.len() - 1
                });
                if let Some(line) = lines.get_mut(number) {
                    line.points.push((place as f64, share));
                }
            }
        }
        let names = scan.block_sizes.iter().map(BlockSizeResult::name).collect();
        let x = Axis::new("block size", Unit::Bytes, AxisKind::Names(names));
        Chart::Lines(Lines { x, y: axis, lines })
    };
    Picture {
        id: format!("{id}-savings"),
        title: "Savings by block size".to_owned(),
        note: "Without zero blocks. Compression is an estimate from a sample.".to_owned(),
        chart,
        linear: None,
        table,
    }
}

pub(super) fn duplicates(scan: &ScanResult, id: &str) -> Picture {
    let longest = scan.block_sizes.iter().max_by_key(|size| size.ranges.len());
    let names: Vec<String> = longest
        .map(|size| size.ranges.iter().map(|range| range.duplicates.clone()).collect())
        .unwrap_or_default();
    let columns = std::iter::once(Column::text("duplicates"))
        .chain(scan.block_sizes.iter().map(|size| Column::number(size.name())));
    let mut table =
        Table::new("Share of blocks by the duplicates of their content", columns.collect());
    let share_of = |size: &BlockSizeResult, name: &str| {
        size.ranges.iter().find(|range| range.duplicates == name).map_or(0.0, |range| range.share)
    };
    for name in &names {
        let mut cells = vec![Cell::new(name.clone())];
        cells.extend(scan.block_sizes.iter().map(|size| Cell::new(percent(share_of(size, name)))));
        table.push(cells);
    }
    let shares = |size: &BlockSizeResult| {
        names.iter().enumerate().map(|(n, name)| (n as f64, share_of(size, name))).collect()
    };
    Picture {
        id: format!("{id}-duplicates"),
        title: "Blocks by the duplicates of their content".to_owned(),
        note: "Duplicates are the copies of a content minus one.".to_owned(),
        chart: Chart::Lines(Lines {
            x: Axis::new("duplicates of a content", Unit::Count, AxisKind::Names(names.clone())),
            y: Axis::new("share of blocks", Unit::Share, AxisKind::Linear),
            lines: lines(scan, shares),
        }),
        linear: None,
        table,
    }
}

/// Returns a line for each block size that has points.
fn lines(scan: &ScanResult, points: impl Fn(&BlockSizeResult) -> Vec<(f64, f64)>) -> Vec<Line> {
    let all = scan.block_sizes.iter().enumerate();
    all.map(|(colour, size)| Line {
        has_marks: true,
        ..Line::new(size.name(), colour, points(size))
    })
    .filter(|line| !line.points.is_empty())
    .collect()
}

/// Returns a sum of counts by which shares can be taken. Those of a file may be of any size.
fn sum<'a>(counts: impl Iterator<Item = &'a u64>) -> f64 {
    counts.map(|count| *count as f64).sum::<f64>().max(1.0)
}

pub(super) fn entropy(scan: &ScanResult, id: &str) -> Option<Picture> {
    let bins = |size: &BlockSizeResult| -> Vec<(f64, f64)> {
        let Some(nature) = &size.nature else { return Vec::new() };
        let width = 8.0 / nature.entropy_histogram.len().max(1) as f64;
        let total = sum(nature.entropy_histogram.iter());
        let bin = |(n, count): (usize, &u64)| ((n as f64 + 0.5) * width, *count as f64 / total);
        nature.entropy_histogram.iter().enumerate().map(bin).collect()
    };
    let lines = lines(scan, bins);
    let axis = Axis::new("entropy, bits a byte", Unit::Number, AxisKind::Linear);
    let title = "Distinct contents by entropy";
    picture_of(format!("{id}-entropy"), title, axis, lines, significant)
}

pub(super) fn distances(scan: &ScanResult, id: &str) -> Option<Picture> {
    let bins = |size: &BlockSizeResult| -> Vec<(f64, f64)> {
        let Some(locality) = &size.locality else { return Vec::new() };
        let total = sum(locality.histogram.iter().map(|[_, count]| count));
        let bin = |[distance, count]: &[u64; 2]| (*distance as f64, *count as f64 / total);
        locality.histogram.iter().map(bin).collect()
    };
    let lines = lines(scan, bins);
    let axis = Axis::new("distance from copy to copy", Unit::Bytes, AxisKind::Logarithmic);
    let title = "Distances from copy to copy";
    picture_of(format!("{id}-distances"), title, axis, lines, |bytes| Unit::Bytes.show(bytes))
}

/// Returns a picture of shares over a quantity, if there are any.
fn picture_of(
    id: String,
    title: &str,
    x: Axis,
    lines: Vec<Line>,
    show: impl Fn(f64) -> String,
) -> Option<Picture> {
    let longest = lines.iter().max_by_key(|line| line.points.len())?;
    let mut columns = vec![Column::text(x.title.clone())];
    columns.extend(lines.iter().map(|line| Column::number(line.label.clone())));
    let mut table = Table::new(title, columns);
    for (place, _) in &longest.points {
        let mut cells = vec![Cell::new(show(*place))];
        cells.extend(lines.iter().map(|line| {
            let share = line.points.iter().find(|(at, _)| at == place).map(|(_, share)| *share);
            share.map_or_else(|| Cell::missing("none"), |share| Cell::new(percent(share)))
        }));
        table.push(cells);
    }
    Some(Picture {
        id,
        title: title.to_owned(),
        note: "Shares of a sample of contents.".to_owned(),
        chart: Chart::Lines(Lines {
            x,
            y: Axis::new("share", Unit::Share, AxisKind::Linear),
            lines,
        }),
        linear: None,
        table,
    })
}
