//! The result of a scan: all block sizes side by side, savings, duplicates, entropy, distances.

use super::file_name;
use crate::PageError;
use crate::chart::{Axis, AxisKind, Bar, Bars, Chart, Line, Lines};
use crate::document::{Answer, Cell, Column, Item, Picture, Section, Table, Text};
use crate::quantity::{Unit, percent, significant};
use gemelo_base::units::{
    format_count, format_counted, format_exact_size, format_line, format_size,
};
use gemelo_report::read_result;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::Path;

/// Schema of the results of scans.
const SCHEMA: &str = "gemelo.scan/1";

#[derive(Deserialize)]
struct Scan {
    zeros: String,
    files: Files,
    block_sizes: Vec<BlockSize>,
}

#[derive(Deserialize)]
struct Files {
    files: u64,
    data_bytes: u64,
}

#[derive(Deserialize)]
struct BlockSize {
    block_bytes: u64,
    data_bytes: u64,
    zero_blocks: u64,
    zero_bytes: u64,
    counted_bytes: u64,
    distinct_bytes: u64,
    dedup_ratio: f64,
    ranges: Vec<Range>,
    most_repeated: Vec<Repeated>,
    nature: Option<Nature>,
    locality: Option<Locality>,
}

#[derive(Deserialize)]
struct Range {
    duplicates: String,
    blocks: u64,
    share: f64,
}

#[derive(Deserialize)]
struct Repeated {
    fingerprint: String,
    copies: u64,
    length_bytes: u64,
    zero: bool,
    place: Option<Place>,
}

#[derive(Deserialize)]
struct Place {
    path: String,
    offset_bytes: u64,
}

#[derive(Deserialize)]
struct Nature {
    overall: Sampled,
    classes: Vec<Sampled>,
    entropy_histogram: Vec<u64>,
}

#[derive(Deserialize)]
struct Sampled {
    #[serde(default)]
    duplicates: String,
    sampled_contents: u64,
    zstd_saved_share: f64,
}

#[derive(Deserialize)]
struct Locality {
    histogram: Vec<[u64; 2]>,
}

/// Returns the section of a scan.
pub(super) fn section(path: &Path, id: &str) -> Result<Section, PageError> {
    let scan = read_result::<IgnoredAny, Scan>(path, SCHEMA)?.result;
    let mut section = Section::new(format!("{id}-scan"), format!("Scan {}", file_name(path)));
    let items = &mut section.items;
    items.push(Item::Answers(scan.block_sizes.iter().map(|size| answer(&scan, size)).collect()));
    items.push(Item::Table(savings_table(&scan)));
    items.push(Item::Paragraph(
        "Compression is estimated from a uniform sample of distinct contents, each block \
         compressed alone by zstd at level 1. A store that compresses several blocks together \
         saves more."
            .into(),
    ));
    let mut pictures = vec![savings(&scan, id), duplicates(&scan, id)];
    pictures.extend(entropy(&scan, id));
    pictures.extend(distances(&scan, id));
    items.push(Item::Pictures(pictures));
    for size in &scan.block_sizes {
        if !size.most_repeated.is_empty() {
            items.push(Item::More(most_repeated(size)));
        }
    }
    Ok(section)
}

/// Bytes before and after deduplication, with or without zero blocks.
struct Amounts {
    data_bytes: f64,
    distinct_bytes: f64,
}

/// Savings as shares of the data.
struct Savings {
    deduplication: f64,
    compression: Option<f64>,
    both: Option<f64>,
}

impl BlockSize {
    fn name(&self) -> String {
        format_exact_size(self.block_bytes)
    }

    /// Returns the amounts with zero blocks, of which a store keeps one.
    fn with_zeros(&self, zeros: &str) -> Amounts {
        let one = if self.zero_blocks > 0 { self.block_bytes as f64 } else { 0.0 };
        let (counted, distinct) = (self.counted_bytes as f64, self.distinct_bytes as f64);
        match zeros {
            "include" => Amounts { data_bytes: counted, distinct_bytes: distinct },
            _ => Amounts {
                data_bytes: counted + self.zero_bytes as f64,
                distinct_bytes: distinct + one,
            },
        }
    }

    /// Returns the amounts without zero blocks, which a thin store does not keep.
    fn without_zeros(&self, zeros: &str) -> Amounts {
        let one = if self.zero_blocks > 0 { self.block_bytes as f64 } else { 0.0 };
        let all = self.with_zeros(zeros);
        Amounts {
            data_bytes: all.data_bytes - self.zero_bytes as f64,
            distinct_bytes: (all.distinct_bytes - one).max(0.0),
        }
    }

