//! Results of load: `bench`, `suite`, `replay`, `filebench`, `fio`, and the figures of a pool. The
//! jobs of all files stand side by side.

use crate::campaign::{TimeLine, is_drawn, latency_picture, time_picture};
use crate::chart::{Axis, AxisKind, Bar, Bars, Chart};
use crate::document::{Answer, Cell, Column, Item, Picture, Section, Table, Text};
use crate::quantity::{Unit, figure_name, figure_title, percent};
use crate::thin::Percentiles;
use gemelo_figures::{Kind, RawResult, name_parts};
use gemelo_record::{Curve, Figure, Provenance, Series, Stats};
use std::collections::BTreeSet;

/// Jobs that one report shows at most. More lines in one picture cannot be told apart.
pub(super) const MAX_SOURCES: usize = 24;
/// Jobs whose latencies stand below their rates. Those of more jobs are in the table alone.
const MAX_DETAILED: usize = 3;
/// Figures that get a picture with a bar for each job, if several jobs have them.
const BARS: [&str; 7] = [
    "write/operations_per_s",
    "read/operations_per_s",
    "filebench/operations_per_s",
    "write/latency_p99_ns",
    "read/latency_p99_ns",
    "space/data_bytes",
    "scan/bytes_per_s",
];

/// A job of a result file.
pub(super) struct Source<'a> {
    /// Name of the job, the file, or both.
    pub(super) label: String,
    figures: Vec<&'a Figure>,
    curves: Vec<&'a Curve>,
    series: Vec<&'a Series>,
}

/// Returns the jobs of all files.
pub(super) fn sources(files: &[(String, RawResult)]) -> Vec<Source<'_>> {
    let mut sources = Vec::new();
    for (name, raw) in files {
        let mut jobs: Vec<Option<String>> = Vec::new();
        for figure in &raw.figures.figures {
            let job = figure_name(&figure.name).job;
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        for job in jobs {
            let file = match (raw.kind, files.len(), &raw.provenance) {
                (Kind::Pool, 1, Some(Provenance { target: Some(pool), .. })) => pool.clone(),
                _ => name.clone(),
            };
            let label = match (&job, files.len()) {
                (Some(job), 1) => job.clone(),
                (Some(job), _) => format!("{file}: {job}"),
                (None, _) => file,
            };
            sources.push(Source::new(label, &raw.figures, job.as_deref()));
        }
    }
    sources.truncate(MAX_SOURCES);
    sources
}

/// Returns the sections about load, none if there was none.
pub(super) fn sections(sources: &[Source<'_>]) -> Vec<Section> {
    if sources.is_empty() {
        return Vec::new();
    }
    let mut answer = Section::new("answer", "Answer");
    let mut answers: Vec<Answer> = sources.iter().filter_map(Source::answer).collect();
    if answers.len() > MAX_DETAILED {
        answers.iter_mut().for_each(|answer| answer.details.clear());
    }
    if !answers.is_empty() {
        answer.items.push(Item::Answers(answers));
    }
    let mut pictures = Section::new("pictures", "Pictures");
    let drawn = pictures_of("all", sources);
    if !drawn.is_empty() {
        pictures.items.push(Item::Pictures(drawn));
    }
    let mut figures = Section::new("figures", "Figures");
    figures.items.push(Item::Table(table(sources)));
    [answer, pictures, figures].into_iter().filter(|section| !section.items.is_empty()).collect()
}

impl<'a> Source<'a> {
    /// Returns a job among figures.
    pub(super) fn new(label: String, stats: &'a Stats, job: Option<&str>) -> Self {
        let is_of = |name: &str| name_parts(name).job == job;
        Self {
            label,
            figures: stats.figures.iter().filter(|one| is_of(&one.name)).collect(),
            curves: stats.curves.iter().filter(|one| is_of(&one.name)).collect(),
            series: stats.series.iter().filter(|one| is_of(&one.name)).collect(),
        }
    }
}

impl Source<'_> {
    pub(super) fn value(&self, bare: &str) -> Option<f64> {
        self.figures
            .iter()
            .find(|figure| name_parts(&figure.name).bare == bare)
            .map(|one| one.value)
    }

    pub(super) fn shown(&self, bare: &str) -> Option<String> {
        Some(Unit::of_figure(bare).show(self.value(bare)?))
    }

    /// Returns the main figures as a sentence.
    fn answer(&self) -> Option<Answer> {
        let mut text = Text::new().strong(self.label.clone());
        let mut details = Vec::new();
        let mut verbs = 0;
        for (kind, verb) in [("write", "wrote"), ("read", "read"), ("filebench", "ran")] {
            let Some(rate) = self.shown(&format!("{kind}/operations_per_s")) else { continue };
            text = text.plain(if verbs > 0 { " and " } else { " " });
            verbs += 1;
            let rate = rate.trim_end_matches("/s");
            text = text.plain(format!("{verb} ")).strong(format!("{rate} operations a second"));
            if let Some(bytes) = self.shown(&format!("{kind}/bytes_per_s")) {
                text = text.plain(format!(", {bytes}"));
            }
            let ranks = [("mean", "mean"), ("p50", "50 %"), ("p99", "99 %"), ("p99.9", "99.9 %")];
            for (name, words) in ranks {
                let latency = self.shown(&format!("{kind}/latency_{name}_ns"));
                details
                    .extend(latency.map(|ns| Text::from(format!("{kind} latency, {words}: {ns}"))));
            }
        }
        if verbs > 0 {
            return Some(Answer { sentence: text.plain("."), details });
        }
        self.answer_of_pool(text)
    }

    /// Returns the space of a pool as a sentence.
    fn answer_of_pool(&self, text: Text) -> Option<Answer> {
        let (data, logical) = (self.shown("space/data_bytes")?, self.shown("space/logical_bytes")?);
        let saved = 1.0 - self.value("space/data_bytes")? / self.value("space/logical_bytes")?;
        let saved = if saved.is_finite() { saved } else { 0.0 };
        let text = text
            .plain(" stores ")
            .strong(logical)
            .plain(" of its users in ")
            .strong(data)
            .plain(format!(" of data: {} less.", percent(saved)));
        let metadata = self.shown("space/metadata_bytes");
        let details = metadata.map(|bytes| Text::from(format!("metadata: {bytes}")));
        Some(Answer { sentence: text, details: details.into_iter().collect() })
    }
}

