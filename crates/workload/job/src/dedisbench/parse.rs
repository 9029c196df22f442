//! Parses DEDISbench command lines and configurations as a [`DedisbenchJob`]: the flags, the older
//! flags, and the keys of the INI file. This module reads no file and does not know gemelo's jobs.

use super::error::DedisbenchError;
use super::ini::{Entry, shown};

/// A job as a DEDISbench command line describes it. An absent field was not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DedisbenchJob {
    pub(crate) load: Option<DedisbenchLoad>,
    pub(crate) operation: Option<DedisbenchOperation>,
    pub(crate) minutes: Option<u64>,
    pub(crate) megabytes: Option<u64>,
    /// Path of the INI file.
    pub(crate) configuration: Option<String>,
    pub(crate) distribution: Option<String>,
    pub(crate) pattern: Option<DedisbenchPattern>,
    pub(crate) processes: Option<u32>,
    /// Size of each process's file, or of the whole device.
    pub(crate) file_megabytes: Option<u64>,
    pub(crate) block_bytes: Option<u64>,
    pub(crate) populate: Option<DedisbenchPopulate>,
    pub(crate) sync: Option<Sync>,
    pub(crate) raw_device: Option<String>,
    pub(crate) integrity: Option<Integrity>,
    /// A number, or with the older `-v` any text.
    pub(crate) seed: Option<String>,
    pub(crate) directory: Option<String>,
    pub(crate) logs_operations: Option<bool>,
    pub(crate) distribution_results: Option<String>,
    pub(crate) access_results: Option<String>,
    pub(crate) general_results: Option<GeneralResults>,
    pub(crate) removes_files: Option<bool>,
    pub(crate) keeps_databases: Option<bool>,
    /// `true` if a flag was used that is older than the INI file.
    pub(crate) has_older_flags: bool,
}

