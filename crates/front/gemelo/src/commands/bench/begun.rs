//! What a check of the files needs if a run is killed: it is in the place of the result while the
//! run lasts, and the result replaces it. Without a result it stays.

use crate::context::Context;
use crate::kind::Kind;
use crate::result_options::ResultOptions;
use gemelo_job::bench::{BEGUN_SCHEMA, BegunFile, JobInput};
use gemelo_load::History;
use gemelo_record::{HostRecord, HostsFile};
use serde::Serialize;
use std::cell::RefCell;

/// The file of several hosts has no history of its own.
pub(super) const KIND: Kind<HostsFile<Vec<JobInput>, Option<History>>> =
    Kind::new(BEGUN_SCHEMA, "Result of gemelo bench and gemelo suite while they run");

/// The file of a run that lasts.
pub(super) struct Begun<'a> {
    results: &'a ResultOptions,
    context: &'a Context,
    force: bool,
    is_written: bool,
}

impl<'a> Begun<'a> {
    pub(super) const fn new(results: &'a ResultOptions, force: bool, context: &'a Context) -> Self {
        Self { results, context, force, is_written: false }
    }

    /// Writes the jobs up to the one that begins, and the history of its files.
    pub(super) fn note(&mut self, input: Vec<JobInput>, history: History) {
        let file = file_of(input, Some(history), self.context);
        self.write(&file);
    }

    fn write(&mut self, file: &impl Serialize) {
        match self.results.begin(self.may_overwrite(), file) {
            Ok(has_file) => self.is_written |= has_file,
            Err(error) => {
                let told = format!("a killed run cannot be checked: {error}");
                self.context.monitor.warn(&told);
            }
        }
    }

    /// Returns whether the result may replace the file in its place.
    pub(super) const fn may_overwrite(&self) -> bool {
        self.force || self.is_written
    }
}

/// Returns the file of a host, or of the only one.
pub(crate) fn file_of(
    input: Vec<JobInput>,
    result: Option<History>,
    context: &Context,
) -> BegunFile {
    KIND.made(input, result, Vec::new()).into_file(context)
}

type BegunRecord = HostRecord<Vec<JobInput>, Option<History>>;

/// The files of several hosts, which each of them sends as a line when a job begins.
pub(super) struct BegunHosts<'a> {
    begun: RefCell<Begun<'a>>,
    /// The unfinished line of each host, and what it sent last.
    hosts: RefCell<Vec<(Vec<u8>, BegunRecord)>>,
}

impl<'a> BegunHosts<'a> {
    pub(super) fn new(begun: Begun<'a>, names: &[String]) -> Self {
        let hosts = (0..).zip(names).map(|(index, name)| {
            let record = BegunRecord {
                host: name.clone(),
                index,
                round_trip_ns: 0,
                date_offset_ns: 0,
                start_delays_ns: Vec::new(),
                failure: None,
                file: None,
            };
            (Vec::new(), record)
        });
        Self { begun: RefCell::new(begun), hosts: RefCell::new(hosts.collect()) }
    }

    /// Takes a part of what a host sends.
    pub(super) fn receive(&self, number: usize, bytes: &[u8]) -> Result<(), String> {
        let mut hosts = self.hosts.borrow_mut();
        let Some((line, record)) = hosts.get_mut(number) else { return Ok(()) };
        line.extend(bytes);
        if !line.ends_with(b"\n") {
            return Ok(());
        }
        let file = serde_json::from_slice(&std::mem::take(line));
        record.file = Some(file.map_err(|error| format!("it began in no known form: {error}"))?);
        let mut begun = self.begun.borrow_mut();
        let file = HostsFile {
            file: file_of(Vec::new(), None, begun.context),
            slowest_host: None,
            hosts: hosts.iter().map(|(_, record)| record.clone()).collect(),
        };
        begun.write(&file);
        Ok(())
    }

    /// Returns the file that lies in the place of the result now.
    pub(super) fn into_begun(self) -> Begun<'a> {
        self.begun.into_inner()
    }
}
