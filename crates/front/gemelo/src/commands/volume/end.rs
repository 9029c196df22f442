//! A volume of this host or of another one, for commands that start this program there.

use crate::exit::{Failure, OrFailed as _, OrFailure as _, kind_of, refused};
use clap::Args;
use gemelo_base::{FailureKind, StopFlag};
use gemelo_fleet::Transport;
use gemelo_place::VolumePath;
use std::io;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Interval at which the stop flag is checked.
const STOP_CHECKED_EVERY: Duration = Duration::from_millis(50);
/// Such intervals that a program has to end after a stop. One whose connection hangs does not.
const MOST_CHECKS: u32 = 40;

/// The way to other hosts.
#[derive(Debug, Args)]
pub(super) struct Connection {
    /// Command that reaches the host, with {host} and {command}, such as 'ssh -p 2222 {host}'
    /// [default: ssh]
    #[arg(long, value_name = "COMMAND")]
    connect: Option<String>,
    /// This program on the host [default: gemelo]
    #[arg(long, value_name = "PATH")]
    program: Option<String>,
}

impl Connection {
    /// Refuses options that say how to reach a host if none of the ends is on another one.
    pub(super) fn check(&self, ends: &[&End]) -> crate::Result<()> {
        if (self.connect.is_none() && self.program.is_none()) || ends.iter().any(|end| end.is_far())
        {
            return Ok(());
        }
        Err(refused!(
            "--connect and --program are for a volume on another host: name it HOST:POOL/NAME"
        ))
    }
}

/// The place of a volume.
pub(super) struct End {
    /// The host; [`None`] for this one.
    host: Option<(String, Transport)>,
    /// `POOL/NAME` there.
    volume: String,
}

impl End {
    /// Reads `[HOST:]POOL/NAME`.
    pub(super) fn of(text: &str, connection: &Connection) -> crate::Result<Self> {
        // A host has no slash, and a place on Ceph begins with its scheme.
        let host = text
            .split_once(':')
            .filter(|(host, _)| !host.is_empty() && !host.contains('/') && *host != "rados");
        let Some((host, volume)) = host else {
            return Ok(Self { host: None, volume: text.to_owned() });
        };
        let Connection { connect, program } = connection;
        let transport = Transport::new(connect.as_deref(), program.as_deref())
            .context("--connect")
            .or_bad_input()?;
        Ok(Self { host: Some((host.to_owned(), transport)), volume: volume.to_owned() })
    }

    /// Returns whether it is on another host.
    pub(super) const fn is_far(&self) -> bool {
        self.host.is_some()
    }

    /// `POOL/NAME` on its host.
    pub(super) fn volume(&self) -> &str {
        &self.volume
    }

    /// The pool on its host.
    pub(super) fn pool(&self) -> crate::Result<String> {
        let path = self.volume.parse::<VolumePath>().or_failed();
        let path = path.with_context(|| self.volume.clone()).or_bad_input()?;
        Ok(path.pool.to_string())
    }

    /// Starts this program there.
    pub(super) fn start(&self, arguments: &[&str], input: Stdio) -> crate::Result<Child> {
        let mut command = if let Some((host, transport)) = &self.host {
            transport.command_with(host, arguments)
        } else {
            let program = std::env::current_exe().context("cannot find this program")?;
            let mut command = Command::new(program);
            command.args(arguments);
            command
        };
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = gemelo_base::text_of_name(command.get_program());
        command.spawn().with_context(|| format!("cannot start '{program}'"))
    }

    /// Runs this program there.
    pub(super) fn run(&self, arguments: &[&str], stop: &StopFlag) -> crate::Result<Output> {
        let child = self.start(arguments, Stdio::null())?;
        let about = || format!("cannot wait for 'gemelo {}'", arguments.join(" "));
        let output = output_of(child, stop).with_context(about)?;
        self.check(&output)?;
        Ok(output)
    }

    /// Fails with what the program there said.
    pub(super) fn check(&self, output: &Output) -> crate::Result<()> {
        self.check_as(output, FailureKind::Failed)
    }

    /// Fails with what the program there said, as its status tells. It has only read.
    pub(super) fn check_reader(&self, output: &Output) -> crate::Result<()> {
        self.check_as(output, kind_of(output.status.code()))
    }

    fn check_as(&self, output: &Output, kind: FailureKind) -> crate::Result<()> {
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches("gemelo: ");
        let said = if said.is_empty() { output.status.to_string() } else { said.to_owned() };
        Err(match &self.host {
            Some((host, _)) => Failure::new(kind, format_args!("host {host}: {said}")),
            None => Failure::new(kind, said),
        })
    }
}

/// Waits for a program, and returns what it said. After a stop it is left alone soon.
pub(super) fn output_of(child: Child, stop: &StopFlag) -> io::Result<Output> {
    let (told, output) = channel();
    let wait = move || {
        // Nobody listens after a stop.
        let _ = told.send(child.wait_with_output());
    };
    let thread = std::thread::Builder::new().name("gemelo-child".into());
    thread.spawn(wait).map_err(gemelo_base::threads::refused)?;
    let mut checks = 0;
    loop {
        match output.recv_timeout(STOP_CHECKED_EVERY) {
            Ok(output) => return output,
            Err(RecvTimeoutError::Timeout) if checks < MOST_CHECKS => {
                checks += u32::from(stop.is_raised());
            }
            Err(_) => return Err(io::Error::other("stopped before the end")),
        }
    }
}
