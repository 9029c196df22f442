//! Reads several files as one trace in order of time, and selects and renames devices.
//!
//! A file is opened when the trace reaches its first record, so a trace in one file a day needs one
//! open file for any number of days. The records of one file keep their order, even if their times
//! go back.

use crate::error::TraceError;
use crate::reader::{Oddities, Reader};
use crate::record::{Names, Record, RecordSource};
use crate::trace_format::TraceFormat;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Most files open at the same time. Each has a buffer of 256 KiB.
const MAX_OPEN: usize = 256;

/// Options for reading a trace.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Format of all files. `None` recognises the format of each file by its content.
    pub format: Option<TraceFormat>,
    /// `true` if malformed lines are counted and left out; `false` if they are errors.
    pub skips_malformed: bool,
    /// Devices to take, with their new names. An empty list takes all devices.
    pub devices: Vec<DeviceRule>,
}

/// Takes a device, under its own name or another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRule {
    /// Name of the device in the trace.
    pub device: String,
    /// New name of the device.
    pub becomes: String,
}

impl std::str::FromStr for DeviceRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, becomes) = text.split_once('=').unwrap_or((text, text));
        if device.is_empty() || becomes.is_empty() {
            return Err(format!("'{text}' is not a device: give NAME, or NAME=NEW-NAME"));
        }
        Ok(Self { device: device.to_owned(), becomes: becomes.to_owned() })
    }
}

/// A time without records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gap {
    /// Its length in nanoseconds.
    pub length_ns: u64,
    /// Number of records before it.
    pub after_records: u64,
}

/// A file whose first record is not due yet.
struct Pending {
    path: PathBuf,
    format: TraceFormat,
    first_ns: u64,
}

/// An open file and its next record.
struct Open {
    reader: Reader,
    next: Record,
}

/// Several files read as one trace.
pub struct Merged {
    pending: VecDeque<Pending>,
    open: Vec<Open>,
    names: Names,
    options: ReadOptions,
    formats: Vec<TraceFormat>,
    ended: Oddities,
    left_out: u64,
    out_of_order: u64,
    records: u64,
    longest_gap: Gap,
    last_ns: u64,
    /// New number of each device, or `None` if it is left out. Each device is looked up once.
    choices: Vec<Option<u32>>,
    chosen: Vec<bool>,
}

impl Merged {
    /// Opens a trace. The first record of every file is read, so that a file of unknown format is
    /// refused at once.
    ///
    /// # Errors
    /// If a file cannot be read, has no records, or has an unknown format.
    pub fn open(paths: &[PathBuf], options: ReadOptions) -> Result<Self, TraceError> {
        let chosen = vec![false; options.devices.len()];
        let mut merged = Self {
            pending: VecDeque::new(),
            open: Vec::new(),
            names: Names::default(),
            options,
            formats: Vec::new(),
            ended: Oddities::default(),
            left_out: 0,
            out_of_order: 0,
            records: 0,
            longest_gap: Gap::default(),
            last_ns: 0,
            choices: Vec::new(),
            chosen,
        };
        for path in paths {
            merged.look_into(path)?;
        }
        merged.pending.make_contiguous().sort_by_key(|pending| pending.first_ns);
        Ok(merged)
    }

    fn look_into(&mut self, path: &Path) -> Result<(), TraceError> {
        let mut reader = Reader::open(path, self.options.format, self.options.skips_malformed)?;
        let format = reader.format();
        let mut first = Record::new();
        // Devices are numbered in the order of the merged trace, not in the order of the files.
        let mut names = Names::default();
        let is_standard_input = path.as_os_str() == "-";
        let names = if is_standard_input { &mut self.names } else { &mut names };
        if !reader.next_record(names, &mut first)? {
            return Err(TraceError::Empty { path: path.to_owned() });
        }
        if !self.formats.contains(&format) {
            self.formats.push(format);
        }
        if is_standard_input {
            // Standard input cannot be read a second time.
            self.open.push(Open { reader, next: first });
        } else {
            self.pending.push_back(Pending {
                path: path.to_owned(),
                format,
                first_ns: first.time_ns,
            });
        }
        Ok(())
    }

    /// Returns the formats of the files.
    #[must_use]
    pub fn formats(&self) -> &[TraceFormat] {
        &self.formats
    }