/// The pace of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DedisbenchLoad {
    Peak,
    /// Operations a second of all processes.
    Nominal {
        rate: u64,
    },
    /// Reads and writes a second of all processes.
    NominalMixed {
        reads: Option<u64>,
        writes: Option<u64>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DedisbenchOperation {
    Write,
    Read,
    Mixed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DedisbenchPattern {
    Sequential,
    Uniform,
    Nurand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DedisbenchPopulate {
    None,
    Content,
    Zero,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    None,
    Direct,
    Fsync,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integrity {
    None,
    Final,
    Online,
    Both,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GeneralResults {
    pub(crate) file: String,
    pub(crate) ramp_up_s: u64,
    pub(crate) cool_down_s: u64,
}

/// Flags that take a value. The value follows the flag directly or is the next word.
const VALUED: &str = "ntsfabcv";

/// Parses the words after `DEDISbench`.
pub(crate) fn command_line<Word: AsRef<str>>(
    words: &[Word],
) -> Result<DedisbenchJob, DedisbenchError> {
    let mut job = DedisbenchJob::default();
    let mut words = words.iter().map(AsRef::as_ref);
    while let Some(word) = words.next() {
        let wrong = |message: &str| DedisbenchError::Flag {
            flag: shown(word),
            message: message.to_owned(),
        };
        let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
        let flag = letters.next().ok_or_else(|| wrong(KNOWN_FLAGS))?;
        if let Some((_, instead)) = FORMER_FLAGS.iter().find(|(former, _)| *former == flag) {
            return Err(wrong(instead));
        }
        let glued = letters.as_str();
        let value = if !VALUED.contains(flag) {
            if !glued.is_empty() {
                return Err(wrong(KNOWN_FLAGS));
            }
            ""
        } else if glued.is_empty() {
            words.next().ok_or_else(|| wrong("the flag takes a value, such as -t5"))?
        } else {
            glued
        };
        job.flag(flag, value).map_err(|message| wrong(&message))?;
    }
    Ok(job)
}

/// Flags of the versions of 2012 and 2013, and the keys that took their places.
const FORMER_FLAGS: [(char, &str); 10] = [
    ('d', "a flag of 2012: write tempfilespath=DIRECTORY in the section [results] of -f<FILE>"),
    ('e', "a flag of 2012: write populate=1 in the section [execution] of -f<FILE>"),
    ('g', "a flag of 2012: write distfile=FILE in the section [execution] of -f<FILE>"),
    ('h', "DEDISbench's help: gemelo dedisbench --help has the flags"),
    ('i', "a flag of 2013: write rawdevice=DEVICE in the section [execution] of -f<FILE>"),
    ('k', "a flag of 2012: write access_results=FILE in the section [results] of -f<FILE>"),
    ('l', "a flag of 2012: write logging=1 in the section [results] of -f<FILE>"),
    ('o', "a flag of 2012: write dist_results=FILE in the section [results] of -f<FILE>"),
    ('y', "a flag of 2012: write populate=0 in the section [execution] of -f<FILE>"),
    ('z', "a flag of 2012: write cleantemp=0 in the section [structural] of -f<FILE>"),
];

/// In 2012, `-f` was the size of a file.
const FORMER_SIZE: &str = "-f names the configuration file since 2013: write filesize=MB in its section \
    [execution], and give a file whose name is a number as -f./NUMBER";

const KNOWN_FLAGS: &str = "not a DEDISbench flag; the flags are -p -n<OPS> -nr<OPS> -nw<OPS> -w -r -m -t<MINUTES> -s<MB> \
    -f<FILE> and the older -a<PATTERN> -b<BYTES> -c<PROCESSES> -v<SEED>";

impl DedisbenchJob {
    fn flag(&mut self, flag: char, value: &str) -> Result<(), String> {
        match flag {
            'p' => set(&mut self.load, DedisbenchLoad::Peak, "-p and -n exclude each other")?,
            'n' => self.nominal(value)?,
            'w' => set(&mut self.operation, DedisbenchOperation::Write, ONE_OPERATION)?,
            'r' => set(&mut self.operation, DedisbenchOperation::Read, ONE_OPERATION)?,
            'm' => set(&mut self.operation, DedisbenchOperation::Mixed, ONE_OPERATION)?,
            't' => self.minutes = Some(at_least_one(value)?),
            's' => self.megabytes = Some(at_least_one(value)?),
            'f' if value.parse::<u64>().is_ok() => return Err(FORMER_SIZE.to_owned()),
            'f' => self.configuration = Some(value.to_owned()),
            'a' => self.pattern = Some(pattern(value)?),
            'b' => self.block_bytes = Some(at_least_one(value)?),
            'c' => self.processes = Some(processes(value)?),
            'v' => self.seed = Some(value.to_owned()),
            _ => return Err(KNOWN_FLAGS.to_owned()),
        }
        self.has_older_flags |= "abcv".contains(flag);
        Ok(())
    }

    fn nominal(&mut self, value: &str) -> Result<(), String> {
        if let Some(rate) = value.strip_prefix('r') {
            let rate = at_least_one(rate)?;
            return self.nominal_mixed(|reads, _| *reads = Some(rate));
        }
        if let Some(rate) = value.strip_prefix('w') {
            let rate = at_least_one(rate)?;
            return self.nominal_mixed(|_, writes| *writes = Some(rate));
        }
        set(
            &mut self.load,
            DedisbenchLoad::Nominal { rate: at_least_one(value)? },
            "give only one load: -p, -n, or -nr with -nw",
        )
    }

    fn nominal_mixed(
        &mut self,
        change: impl FnOnce(&mut Option<u64>, &mut Option<u64>),
    ) -> Result<(), String> {
        let load =
            self.load.get_or_insert(DedisbenchLoad::NominalMixed { reads: None, writes: None });
        let DedisbenchLoad::NominalMixed { reads, writes } = load else {
            return Err("give only one load: -p, -n, or -nr with -nw".to_owned());
        };
        change(reads, writes);
        Ok(())
    }

    /// Adds a configuration. The flags take precedence.
    pub(super) fn with_entries(mut self, entries: &[Entry]) -> Result<Self, DedisbenchError> {
        let flags = self.clone();
        for entry in entries {
            self.entry(entry).map_err(|message| DedisbenchError::Line {
                line: entry.line,
                message: format!("{}: {message}", shown(&entry.key)),
            })?;
        }
        self.pattern = flags.pattern.or(self.pattern);
        self.block_bytes = flags.block_bytes.or(self.block_bytes);
        self.processes = flags.processes.or(self.processes);
        self.seed = flags.seed.or(self.seed);
        Ok(self)
    }

    /// Sets the value of one key. Some names differ between the documentation of DEDISbench and the
    /// files that come with it; both are accepted.
    fn entry(&mut self, entry: &Entry) -> Result<(), String> {
        let value = entry.value.as_str();
        match (entry.section.as_str(), entry.key.as_str()) {
            ("execution", "distfile") => self.distribution = Some(text(value)?),
            ("execution", "access_type") => self.pattern = Some(pattern(value)?),
            ("execution", "nprocs") => self.processes = Some(processes(value)?),
            ("execution", "filesize") => self.file_megabytes = Some(at_least_one(value)?),
            ("execution", "blocksize") => self.block_bytes = Some(at_least_one(value)?),
            ("execution", "populate") => {
                self.populate = Some(choice(
                    value,
                    &[
                        DedisbenchPopulate::None,
                        DedisbenchPopulate::Content,
                        DedisbenchPopulate::Zero,
                    ],
                )?);
            }
            ("execution", "sync") => {
                self.sync =
                    Some(choice(value, &[Sync::None, Sync::Direct, Sync::Fsync, Sync::Both])?);
            }
            ("execution", "rawdevice") => self.raw_device = Some(text(value)?),
            ("execution", "integrity" | "integritycheck") => {
                let known = [Integrity::None, Integrity::Final, Integrity::Online, Integrity::Both];
                self.integrity = Some(choice(value, &known)?);
            }
            ("execution", "seed") => self.seed = Some(number(value)?.to_string()),
            ("execution" | "results", "logging") => {
                self.logs_operations = Some(choice(value, &[false, true])?);
            }
            ("results", "tempfilespath") => self.directory = Some(text(value)?),
            ("results", "dist_results") => self.distribution_results = Some(text(value)?),
            ("results", "access_results") => self.access_results = Some(text(value)?),
            ("results", "general_results") => self.general_results = Some(general_results(value)?),
            ("structure" | "structural", "cleantemp") => {
                self.removes_files = Some(choice(value, &[false, true])?);
            }
            ("structure" | "structural", "keep_dbs") => {
                self.keeps_databases = Some(choice(value, &[false, true])?);
            }
            (section, _) => {
                return Err(format!(
                    "the section [{}] of DEDISbench does not have this key",
                    shown(section)
                ));
            }
        }
        Ok(())
    }
}

const ONE_OPERATION: &str = "give one of -w, -r and -m";

/// Sets a value. Refuses to replace it by another one.
fn set<Value: PartialEq>(
    slot: &mut Option<Value>,
    value: Value,
    otherwise: &str,
) -> Result<(), String> {
    match slot {
        Some(old) if *old != value => Err(otherwise.to_owned()),
        _ => {
            *slot = Some(value);
            Ok(())
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{}' is not a whole number", shown(text)))
}

fn at_least_one(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("must be at least 1".to_owned()),
        value => Ok(value),
    }
}

fn processes(text: &str) -> Result<u32, String> {
    u32::try_from(at_least_one(text)?)
        .map_err(|_| format!("{} processes are too many: give at most 2^32 - 1", shown(text)))
}

fn text(value: &str) -> Result<String, String> {
    if value.is_empty() { Err("has no value".to_owned()) } else { Ok(value.to_owned()) }
}

fn pattern(value: &str) -> Result<DedisbenchPattern, String> {
    choice(
        value,
        &[DedisbenchPattern::Sequential, DedisbenchPattern::Uniform, DedisbenchPattern::Nurand],
    )
}

/// Returns the value with this index.
fn choice<Value: Copy>(value: &str, known: &[Value]) -> Result<Value, String> {
    let place = usize::try_from(number(value)?).ok();
    let found = place.and_then(|place| known.get(place)).copied();
    found.ok_or_else(|| {
        format!("must be from 0 to {}, not {}", known.len().saturating_sub(1), shown(value))
    })
}

/// Parses `FILE:RU:CD`. The name of the file may contain colons.
fn general_results(value: &str) -> Result<GeneralResults, String> {
    let wrong = || {
        format!("expected FILE:RU:CD (ramp-up and cool-down in seconds), found '{}'", shown(value))
    };
    let mut parts = value.rsplitn(3, ':');
    let mut seconds = || parts.next().and_then(|part| part.trim().parse().ok());
    let (cool_down_s, ramp_up_s) = (seconds().ok_or_else(wrong)?, seconds().ok_or_else(wrong)?);
    let file = parts.next().filter(|file| !file.is_empty()).ok_or_else(wrong)?.to_owned();
    Ok(GeneralResults { file, ramp_up_s, cool_down_s })
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
