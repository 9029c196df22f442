//! Reading a result file of any kind.

use crate::fio::FioView;
use crate::hosts::{self, HostResult};
use crate::pool::of_pool;
use crate::repeated::{REPEATED_SCHEMA, RepeatedFile};
use crate::scan::of_scan;
use crate::{FiguresError, of_bench, of_filebench, of_replay};
use gemelo_base::ShowPath as _;
use gemelo_job::bench::{self, BenchFile, JobInput};
use gemelo_job::filebench::{self, FilebenchFile, FilebenchInput, Point};
use gemelo_job::replay::{self, ReplayFile, ReplayInput};
use gemelo_load::RunResult;
use gemelo_record::{HostRecord, HostsFile, Provenance, ResultFile, Stats};
use gemelo_replay::ReplayResult;
use gemelo_scan::{SCAN_SCHEMA, ScanInput, ScanResult};
use gemelo_serve::{POOL_SCHEMA, PoolFile};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest result file. A suite with many processes and histograms takes some tens of MiB.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

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

impl Kind {
    /// Returns the word for the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bench => "bench",
            Self::Replay => "replay",
            Self::Filebench => "filebench",
            Self::Scan => "scan",
            Self::Pool => "pool",
            Self::Fio => "fio",
        }
    }
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

/// A result file of any kind, as the types that wrote it.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a program holds a few of them")]
pub enum AnyResult {
    /// Of `gemelo bench` or `gemelo suite`.
    Bench(HostsFile<Vec<JobInput>, Vec<RunResult>>),
    /// Of `gemelo bench --repetitions`.
    Repeated(RepeatedFile),
    /// Of `gemelo replay`.
    Replay(HostsFile<ReplayInput, ReplayResult>),
    /// Of `gemelo filebench`.
    Filebench(HostsFile<FilebenchInput, Vec<Point>>),
    /// Of `gemelo scan`.
    Scan(HostsFile<ScanInput, ScanResult>),
    /// Of `gemelo pool stat`.
    Pool(PoolFile),
    /// The output of `fio`, whose figures are all that is kept.
    Fio(RawResult),
}

macro_rules! any_from {
    ($($kind:ident: $file:ty),* $(,)?) => {
        $(impl From<$file> for AnyResult {
            fn from(file: $file) -> Self {
                Self::$kind(file.into())
            }
        })*
    };
}

any_from! {
    Bench: BenchFile,
    Bench: HostsFile<Vec<JobInput>, Vec<RunResult>>,
    Replay: ReplayFile,
    Replay: HostsFile<ReplayInput, ReplayResult>,
    Filebench: FilebenchFile,
    Filebench: HostsFile<FilebenchInput, Vec<Point>>,
    Scan: HostsFile<ScanInput, ScanResult>,
    Pool: PoolFile,
}

/// Reads the figures of a result file of any kind.
///
/// # Errors
/// Fails as [`AnyResult::read`] does.
pub fn read(path: &Path) -> Result<RawResult, FiguresError> {
    Ok(AnyResult::read(path)?.into_raw())
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
}

/// The part of a result file that is about hosts.
#[derive(Deserialize)]
struct Hosts<Input, Measured> {
    slowest_host: Option<String>,
    #[serde(default = "Vec::new")]
    hosts: Vec<HostRecord<Input, Measured>>,
}

impl AnyResult {
    /// Reads a result file of any kind.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is larger than [`MAX_FILE_BYTES`], or is not a result file
    /// of a known kind.
    pub fn read(path: &Path) -> Result<Self, FiguresError> {
        Self::parse(&read_text(path)?, path)
    }