    /// Returns what the files have beside ordinary records, so far.
    #[must_use]
    pub fn oddities(&self) -> Oddities {
        let mut all = self.ended;
        self.open.iter().for_each(|open| all.add(open.reader.oddities()));
        all
    }

    /// Returns the number of records of devices that were not selected.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the number of records with an earlier time than the record before them.
    #[must_use]
    pub const fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// Returns the longest time between a record and the next one, and the number of records before
    /// it.
    #[must_use]
    pub const fn longest_gap(&self) -> Gap {
        self.longest_gap
    }

    /// Checks after the last record that every selected device occurred.
    ///
    /// # Errors
    /// Names the first device that did not occur, and the devices of the trace.
    pub fn check_devices(&self) -> Result<(), TraceError> {
        const MAX_NAMED: u32 = 20;
        let missing = self.options.devices.iter().zip(&self.chosen).find(|(_, chosen)| !**chosen);
        let Some((rule, _)) = missing else { return Ok(()) };
        let count = u32::try_from(self.choices.len()).unwrap_or(u32::MAX);
        let name = |device| String::from_utf8_lossy(self.names.device_name(device)).into_owned();
        let mut found: Vec<String> = (0..count.min(MAX_NAMED)).map(name).collect();
        if count > MAX_NAMED {
            found.push("...".to_owned());
        }
        Err(TraceError::NoDevice { device: rule.device.clone(), found: found.join(" ") })
    }

    /// Returns the open file with the earliest record; among equal times the first.
    #[inline]
    fn earliest(&self) -> Option<usize> {
        let times = self.open.iter().map(|open| open.next.time_ns).enumerate();
        times.min_by_key(|(_, time_ns)| *time_ns).map(|(index, _)| index)
    }

    /// Opens the files whose first record is due.
    fn open_due(&mut self) -> Result<(), TraceError> {
        while let Some(first) = self.pending.front() {
            let earliest = self.earliest().and_then(|index| self.open.get(index));
            if earliest.is_some_and(|open| open.next.time_ns < first.first_ns) {
                return Ok(());
            }
            if self.open.len() >= MAX_OPEN {
                return Err(TraceError::TooManyFiles { most: MAX_OPEN });
            }
            let Some(pending) = self.pending.pop_front() else { return Ok(()) };
            let mut reader =
                Reader::open(&pending.path, Some(pending.format), self.options.skips_malformed)?;
            let mut next = Record::new();
            if reader.next_record(&mut self.names, &mut next)? {
                self.open.push(Open { reader, next });
            }
        }
        Ok(())
    }

    /// Takes the next record of any device.
    #[inline]
    fn take_earliest(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        if !self.pending.is_empty() {
            self.open_due()?;
        }
        let Some(index) = self.earliest() else { return Ok(false) };
        let Some(open) = self.open.get_mut(index) else { return Ok(false) };
        std::mem::swap(record, &mut open.next);
        if !open.reader.next_record(&mut self.names, &mut open.next)? {
            let ended = self.open.remove(index);
            self.ended.add(ended.reader.oddities());
        }
        Ok(true)
    }

    /// Returns the new number of a device, or `None` if it is left out.
    #[inline]
    fn choose(&mut self, device: u32) -> Option<u32> {
        if self.options.devices.is_empty() {
            return Some(device);
        }
        if let Some(choice) = self.choices.get(device as usize) {
            return *choice;
        }
        self.choose_new(device)
    }

    #[cold]
    fn choose_new(&mut self, device: u32) -> Option<u32> {
        while self.choices.len() <= device as usize {
            let next = u32::try_from(self.choices.len()).unwrap_or(u32::MAX);
            let name = self.names.device_name(next);
            let rule = self.options.devices.iter().position(|rule| rule.device.as_bytes() == name);
            let choice = rule.and_then(|rule| {
                self.chosen[rule] = true;
                self.names.device(self.options.devices[rule].becomes.as_bytes())
            });
            self.choices.push(choice);
        }
        self.choices.get(device as usize).copied().flatten()
    }
}

impl RecordSource for Merged {
    #[inline]
    fn next_record(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        loop {
            if !self.take_earliest(record)? {
                return Ok(false);
            }
            let Some(device) = self.choose(record.device) else {
                self.left_out += 1;
                continue;
            };
            record.device = device;
            if record.time_ns < self.last_ns {
                self.out_of_order += 1;
            }
            let gap_ns = record.time_ns.saturating_sub(self.last_ns);
            if gap_ns > self.longest_gap.length_ns && self.records > 0 {
                self.longest_gap = Gap { length_ns: gap_ns, after_records: self.records };
            }
            self.records += 1;
            self.last_ns = record.time_ns;
            return Ok(true);
        }
    }

