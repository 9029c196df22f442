//! Reading a result file of any kind.

use crate::fio::FioView;
use crate::hosts::{self, HostResult};
use crate::pool::PoolView;
use crate::repeated::{REPEATED_SCHEMA, RepeatedFile};
use crate::scan::ScanView;
use crate::{FiguresError, of_bench, of_filebench, of_replay};
use gemelo_base::ShowPath as _;
use gemelo_job::{bench, filebench, replay};
use gemelo_load::RunResult;
use gemelo_record::Stats;
use gemelo_record::{Provenance, ResultFile};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest result file. A suite with many processes and histograms takes some tens of MiB.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Schema names of results whose types are in the command line alone.
const SCAN_SCHEMA: &str = "gemelo.scan/1";
const POOL_SCHEMA: &str = "gemelo.pool/1";

/// The kind of a result file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `gemelo bench` or `gemelo suite`.
    Bench,
    /// `gemelo replay`.
    Replay,
    /// `gemelo filebench`.
    Filebench,
    /// `gemelo scan`.
    Scan,
    /// `gemelo pool stat`.
    Pool,
    /// The JSON output of `fio`.
    Fio,
}

/// A result file as figures.
#[derive(Debug, Clone, PartialEq)]
pub struct RawResult {
    /// Kind of the file.
    pub kind: Kind,
    /// Program, machine, time, and what was measured. Files of `fio` have none.
    pub provenance: Option<Provenance>,
    /// The figures of the result, by name; the medians if it has repetitions.
    pub figures: Stats,
    /// The figures of each repetition; empty for a file of one run.
    pub repetitions: Vec<Stats>,
    /// The warnings of the file.
    pub warnings: Vec<String>,
    /// The hosts of a run on several hosts; empty for a file of one.
    pub hosts: Vec<HostResult>,
    /// `true` if the measurement was complete and without a failure. The figures describe the part
    /// before the failure otherwise.
    pub is_complete: bool,
}

/// Reads the figures of a result file of any kind.
///
/// # Errors
/// Fails if the file cannot be read, is larger than [`MAX_FILE_BYTES`], or is not a result file of
/// a known kind.
pub fn read(path: &Path) -> Result<RawResult, FiguresError> {
    let text = read_text(path)?;
    parse(&text, path)
}

fn read_text(path: &Path) -> Result<String, FiguresError> {
    let failed = |source| FiguresError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(FiguresError::TooLarge { path: path.to_owned(), max_bytes: MAX_FILE_BYTES });
    }
    if text.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it is empty")));
    }
    String::from_utf8(text)
        .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// The key that tells the kind of a file. Files of `fio` do not have it.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    /// Present in a file of several hosts.
    hosts: Option<IgnoredAny>,
}

/// Reads the figures in the text of a result file. Errors name the file by `path`.
///
/// # Errors
/// Fails if the text is not a result of a known kind.
pub fn parse(text: &str, path: &Path) -> Result<RawResult, FiguresError> {
    let text = without_messages(text);
    let first: Head = first_of(text, path, "gemelo or fio")?;
    if first.schema.is_none() {
        return of_fio(text, path);
    }
    let head: Head = layout(text, path, "gemelo")?;
    let Some(schema) = head.schema else { return of_fio(text, path) };
    let mut raw = of_all(text, path, &schema)?;
    if head.hosts.is_some() {
        raw.hosts = of_hosts(text, path, raw.kind)?;
        hosts::add_slowest(&mut raw.figures, &raw.hosts);
    }
    Ok(raw)
}

/// Reads the hosts of a file. Pools and `fio` have none.
fn of_hosts(text: &str, path: &Path, kind: Kind) -> Result<Vec<HostResult>, FiguresError> {
    match kind {
        Kind::Bench => hosts::read(text, (path, bench::SCHEMA), of_bench),
        Kind::Replay => {
            let figures = |file: &replay::ReplayFile| of_replay(&file.result);
            hosts::read(text, (path, replay::SCHEMA), figures)
        }
        Kind::Filebench => hosts::read(text, (path, filebench::SCHEMA), of_filebench),
        Kind::Scan => {
            let figures = |file: &Framed<ScanView>| file.result.figures();
            hosts::read(text, (path, SCAN_SCHEMA), figures)
        }
        Kind::Pool | Kind::Fio => Ok(Vec::new()),
    }
}

