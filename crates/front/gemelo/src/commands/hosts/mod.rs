//! The options by which a command runs on several hosts, and the run itself. The tasks are those of
//! `gemelo host`, which answers over there.

mod joined;
mod text;

pub(crate) use joined::{deliver, join};
pub(crate) use text::{slowest_line, start_of, table};

use super::host::Task;
use crate::context::Context;
use crate::exit::{OrFailed as _, OrFailure as _, failed, refused};
use clap::Args;
use gemelo_base::values::Span;
use gemelo_fleet::{Agree, Finished, HostEnd, Hosts, Orders, Receive, Transport};
use gemelo_record::{HostRecord, ResultFile};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// Longest silence of a host if the user sets none.
const USUAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The options of a run on several hosts.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct HostOptions {
    /// Run on these hosts at the same time, each a part: a,b,user@c, or @FILE with a host a line; a
    /// host that is given several times runs as many parts
    #[arg(long, value_name = "HOST,...|@FILE", help_heading = "Hosts")]
    hosts: Option<String>,
    /// Command that reaches a host, with {host}, {index} and {command}, such as 'kubectl exec -i
    /// {host} -- {command}' [default: ssh]
    #[arg(long, value_name = "COMMAND", requires = "hosts", help_heading = "Hosts")]
    connect: Option<String>,
    /// This program on the hosts [default: gemelo]
    #[arg(long, value_name = "PATH", requires = "hosts", help_heading = "Hosts")]
    program: Option<String>,
    /// Bring this program along, to a temporary place
    #[arg(long, requires = "hosts", conflicts_with = "program", help_heading = "Hosts")]
    copy: bool,
    /// Longest silence of a host, and longest wait for its end, before it is given up [default:
    /// 30s]
    #[arg(long, value_name = "DURATION", requires = "hosts", help_heading = "Hosts")]
    host_timeout: Option<Span>,
}

/// Hosts that were checked as far as that is possible from here.
#[derive(Debug)]
pub(crate) struct Fleet {
    hosts: Hosts,
    transport: Transport,
    timeout: Duration,
}

impl HostOptions {
    /// Returns whether the command runs on other hosts.
    pub(crate) const fn are_given(&self) -> bool {
        self.hosts.is_some()
    }

    /// Returns the hosts; `None` if the command runs here.
    pub(crate) fn fleet(&self) -> crate::Result<Option<Fleet>> {
        let Some(text) = &self.hosts else { return Ok(None) };
        let hosts = Hosts::parse(text).context("--hosts").or_bad_input()?;
        let mut transport = Transport::new(self.connect.as_deref(), self.program.as_deref())
            .context("--connect")
            .or_bad_input()?;
        if self.copy {
            let program = std::env::current_exe().context("cannot find this program")?;
            transport = transport.with_copy_of(&program).or_bad_input()?;
        }
        let timeout = self.host_timeout.map_or(USUAL_TIMEOUT, |span| span.0);
        if timeout < Duration::from_secs(2) {
            return Err(refused!("--host-timeout must be at least 2s"));
        }
        Ok(Some(Fleet { hosts, transport, timeout }))
    }
}

/// The parts of a run that its command decides.
struct Handling<'a> {
    agree: Agree<'a>,
    receive: Receive<'a>,
    goes_on: bool,
}

impl Fleet {
    /// Returns the names of the hosts.
    pub(crate) fn names(&self) -> &[String] {
        self.hosts.names()
    }

    /// Runs a task on each host. `agree` compares what the hosts make of their tasks.
    pub(crate) fn run<Plan: DeserializeOwned>(
        &self,
        tasks: &[Task],
        agree: impl Fn(&[Plan]) -> Result<(), String>,
        context: &Context,
    ) -> crate::Result<Vec<Finished>> {
        let receive = |_: usize, _: &[u8]| Err("it sent a file that nobody asked for".to_owned());
        self.run_receiving(tasks, agree, receive, context)
    }

    /// Runs a task on each host. `receive` takes the parts of what the hosts send meanwhile.
    pub(crate) fn run_receiving<Plan: DeserializeOwned>(
        &self,
        tasks: &[Task],
        agree: impl Fn(&[Plan]) -> Result<(), String>,
        receive: impl Fn(usize, &[u8]) -> Result<(), String>,
        context: &Context,
    ) -> crate::Result<Vec<Finished>> {
        let agree = |plans: &[&Value]| {
            let plans = plans.iter().map(|plan| Plan::deserialize(*plan));
            let plans = plans.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
            agree(&plans)
        };
        self.conduct(tasks, &Handling { agree: &agree, receive: &receive, goes_on: false }, context)
    }

    /// Runs a task on each host that sends a file. `receive` takes the parts of the files. If a
    /// host is lost, the others go on.
    pub(crate) fn collect(
        &self,
        tasks: &[Task],
        receive: impl Fn(usize, &[u8]) -> Result<(), String>,
        context: &Context,
    ) -> crate::Result<Vec<Finished>> {
        let agree = |_: &[&Value]| Ok(());
        self.conduct(tasks, &Handling { agree: &agree, receive: &receive, goes_on: true }, context)
    }

    fn conduct(
        &self,
        tasks: &[Task],
        handling: &Handling<'_>,
        context: &Context,
    ) -> crate::Result<Vec<Finished>> {
        let tasks =
            tasks.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>().or_failed()?;
        Ok(gemelo_fleet::run(&Orders {
            hosts: &self.hosts,
            transport: &self.transport,
            version: env!("CARGO_PKG_VERSION"),
            timeout: self.timeout,
            tasks: &tasks,
            agree: handling.agree,
            receive: handling.receive,
            goes_on: handling.goes_on,
            monitor: context.monitor.as_ref(),
            stop: &context.stop,
        })?)
    }
}

/// Returns the parts of the hosts as records. Fails if no host has a result.
pub(crate) fn records<Input: DeserializeOwned, Measured: DeserializeOwned>(
    finished: Vec<Finished>,
) -> crate::Result<Vec<HostRecord<Input, Measured>>> {
    let records: Vec<_> = (0..).zip(finished).map(|(index, one)| record(index, one)).collect();
    if let (true, Some(first)) = (records.iter().all(|one| one.file.is_none()), records.first()) {
        let reason = first.failure.clone().unwrap_or_default();
        return Err(failed!("no host has a result: host {}: {reason}", first.host));
    }
    Ok(records)
}

/// Returns the part of a host as a record.
pub(crate) fn record<Input: DeserializeOwned, Measured: DeserializeOwned>(
    index: u32,
    finished: Finished,
) -> HostRecord<Input, Measured> {
    let (file, failure) = match finished.end {
        HostEnd::Lost(reason) => (None, Some(reason)),
        HostEnd::Failed(refusal) => (None, Some(refusal.message)),
        HostEnd::Done(done) => match ResultFile::deserialize(done.result) {
            Ok(file) if done.is_complete => (Some(file), None),
            Ok(file) => (Some(file), Some("it has done a part of its task".to_owned())),
            Err(error) => (None, Some(format!("its result cannot be read: {error}"))),
        },
    };
    HostRecord {
        host: finished.host,
        index,
        round_trip_ns: finished.clock.map_or(0, |clock| clock.round_trip_ns),
        date_offset_ns: finished.clock.map_or(0, |clock| clock.date_offset_ns),
        start_delays_ns: finished.delays_ns,
        failure,
        file,
    }
}