    /// Returns the share that compression saves of the blocks that are not zero: the mean over
    /// ranges of duplicates, weighted by their blocks.
    fn compressed_share(&self) -> Option<f64> {
        let nature = self.nature.as_ref()?;
        let (mut saved, mut blocks) = (0.0, 0.0);
        for range in &self.ranges {
            let sampled = nature.classes.iter().find(|one| one.duplicates == range.duplicates);
            let share = sampled.map_or(nature.overall.zstd_saved_share, |one| one.zstd_saved_share);
            saved += share * range.blocks as f64;
            blocks += range.blocks as f64;
        }
        (blocks > 0.0).then(|| saved / blocks)
    }

    fn savings(&self, zeros: &str, is_thin: bool) -> Savings {
        let all = if is_thin { self.without_zeros(zeros) } else { self.with_zeros(zeros) };
        let thin = self.without_zeros(zeros);
        let data = all.data_bytes.max(1.0);
        let kept = |share: f64| thin.data_bytes * (1.0 - share);
        let distinct_kept = |share: f64| thin.distinct_bytes * (1.0 - share);
        let overall = self.nature.as_ref().map(|nature| nature.overall.zstd_saved_share);
        Savings {
            deduplication: 1.0 - all.distinct_bytes / data,
            // A zero block compresses to almost nothing.
            compression: self.compressed_share().map(|share| 1.0 - kept(share) / data),
            both: overall.map(|share| 1.0 - distinct_kept(share) / data),
        }
    }
}

fn answer(scan: &Scan, size: &BlockSize) -> Answer {
    let savings = size.savings(&scan.zeros, false);
    let sentence = Text::new()
        .plain(format!("With blocks of {}, deduplication saves ", size.name()))
        .strong(percent(savings.deduplication))
        .plain(format!(
            " of {} in {}",
            format_size(size.data_bytes.max(scan.files.data_bytes)),
            format_counted(scan.files.files, "file")
        ));
    let sentence = match (savings.compression, savings.both) {
        (Some(compression), Some(both)) => sentence
            .plain(format!(
                "; compression alone saves about {}, and both together about ",
                percent(compression)
            ))
            .strong(percent(both)),
        _ => sentence,
    };
    let mut details = vec![Text::from(format!("dedup ratio {}", significant(size.dedup_ratio)))];
    if size.zero_bytes > 0 {
        let thin = size.savings(&scan.zeros, true);
        details.push(
            format!(
                "without {} of zeros: {}",
                format_size(size.zero_bytes),
                percent(thin.deduplication)
            )
            .into(),
        );
    }
    Answer { sentence: sentence.plain("."), details }
}

fn savings_table(scan: &Scan) -> Table {
    let columns = vec![
        Column::text("block size"),
        Column::text("zeros"),
        Column::number("data"),
        Column::number("distinct"),
        Column::number("deduplication saves"),
        Column::number("compression saves"),
        Column::number("both save"),
        Column::number("sampled contents"),
    ];
    let mut table = Table::new("Savings by block size", columns);
    for size in &scan.block_sizes {
        let has_zeros = size.zero_blocks > 0;
        for is_thin in [false, true].into_iter().take(if has_zeros { 2 } else { 1 }) {
            let zeros = match (has_zeros, is_thin) {
                (false, _) => "none in the data",
                (true, false) => "with",
                (true, true) => "without",
            };
            let amounts = if is_thin {
                size.without_zeros(&scan.zeros)
            } else {
                size.with_zeros(&scan.zeros)
            };
            let savings = size.savings(&scan.zeros, is_thin);
            let share = |share: Option<f64>| {
                share.map_or_else(|| Cell::missing("not measured"), |share| percent(share).into())
            };
            let sampled = size.nature.as_ref().map(|nature| nature.overall.sampled_contents);
            table.push(vec![
                Cell::new(size.name()),
                Cell::new(zeros),
                Cell::new(format_size(amounts.data_bytes as u64)),
                Cell::new(format_size(amounts.distinct_bytes as u64)),
                share(Some(savings.deduplication)),
                share(savings.compression),
                share(savings.both),
                sampled.map_or_else(|| Cell::missing("none"), |count| format_count(count).into()),
            ]);
        }
    }
    table
}

/// Block sizes up to which savings are bars. More are lines.
const MOST_SIZES_AS_BARS: usize = 3;