/// Returns the pictures of jobs beside each other. `id` begins their anchors.
pub(super) fn pictures_of(id: &str, sources: &[Source<'_>]) -> Vec<Picture> {
    let anchor = |kind: &str, bare: &str| crate::anchor(&crate::anchor(id, kind), bare);
    let mut pictures = Vec::new();
    for bare in BARS {
        let with = sources.iter().filter(|source| source.value(bare).is_some()).count();
        if with > 1 {
            pictures.push(bars(anchor("bars", bare), sources, bare));
        }
    }
    for bare in names(sources.iter().flat_map(|source| &source.curves).map(|one| &one.name)) {
        let curves: Vec<_> = sources
            .iter()
            .enumerate()
            .filter_map(|(number, source)| {
                let curve = source.curves.iter().find(|one| name_parts(&one.name).bare == bare)?;
                Some((number, source.label.clone(), Percentiles::new(&curve.counts)))
            })
            .collect();
        pictures.push(latency_picture(anchor("latency", bare), &figure_title(bare), &curves));
    }
    let drawn = |series: &&&Series| {
        is_drawn(series, sources.iter().flat_map(|one| one.series.iter().copied()))
    };
    for bare in
        names(sources.iter().flat_map(|source| &source.series).filter(drawn).map(|one| &one.name))
    {
        let lines: Vec<TimeLine<'_>> = sources
            .iter()
            .enumerate()
            .filter_map(|(number, source)| {
                let series = source.series.iter().find(|one| name_parts(&one.name).bare == bare)?;
                let label = source.label.clone();
                Some(TimeLine { colour: number, label, points: &series.points })
            })
            .collect();
        pictures.push(time_picture(anchor("time", bare), bare, &lines));
    }
    pictures
}

/// Returns the names without their jobs, each once, in the order in which they come.
fn names<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut known = BTreeSet::new();
    names.map(|name| name_parts(name).bare).filter(|name| known.insert(*name)).collect()
}

fn bars(id: String, sources: &[Source<'_>], bare: &str) -> Picture {
    let unit = Unit::of_figure(bare);
    let title = figure_title(bare);
    let columns = vec![Column::text("job"), Column::number(title.clone())];
    let mut table = Table::new(title.clone(), columns);
    let mut bars = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let Some(value) = source.value(bare) else { continue };
        table.push_of(
            Some(number),
            vec![Cell::new(source.label.clone()), Cell::new(unit.show(value))],
        );
        bars.push(Bar {
            label: source.label.clone(),
            value: unit.show(value),
            colour: number,
            parts: vec![value],
            interval: None,
        });
    }
    Picture {
        id,
        title: title.clone(),
        note: "Single runs have no intervals: a campaign repeats them.".to_owned(),
        chart: Chart::Bars(Bars { axis: Axis::new(title, unit, AxisKind::Linear), bars }),
        linear: None,
        table,
    }
}

fn table(sources: &[Source<'_>]) -> Table {
    let mut columns = vec![Column::text("figure")];
    columns.extend(
        sources
            .iter()
            .enumerate()
            .map(|(number, source)| Column::number(source.label.clone()).of(Some(number))),
    );
    let mut table = Table::new("All figures", columns);
    for bare in names(sources.iter().flat_map(|source| &source.figures).map(|one| &one.name)) {
        let mut cells = vec![Cell::new(figure_title(bare))];
        cells.extend(
            sources
                .iter()
                .map(|source| source.shown(bare).map_or_else(|| Cell::missing("none"), Cell::new)),
        );
        table.push(cells);
    }
    table
}
