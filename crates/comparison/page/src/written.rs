//! Duplicates that a job was asked to write and those that it wrote, as in the figures of the
//! DEDISbench paper. They come from the result itself, because no figure holds them.

use crate::chart::{Axis, AxisKind, Chart, Line, Lines};
use crate::document::{Cell, Column, Picture, Table};
use crate::quantity::{Unit, percent};
use gemelo_job::bench::BenchFile;

/// Pictures of one result file at most.
const MAX_PICTURES: usize = 8;

/// Returns a picture for each job of a result that wrote blocks of a distribution.
pub(crate) fn pictures(file: &BenchFile, id: &str) -> Vec<Picture> {
    let is_one = file.input.len() == 1;
    file.input
        .iter()
        .zip(&file.result)
        .enumerate()
        .filter_map(|(number, (input, measured))| {
            let asked = &input.content.distribution;
            let written = measured.written.as_ref().filter(|written| written.blocks > 0)?;
            let title = if is_one {
                "Duplicates asked and written".to_owned()
            } else {
                format!("Duplicates asked and written, {}", input.name)
            };
            let id = format!("{id}-duplicates-{}", number + 1);
            let asked = shares(asked.zero_blocks(), &asked.pairs());
            Some(picture(id, title, &asked, &shares(written.zero_blocks, &written.distribution)))
        })
        .take(MAX_PICTURES)
        .collect()
}

fn picture(id: String, title: String, asked: &[f64], written: &[f64]) -> Picture {
    let ranges = asked.len().max(written.len());
    let zeros = std::iter::once("zeros".to_owned());
    let names: Vec<String> = zeros.chain((1..ranges).map(|one| range_name(one - 1))).collect();
    let line = |label: &str, colour, shares: &[f64]| {
        let at = |number| (number as f64, shares.get(number).copied().unwrap_or(0.0));
        let points = (0..ranges).map(at).collect();
        Line { has_marks: true, ..Line::new(label.to_owned(), colour, points) }
    };
    let columns = vec![
        Column::text("copies of a content"),
        Column::number("blocks, asked"),
        Column::number("blocks, written"),
    ];
    let mut table = Table::new(title.clone(), columns);
    for (number, name) in names.iter().enumerate() {
        let share = |shares: &[f64]| Cell::new(percent(shares.get(number).copied().unwrap_or(0.0)));
        table.push(vec![Cell::new(name.clone()), share(asked), share(written)]);
    }
    Picture {
        id,
        title,
        note: "The share of blocks whose content has this many copies: in the distribution that \
               the job names, and among the blocks that this run wrote. A short run reaches few \
               of the contents with many copies."
            .to_owned(),
        chart: Chart::Lines(Lines {
            x: Axis::new("copies of a content", Unit::Count, AxisKind::Names(names)),
            y: Axis::new("share of blocks", Unit::Share, AxisKind::Linear),
            lines: vec![line("asked", 0, asked), line("written", 1, written)],
        }),
        linear: None,
        table,
    }
}

/// Returns the share of blocks of zeros, and of those in other contents with 1, 2, 3 to 4, 5 to 8
/// copies and so on.
fn shares(zero_blocks: u64, distribution: &[[u64; 2]]) -> Vec<f64> {
    let mut blocks: Vec<f64> = vec![zero_blocks as f64];
    for [duplicates, contents] in distribution {
        let range = range_of(duplicates.saturating_add(1)) + 1;
        if blocks.len() <= range {
            blocks.resize(range + 1, 0.0);
        }
        if let Some(sum) = blocks.get_mut(range) {
            *sum += (*duplicates as f64 + 1.0) * *contents as f64;
        }
    }
    let total: f64 = blocks.iter().sum();
    blocks.iter().map(|sum| sum / total.max(1.0)).collect()
}

/// Returns the number of the range that a number of copies is in.
fn range_of(copies: u64) -> usize {
    copies.max(1).checked_next_power_of_two().map_or(64, u64::trailing_zeros) as usize
}

/// Returns the name of a range. Ends above 1024 are rounded to binary units, because the names of
/// long numbers have no room below an axis.
fn range_name(range: usize) -> String {
    let to = 1u64.checked_shl(range as u32).unwrap_or(u64::MAX);
    match to / 2 + 1 {
        from if from >= to => to.to_string(),
        from if to <= 1024 => format!("{from}-{to}"),
        from => format!("{}-{}", binary(from - 1), binary(to)),
    }
}

/// Returns a power of two in the largest binary unit that it reaches.
fn binary(number: u64) -> String {
    const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let unit = number.max(1).ilog2() / 10;
    let name = UNITS.get(unit as usize).copied().unwrap_or_default();
    format!("{}{name}", number >> (unit * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_in_ranges_that_double() {
        let names: Vec<String> = (0..5).map(range_name).collect();
        assert_eq!(names, ["1", "2", "3-4", "5-8", "9-16"]);
        let long: Vec<String> = [10, 11, 12, 40].into_iter().map(range_name).collect();
        assert_eq!(long, ["513-1024", "1Ki-2Ki", "2Ki-4Ki", "512Gi-1Ti"]);
        let copies = [1, 2, 3, 4, 5, 8, 9, 1 << 63, u64::MAX];
        let ranges: Vec<usize> = copies.into_iter().map(range_of).collect();
        assert_eq!(ranges, [0, 1, 2, 2, 3, 3, 4, 63, 64]);
    }

    #[test]
    fn shares_are_of_blocks_and_not_of_contents() {
        assert_eq!(shares(0, &[[0, 4], [1, 1], [3, 1]]), [0.0, 0.4, 0.2, 0.4]);
        assert_eq!(shares(10, &[[0, 4], [1, 1], [3, 1]]), [0.5, 0.2, 0.1, 0.2]);
    }
}