/// Reads the figures of all hosts together.
fn of_all(text: &str, path: &Path, schema: &str) -> Result<RawResult, FiguresError> {
    match schema {
        bench::SCHEMA => {
            let file: bench::BenchFile = layout(text, path, bench::SCHEMA)?;
            let is_complete = file.result.iter().all(RunResult::is_success)
                && file.result.len() == file.input.len();
            Ok(framed(Kind::Bench, of_bench(&file), is_complete, file))
        }
        REPEATED_SCHEMA => {
            let file: RepeatedFile = layout(text, path, REPEATED_SCHEMA)?;
            let is_complete = file.result.repetitions.iter().all(|run| run.is_complete);
            let repetitions = file.result.complete().cloned().collect();
            let medians = file.result.medians();
            Ok(RawResult { repetitions, ..framed(Kind::Bench, medians, is_complete, file) })
        }
        replay::SCHEMA => {
            let file: replay::ReplayFile = layout(text, path, replay::SCHEMA)?;
            let is_complete = file.result.is_complete && file.result.verification.wrong == 0;
            Ok(framed(Kind::Replay, of_replay(&file.result), is_complete, file))
        }
        filebench::SCHEMA => {
            let file: filebench::FilebenchFile = layout(text, path, filebench::SCHEMA)?;
            let mut runs = file.result.iter().flat_map(|point| &point.runs);
            let is_complete = runs.all(|run| run.complete);
            Ok(framed(Kind::Filebench, of_filebench(&file), is_complete, file))
        }
        SCAN_SCHEMA => {
            let file: Framed<ScanView> = named(layout(text, path, SCAN_SCHEMA)?);
            Ok(framed(Kind::Scan, file.result.figures(), file.result.is_complete(), file))
        }
        POOL_SCHEMA => {
            let file: Framed<PoolView> = named(layout(text, path, POOL_SCHEMA)?);
            Ok(framed(Kind::Pool, file.result.figures(), true, file))
        }
        found => Err(FiguresError::Schema { path: path.to_owned(), found: found.to_owned() }),
    }
}

/// A file whose input becomes no figures.
type Framed<Measured> = ResultFile<Subject, Measured>;

/// The part of an input that names what was measured: a pool, or the paths of a scan.
#[derive(Deserialize)]
struct Subject {
    pool: Option<String>,
    #[serde(default)]
    paths: Vec<String>,
}

/// Returns a file whose provenance names what was measured. Pools and scans have no target.
fn named<Measured>(mut file: Framed<Measured>) -> Framed<Measured> {
    let Subject { pool, paths } = &file.input;
    let paths = Some(paths.join(" ")).filter(|paths| !paths.is_empty());
    let target = pool.clone().or(paths);
    file.provenance.target = file.provenance.target.take().or(target);
    file
}

fn framed<Input, Measured>(
    kind: Kind,
    figures: Stats,
    is_complete: bool,
    file: ResultFile<Input, Measured>,
) -> RawResult {
    let ResultFile { provenance, warnings, .. } = file;
    let provenance = Some(provenance);
    let (repetitions, hosts) = (Vec::new(), Vec::new());
    RawResult { kind, provenance, figures, repetitions, warnings, hosts, is_complete }
}

/// Reads the output of `fio`. With `--status-interval` it is one document for each interval, each
/// with the figures since the start: the last one is of the whole run. With
/// `--output-format=json,normal` a text follows.
fn of_fio(text: &str, path: &Path) -> Result<RawResult, FiguresError> {
    let mut fio: FioView = first_of(text, path, "fio")?;
    let mut further = serde_json::Deserializer::from_str(text).into_iter::<FioView>().skip(1);
    let mut documents = 1;
    while let Some(Ok(next)) = further.next() {
        fio = next;
        documents += 1;
    }
    if let Some(version) = fio.too_old() {
        return Err(FiguresError::OldFio { path: path.to_owned(), version: version.to_owned() });
    }
    let mut warnings = fio.warnings();
    let is_complete = warnings.is_empty();
    if documents > 1 {
        warnings.push(format!(
            "{} has {documents} documents of fio (--status-interval): its figures are those of the \
             last one",
            path.shown()
        ));
    }
    Ok(RawResult {
        kind: Kind::Fio,
        provenance: None,
        figures: fio.figures(),
        repetitions: Vec::new(),
        hosts: Vec::new(),
        is_complete,
        warnings,
    })
}

/// Reads the first of several documents.
fn first_of<T: DeserializeOwned>(
    text: &str,
    path: &Path,
    expected: &'static str,
) -> Result<T, FiguresError> {
    let mut documents = serde_json::Deserializer::from_str(text).into_iter();
    // A text without a document is an error at its end.
    documents
        .next()
        .unwrap_or_else(|| serde_json::from_str(text))
        .map_err(|source| FiguresError::Layout { path: path.to_owned(), expected, source })
}

/// Leaves out the lines before the JSON, which `fio` writes to the same file if it has messages.
fn without_messages(text: &str) -> &str {
    if text.starts_with('{') {
        return text;
    }
    text.find("\n{").and_then(|place| text.get(place + 1..)).unwrap_or(text)
}

pub(crate) fn layout<T: DeserializeOwned>(
    text: &str,
    path: &Path,
    expected: &'static str,
) -> Result<T, FiguresError> {
    serde_json::from_str(text).map_err(|source| FiguresError::Layout {
        path: path.to_owned(),
        expected,
        source,
    })
}
