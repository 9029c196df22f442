//! Accesses to each block, from the log that `gemelo bench --access-log` writes: lines
//! `<block> <accesses>`.

use crate::chart::{Axis, AxisKind, Chart, Line, Lines};
use crate::document::{Cell, Column, Picture, Table};
use crate::quantity::{Unit, percent, significant};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Points of the lines.
const MAX_POINTS: usize = 160;
/// The longest log that is read: 256 million blocks are a target of a TiB.
const MAX_BLOCKS: usize = 1 << 28;
/// Bytes of a line at most: two numbers. Files of other kinds may have lines of any length.
const MAX_LINE_BYTES: u64 = 64;
/// Shares of blocks in the table.
const SHARES: [f64; 5] = [0.01, 0.05, 0.1, 0.2, 0.5];

/// Returns the pictures of an access log. A file of another kind has none.
pub(crate) fn pictures(path: &Path, id: &str) -> Vec<Picture> {
    let Some(mut counts) = read(path).filter(|counts| counts.iter().any(|count| *count > 0)) else {
        return Vec::new();
    };
    let by_place = by_place(&counts, id);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    vec![by_place, by_rank(&counts, id)]
}

/// Returns the accesses of each block, or `None` if the file is not an access log.
fn read(path: &Path) -> Option<Vec<u64>> {
    let (mut counts, mut line) = (Vec::new(), String::new());
    let mut file = BufReader::new(File::open(path).ok()?);
    while file.by_ref().take(MAX_LINE_BYTES).read_line(&mut line).ok()? > 0 {
        let (block, count) = line.split_once(' ')?;
        if block.parse::<usize>().ok()? != counts.len() || counts.len() >= MAX_BLOCKS {
            return None;
        }
        counts.push(count.trim().parse().ok()?);
        line.clear();
    }
    (!counts.is_empty()).then_some(counts)
}

/// Returns the mean accesses of blocks that lie together.
fn by_place(counts: &[u64], id: &str) -> Picture {
    let length = counts.len().div_ceil(MAX_POINTS).max(1);
    let means: Vec<(f64, f64)> = counts
        .chunks(length)
        .enumerate()
        .map(|(number, group)| {
            let sum: f64 = group.iter().map(|count| *count as f64).sum();
            let mean = sum / group.len() as f64;
            ((number * length) as f64, mean)
        })
        .collect();
    let columns = vec![Column::text("from block"), Column::number("mean accesses of a block")];
    let mut table = Table::new("Accesses by block", columns);
    for (block, mean) in means.iter().step_by(means.len().div_ceil(16).max(1)) {
        let block = gemelo_base::units::format_count(*block as u64);
        table.push(vec![Cell::new(block), Cell::new(significant(*mean))]);
    }
    Picture {
        id: format!("{id}-accesses"),
        title: "Accesses by block".to_owned(),
        note: format!("Each point is the mean of {length} blocks that lie together."),
        chart: Chart::Lines(Lines {
            x: Axis::new("block", Unit::Count, AxisKind::Linear),
            y: Axis::new("accesses of a block", Unit::Number, AxisKind::Linear),
            lines: vec![Line::new("accesses".to_owned(), 0, means)],
        }),
        linear: None,
        table,
    }
}

/// Returns the share of accesses that go to the blocks with the most accesses.
fn by_rank(descending: &[u64], id: &str) -> Picture {
    let total: f64 = descending.iter().map(|count| *count as f64).sum();
    let mut sum = 0.0;
    let cumulative: Vec<f64> = descending
        .iter()
        .map(|count| {
            sum += *count as f64;
            sum / total
        })
        .collect();
    let at = |share: f64| {
        let blocks = (share * descending.len() as f64).round() as usize;
        blocks.checked_sub(1).and_then(|last| cumulative.get(last)).copied().unwrap_or(0.0)
    };
    let points = (0..=MAX_POINTS)
        .map(|step| step as f64 / MAX_POINTS as f64)
        .map(|share| (share, at(share)))
        .collect();
    let columns = vec![Column::text("blocks with the most accesses"), Column::number("accesses")];
    let mut table = Table::new("Accesses to the most accessed blocks", columns);
    for share in SHARES {
        table.push(vec![Cell::new(percent(share)), Cell::new(percent(at(share)))]);
    }
    Picture {
        id: format!("{id}-hot-blocks"),
        title: "Accesses to the most accessed blocks".to_owned(),
        note: "A straight diagonal is uniform access. The earlier the line rises, the hotter are \
               the hot spots."
            .to_owned(),
        chart: Chart::Lines(Lines {
            x: Axis::new("share of blocks, the most accessed first", Unit::Share, AxisKind::Linear),
            y: Axis::new("share of accesses", Unit::Share, AxisKind::Linear),
            lines: vec![Line::new("accesses".to_owned(), 0, points)],
        }),
        linear: None,
        table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_access_logs_have_pictures() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let most = u64::MAX;
        for (text, is_log) in [
            ("0 3\n1 0\n2 9\n".to_owned(), true),
            (format!("0 {most}\n1 {most}\n"), true),
            (format!("0 {}3\n", " ".repeat(100)), false),
            ("{\"schema\": 1}".to_owned(), false),
            ("5 1\n".to_owned(), false),
            (String::new(), false),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(pictures(&path, "x").len(), if is_log { 2 } else { 0 }, "{text}");
        }
    }
}
