//! The report of single result files.

mod hosts;
mod load;
mod scan;

pub(crate) use hosts::host_label;

use crate::document::{Compared, Document, Item, Section};
use crate::{PageError, accesses, origin, written};
use gemelo_base::ShowPath as _;
use gemelo_figures::{Kind, RawResult};
use gemelo_record::Provenance;
use std::path::{Path, PathBuf};

/// Returns the report of result files. Those that are not saved are not named.
pub(crate) fn document(files: &[PathBuf], are_saved: bool) -> Result<Document, PageError> {
    let mut loads = Vec::new();
    let mut scans = Vec::new();
    let mut origins = Section::new("origin", "Origin");
    let mut further = Vec::new();
    let mut of_hosts = Vec::new();
    let mut first = None;
    for (number, path) in files.iter().enumerate() {
        let id = format!("file-{}", number + 1);
        let of_log = accesses::pictures(path, &id);
        if !of_log.is_empty() {
            further.extend(of_log);
            continue;
        }
        let raw = gemelo_figures::read(path)?;
        add_origin(&mut origins, path, &raw, files.len() > 1);
        first = first.or_else(|| raw.provenance.clone());
        of_hosts.extend(hosts::section(&raw, &id));
        match raw.kind {
            Kind::Scan => scans.push(scan::section(path, &id, are_saved)?),
            _ => loads.push((path.clone(), raw)),
        }
        further.extend(written::pictures(path, &id));
    }
    let sources = load::sources(&loads);
    let mut sections = load::sections(&sources);
    sections.extend(of_hosts);
    sections.extend(scans);
    if !further.is_empty() {
        let mut section = Section::new("contents", "Contents and hot spots");
        section.items.push(Item::Pictures(further));
        sections.push(section);
    }
    sections.push(origins);
    let names: Vec<String> = files.iter().map(|path| file_name(path)).collect();
    Ok(Document {
        title: title(&loads, first.as_ref(), &names),
        subtitle: subtitle(first.as_ref(), &names, are_saved),
        targets: sources
            .iter()
            .map(|source| Compared { name: source.label.clone(), is_measured: true })
            .collect(),
        sections,
    })
}

/// Says what was measured if there is one file that tells it, and otherwise which files there are.
fn title(loads: &[(PathBuf, RawResult)], first: Option<&Provenance>, names: &[String]) -> String {
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

fn add_origin(section: &mut Section, path: &Path, raw: &RawResult, is_one_of_several: bool) {
    if is_one_of_several {
        section.items.push(Item::Heading(file_name(path)));
    }
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