    fn names(&self) -> &Names {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn files(texts: &[&str]) -> (TempDir, Vec<PathBuf>) {
        let directory = TempDir::new().unwrap();
        let paths = texts.iter().enumerate().map(|(index, text)| {
            let path = directory.path().join(format!("{index}.csv"));
            std::fs::write(&path, text).unwrap();
            path
        });
        let paths = paths.collect();
        (directory, paths)
    }

    fn times(merged: &mut Merged) -> Vec<u64> {
        let mut record = Record::new();
        let mut times = Vec::new();
        while merged.next_record(&mut record).unwrap() {
            times.push(record.time_ns / 1000);
        }
        times
    }

    #[test]
    fn files_are_merged_by_time_whatever_their_order() {
        let (_directory, paths) =
            files(&["1,R,0,512,5\n1,R,0,512,9\n", "2,W,0,512,1\n2,W,0,512,6\n", "3,W,0,512,20\n"]);
        let mut merged = Merged::open(&paths, ReadOptions::default()).unwrap();
        assert_eq!(times(&mut merged), [1, 5, 6, 9, 20]);
        assert_eq!((merged.out_of_order(), merged.formats()), (0, &[TraceFormat::Alibaba][..]));
        assert_ne!(merged.names().device_name(2), b"");
        assert_eq!(merged.names().device_name(3), b"");
    }

    #[test]
    fn files_open_when_their_time_comes() {
        let texts: Vec<String> =
            (0..MAX_OPEN + 20).map(|i| format!("1,R,0,512,{}\n", i * 10)).collect();
        let (_directory, paths) = files(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let mut merged = Merged::open(&paths, ReadOptions::default()).unwrap();
        assert_eq!(times(&mut merged).len(), MAX_OPEN + 20);
        let texts = vec!["1,R,0,512,1\n1,R,0,512,2\n"; MAX_OPEN + 1];
        let (_directory, paths) = files(&texts);
        let mut merged = Merged::open(&paths, ReadOptions::default()).unwrap();
        let error = merged.next_record(&mut Record::new()).unwrap_err();
        assert!(error.to_string().contains("256 files overlap"), "{error}");
    }

    #[test]
    fn devices_are_chosen_and_renamed() {
        let (_directory, paths) = files(&["1,R,0,512,1\n2,R,0,512,2\n3,R,0,512,3\n1,R,0,512,4\n"]);
        let rules = |texts: &[&str]| ReadOptions {
            devices: texts.iter().map(|text| text.parse().unwrap()).collect(),
            ..ReadOptions::default()
        };
        let mut merged = Merged::open(&paths, rules(&["1", "2=1"])).unwrap();
        let mut record = Record::new();
        let mut devices = Vec::new();
        while merged.next_record(&mut record).unwrap() {
            devices.push(record.device);
        }
        assert_eq!((devices, merged.left_out()), (vec![0, 0, 0], 1));
        merged.check_devices().unwrap();
        let mut merged = Merged::open(&paths, rules(&["1", "9"])).unwrap();
        assert_eq!(times(&mut merged), [1, 4]);
        let error = merged.check_devices().unwrap_err().to_string();
        assert!(error.contains("'9'") && error.contains("1 2 3"), "{error}");
        assert!("=".parse::<DeviceRule>().is_err());
    }

    #[test]
    fn malformed_lines_stop_or_are_counted() {
        let (_directory, paths) = files(&["1,R,0,512,1\n1,R,zero,512,2\n1,R,0,512,3\n"]);
        let mut merged = Merged::open(&paths, ReadOptions::default()).unwrap();
        let mut record = Record::new();
        let mut result = Ok(true);
        while matches!(result, Ok(true)) {
            result = merged.next_record(&mut record);
        }
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains(
                "0.csv:2: offset: expected a whole number of bytes, found '1,R,zero,512,2'"
            ),
            "{error}"
        );
        let options = ReadOptions { skips_malformed: true, ..ReadOptions::default() };
        let mut merged = Merged::open(&paths, options).unwrap();
        assert_eq!((times(&mut merged), merged.oddities().malformed), (vec![1, 3], 1));
    }
}