    /// Reads the text of a result file. Errors name the file by `path`.
    ///
    /// # Errors
    /// Fails if the text is not a result of a known kind.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FiguresError> {
        let text = without_messages(text);
        let first: Head = first_of(text, path, "gemelo or fio")?;
        if first.schema.is_none() {
            return of_fio(text, path).map(Self::Fio);
        }
        let head: Head = layout(text, path, "gemelo")?;
        let Some(schema) = head.schema else { return of_fio(text, path).map(Self::Fio) };
        Ok(match schema.as_str() {
            bench::SCHEMA => Self::Bench(of_hosts(text, path, bench::SCHEMA)?),
            REPEATED_SCHEMA => Self::Repeated(layout(text, path, REPEATED_SCHEMA)?),
            replay::SCHEMA => Self::Replay(of_hosts(text, path, replay::SCHEMA)?),
            filebench::SCHEMA => Self::Filebench(of_hosts(text, path, filebench::SCHEMA)?),
            SCAN_SCHEMA => Self::Scan(of_hosts(text, path, SCAN_SCHEMA)?),
            POOL_SCHEMA => Self::Pool(layout(text, path, POOL_SCHEMA)?),
            found => {
                let (path, found) = (path.to_owned(), found.to_owned());
                return Err(FiguresError::Schema { path, found });
            }
        })
    }

    /// Returns the kind of the file.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Bench(_) | Self::Repeated(_) => Kind::Bench,
            Self::Replay(_) => Kind::Replay,
            Self::Filebench(_) => Kind::Filebench,
            Self::Scan(_) => Kind::Scan,
            Self::Pool(_) => Kind::Pool,
            Self::Fio(_) => Kind::Fio,
        }
    }

    /// Returns the figures.
    #[must_use]
    pub fn into_raw(self) -> RawResult {
        match self {
            Self::Bench(file) => {
                let HostsFile { file: all, .. } = &file;
                let is_complete = all.result.iter().all(RunResult::is_success)
                    && all.result.len() == all.input.len();
                framed(Kind::Bench, is_complete, file, of_bench)
            }
            Self::Repeated(file) => {
                let is_complete = file.result.repetitions.iter().all(|run| run.is_complete);
                let repetitions = file.result.complete().cloned().collect();
                let medians = |file: &RepeatedFile| file.result.medians();
                let raw = framed(Kind::Bench, is_complete, file.into(), medians);
                RawResult { repetitions, ..raw }
            }
            Self::Replay(file) => {
                let all = &file.file.result;
                let is_complete = all.is_complete && all.verification.wrong == 0;
                framed(Kind::Replay, is_complete, file, |file: &ReplayFile| of_replay(&file.result))
            }
            Self::Filebench(file) => {
                let mut runs = file.file.result.iter().flat_map(|point| &point.runs);
                let is_complete = runs.all(|run| run.complete);
                framed(Kind::Filebench, is_complete, file, of_filebench)
            }
            Self::Scan(file) => {
                let is_complete = !file.file.result.partial;
                let paths = match &file.file.input {
                    ScanInput::Scan(request) => request.paths.as_slice(),
                    ScanInput::Merge { .. } => &[],
                };
                let paths: Vec<String> =
                    paths.iter().map(|path| path.shown().to_string()).collect();
                let target = Some(paths.join(" ")).filter(|paths| !paths.is_empty());
                let figures = |file: &ResultFile<ScanInput, ScanResult>| of_scan(&file.result);
                framed(Kind::Scan, is_complete, file, figures).of_target(target)
            }
            Self::Pool(file) => {
                let target = Some(file.input.pool.clone());
                let figures = |file: &PoolFile| of_pool(&file.result);
                framed(Kind::Pool, true, file.into(), figures).of_target(target)
            }
            Self::Fio(raw) => raw,
        }
    }
}

/// Reads a file that may be of several hosts. Errors have the line, which they would not have if
/// all parts were read at once.
fn of_hosts<Input: DeserializeOwned, Measured: DeserializeOwned>(
    text: &str,
    path: &Path,
    schema: &'static str,
) -> Result<HostsFile<Input, Measured>, FiguresError> {
    let file = layout(text, path, schema)?;
    let Hosts { slowest_host, hosts } = layout(text, path, schema)?;
    Ok(HostsFile { file, slowest_host, hosts })
}

impl RawResult {
    /// Names what was measured, for a result whose provenance has no target: a pool or a scan.
    fn of_target(mut self, target: Option<String>) -> Self {
        if let Some(provenance) = &mut self.provenance {
            provenance.target = provenance.target.take().or(target);
        }
        self
    }
}

fn framed<Input, Measured>(
    kind: Kind,
    is_complete: bool,
    file: HostsFile<Input, Measured>,
    figures_of: impl Fn(&ResultFile<Input, Measured>) -> Stats,
) -> RawResult {
    let mut figures = figures_of(&file.file);
    let hosts: Vec<HostResult> =
        file.hosts.iter().map(|host| HostResult::new(host, &figures_of)).collect();
    hosts::add_slowest(&mut figures, &hosts);
    let ResultFile { provenance, warnings, .. } = file.file;
    let (provenance, repetitions) = (Some(provenance), Vec::new());
    RawResult { kind, provenance, figures, repetitions, warnings, hosts, is_complete }
}

/// Reads the figures in the text of a result file. Errors name the file by `path`.
///
/// # Errors
/// Fails as [`AnyResult::parse`] does.
pub fn parse(text: &str, path: &Path) -> Result<RawResult, FiguresError> {
    Ok(AnyResult::parse(text, path)?.into_raw())
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
