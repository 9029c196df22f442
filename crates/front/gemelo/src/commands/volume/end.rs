//! A volume of this host or of another one, for commands that start this program there.

use crate::exit::{Failure, OrFailed as _, OrFailure as _, kind_of, refused};
use clap::Args;
use gemelo_base::FailureKind;
use gemelo_fleet::Transport;
use gemelo_place::VolumePath;
use std::process::{Child, Command, Output, Stdio};

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