fn savings(scan: &Scan, id: &str) -> Picture {
    let mut table = savings_table(scan);
    table.caption = "Savings".to_owned();
    let axis = Axis::new("share of the data that is saved", Unit::Share, AxisKind::Linear);
    let of = |size: &BlockSize| {
        let savings = size.savings(&scan.zeros, false);
        [
            ("deduplication", Some(savings.deduplication)),
            ("compression", savings.compression),
            ("both", savings.both),
        ]
    };
    let chart = if scan.block_sizes.len() <= MOST_SIZES_AS_BARS {
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
        let names = scan.block_sizes.iter().map(BlockSize::name).collect();
        let x = Axis::new("block size", Unit::Bytes, AxisKind::Names(names));
        Chart::Lines(Lines { x, y: axis, lines })
    };
    Picture {
        id: format!("{id}-savings"),
        title: "Savings by block size".to_owned(),
        note: "Zero blocks included. Compression is an estimate from a sample.".to_owned(),
        chart,
        linear: None,
        table,
    }
}

fn duplicates(scan: &Scan, id: &str) -> Picture {
    let longest = scan.block_sizes.iter().max_by_key(|size| size.ranges.len());
    let names: Vec<String> = longest
        .map(|size| size.ranges.iter().map(|range| range.duplicates.clone()).collect())
        .unwrap_or_default();
    let columns = std::iter::once(Column::text("duplicates"))
        .chain(scan.block_sizes.iter().map(|size| Column::number(size.name())));
    let mut table =
        Table::new("Share of blocks by the duplicates of their content", columns.collect());
    let share_of = |size: &BlockSize, name: &str| {
        size.ranges.iter().find(|range| range.duplicates == name).map_or(0.0, |range| range.share)
    };
    for name in &names {
        let mut cells = vec![Cell::new(name.clone())];
        cells.extend(scan.block_sizes.iter().map(|size| Cell::new(percent(share_of(size, name)))));
        table.push(cells);
    }
    let shares = |size: &BlockSize| {
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
fn lines(scan: &Scan, points: impl Fn(&BlockSize) -> Vec<(f64, f64)>) -> Vec<Line> {
    let all = scan.block_sizes.iter().enumerate();
    all.map(|(colour, size)| Line {
        has_marks: true,
        ..Line::new(size.name(), colour, points(size))
    })
    .filter(|line| !line.points.is_empty())
    .collect()
}

fn entropy(scan: &Scan, id: &str) -> Option<Picture> {
    let bins = |size: &BlockSize| -> Vec<(f64, f64)> {
        let Some(nature) = &size.nature else { return Vec::new() };
        let width = 8.0 / nature.entropy_histogram.len().max(1) as f64;
        let total = nature.entropy_histogram.iter().sum::<u64>().max(1) as f64;
        let bin = |(n, count): (usize, &u64)| ((n as f64 + 0.5) * width, *count as f64 / total);
        nature.entropy_histogram.iter().enumerate().map(bin).collect()
    };
    let lines = lines(scan, bins);
    let axis = Axis::new("entropy, bits a byte", Unit::Number, AxisKind::Linear);
    let title = "Distinct contents by entropy";
    picture_of(format!("{id}-entropy"), title, axis, lines, significant)
}

fn distances(scan: &Scan, id: &str) -> Option<Picture> {
    let bins = |size: &BlockSize| -> Vec<(f64, f64)> {
        let Some(locality) = &size.locality else { return Vec::new() };
        let total = locality.histogram.iter().map(|[_, count]| count).sum::<u64>().max(1) as f64;
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

fn most_repeated(size: &BlockSize) -> Table {
    let columns = vec![
        Column::text("fingerprint"),
        Column::number("copies"),
        Column::number("length"),
        Column::text("one of the places"),
    ];
    let caption = format!("The most repeated contents, blocks of {}", size.name());
    let mut table = Table::new(caption, columns);
    for repeated in &size.most_repeated {
        let place = match &repeated.place {
            _ if repeated.zero => Cell::missing("zeros"),
            Some(place) => {
                Cell::new(format!("{} at {}", format_line(&place.path), place.offset_bytes))
            }
            None => Cell::missing("unknown"),
        };
        table.push(vec![
            Cell::new(repeated.fingerprint.clone()),
            Cell::new(format_count(repeated.copies)),
            Cell::new(format_size(repeated.length_bytes)),
            place,
        ]);
    }
    table
}
