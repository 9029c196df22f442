//! The report of single result files.

mod hosts;
mod load;
mod scan;

pub(crate) use hosts::host_label;

use crate::document::{Compared, Document, Item, Picture, Section};
use crate::{PageError, accesses, origin, written};
use gemelo_base::ShowPath as _;
use gemelo_figures::{AnyResult, Kind, RawResult};
use gemelo_record::Provenance;
use std::path::{Path, PathBuf};

/// The parts of a report, in which files are told by their names.
struct Parts {
    loads: Vec<(String, RawResult)>,
    scans: Vec<Section>,
    origins: Section,
    of_hosts: Vec<Section>,
    pictures: Vec<Picture>,
    first: Option<Provenance>,
}

/// Returns the report of result files and access logs.
pub(crate) fn of_files(files: &[PathBuf]) -> Result<Document, PageError> {
    let names: Vec<String> = files.iter().map(|path| file_name(path)).collect();
    let mut parts = Parts::new();
    for (number, (path, name)) in files.iter().zip(&names).enumerate() {
        let id = format!("file-{}", number + 1);
        let of_log = accesses::pictures(path, &id);
        if !of_log.is_empty() {
            parts.pictures.extend(of_log);
            continue;
        }
        if files.len() > 1 {
            parts.origins.items.push(Item::Heading(name.clone()));
        }
        parts.add(AnyResult::read(path)?, Some(name), &id);
    }
    Ok(parts.into_document(&names, true))
}

/// Returns the report of one result, which may be saved to a file.
pub(crate) fn of_result(result: AnyResult, file: Option<&Path>) -> Document {
    let mut parts = Parts::new();
    let name = file.map(file_name);
    let kind = result.kind().name().to_owned();
    parts.add(result, name.as_deref(), "file-1");
    let is_saved = name.is_some();
    parts.into_document(&[name.unwrap_or(kind)], is_saved)
}

impl Parts {
    fn new() -> Self {
        Self {
            loads: Vec::new(),
            scans: Vec::new(),
            origins: Section::new("origin", "Origin"),
            of_hosts: Vec::new(),
            pictures: Vec::new(),
            first: None,
        }
    }

    /// Adds a result, with the name of its file if it has one.
    fn add(&mut self, result: AnyResult, name: Option<&str>, id: &str) {
        let kind = result.kind();
        match &result {
            AnyResult::Scan(file) => {
                self.scans.push(scan::section(&file.file.result, name, id));
            }
            AnyResult::Bench(file) => self.pictures.extend(written::pictures(&file.file, id)),
            _ => (),
        }
        let raw = result.into_raw();
        add_origin(&mut self.origins, &raw);
        self.first = self.first.take().or_else(|| raw.provenance.clone());
        self.of_hosts.extend(hosts::section(&raw, id));
        if kind != Kind::Scan {
            self.loads.push((name.unwrap_or(kind.name()).to_owned(), raw));
        }
    }

    fn into_document(self, names: &[String], are_saved: bool) -> Document {
        let Self { loads, scans, origins, of_hosts, pictures, first } = self;
        let sources = load::sources(&loads);
        let mut sections = load::sections(&sources);
        sections.extend(of_hosts);
        sections.extend(scans);
        if !pictures.is_empty() {
            let mut section = Section::new("contents", "Contents and hot spots");
            section.items.push(Item::Pictures(pictures));
            sections.push(section);
        }
        sections.push(origins);
        Document {
            title: title(&loads, first.as_ref(), names),
            subtitle: subtitle(first.as_ref(), names, are_saved),
            targets: sources
                .iter()
                .map(|source| Compared { name: source.label.clone(), is_measured: true })
                .collect(),
            sections,
        }
    }
}

/// Says what was measured if there is one file that tells it, and otherwise which files there are.
fn title(loads: &[(String, RawResult)], first: Option<&Provenance>, names: &[String]) -> String {
    let (kind, joint) = match loads {
        [] => ("Scan", " of"),
        [(_, raw)] => match raw.kind {
            Kind::Bench => ("Benchmark", " of"),
            Kind::Replay => ("Replay of a trace", " on"),
            Kind::Filebench => ("Filebench", " in"),
            Kind::Pool => ("Pool", ""),
            Kind::Fio => ("fio", " on"),
            Kind::Scan => ("Scan", " of"),
        },
        _ => ("Results", " of"),
    };
    let target = first.and_then(|provenance| provenance.target.as_ref());
    match (names, target) {
        ([_], Some(target)) => format!("{kind}{joint} {target}"),
        ([name], None) => format!("{kind}: {name}"),
        (names, _) => format!("{kind}: {} files", names.len()),
    }
}

/// Says where and when the first file was measured that tells it.
fn subtitle(first: Option<&Provenance>, names: &[String], are_saved: bool) -> String {
    let Some(provenance) = first else { return names.join(", ") };
    let time = origin::readable_time(&provenance.started_at);
    let from = if are_saved { format!(", from {}", names.join(", ")) } else { String::new() };
    format!("on {}, {time}{from}", provenance.host)
}

/// Returns the name of a file without its directory.
fn file_name(path: &Path) -> String {
    let name = path.file_name().map(gemelo_base::text_of_name);
    gemelo_base::units::format_line(&name.unwrap_or_else(|| path.shown().to_string()))
}

fn add_origin(section: &mut Section, raw: &RawResult) {
    if !raw.is_complete {
        let text =
            "The measurement was not complete. The figures describe the part before its end.";
        section.items.push(Item::Warnings(vec![text.to_owned()]));
    }
    if !raw.warnings.is_empty() {
        section.items.push(Item::Warnings(raw.warnings.clone()));
    }
    if let Some(provenance) = &raw.provenance {
        section.items.push(Item::Facts(origin::facts(provenance)));
    }
}
