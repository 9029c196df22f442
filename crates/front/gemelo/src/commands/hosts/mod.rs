//! The options by which a command runs on several hosts, and the run itself. The tasks are those of
//! `gemelo host`, which answers over there.

mod run;
mod text;

pub(crate) use run::{HostRecordOf, HostsFileOf, deliver, join, no_file, records, run, told};
pub(crate) use text::{HostColumns, slowest_line, start_of, table};

use super::host::Task;
use crate::context::Context;
use crate::exit::{OrFailed as _, OrFailure as _, refused};
use clap::Args;
use gemelo_base::values::Span;
use gemelo_fleet::{Agree, Finished, Hosts, Orders, Receive, Transport};
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

/// What a command does with what its hosts tell and send.
pub(crate) struct Handling<'a> {
    /// Compares what the hosts make of their tasks.
    pub(crate) agree: Agree<'a>,
    /// Takes the parts of the file that a host sends meanwhile.
    pub(crate) receive: Receive<'a>,
    /// `true` if the others go on when a host is lost.
    pub(crate) goes_on: bool,
}

impl Fleet {
    /// Returns the names of the hosts.
    pub(crate) fn names(&self) -> &[String] {
        self.hosts.names()
    }

    /// Runs a task on each host.
    pub(crate) fn run(
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
