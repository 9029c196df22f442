//! The log of connections, for servers that are asked to keep one: a line when a client has
//! selected an export, and a line when it leaves.

use super::reports::Reports;
use super::stream::Stream;
use gemelo_base::units::{format_counted, format_duration_ns, format_size};
use gemelo_base::{Clock, Monitor, SystemClock};
use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;

/// Most lines of a kind in a minute. Further ones are counted.
const MAX_LINES_PER_MINUTE: u64 = 100;

/// The kinds of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Line {
    Connected,
    Left,
}

/// The log of a server.
pub(super) struct ConnectionLog {
    lines: Reports<Line>,
}

impl ConnectionLog {
    pub(super) fn new(monitor: Arc<dyn Monitor>) -> Self {
        Self { lines: Reports::events(monitor, MAX_LINES_PER_MINUTE) }
    }

    /// Writes the number of lines that were not written.
    pub(super) fn tell_counted(&self, is_end: bool) {
        self.lines.tell_counted(is_end);
    }

    /// Begins to log a connection. `number` tells it from others of the same peer.
    pub(super) fn begin(&self, number: u64, peer: &str, stream: &Stream) -> LoggedConnection<'_> {
        let credentials = stream
            .peer_credentials()
            .map(|peer| format!(" (user {}, process {})", peer.uid.as_raw(), peer.pid.as_raw_pid()))
            .unwrap_or_default();
        let name = format!("connection {number}: {peer}{credentials}");
        LoggedConnection { log: self, name, export: None, clock: SystemClock::new() }
    }
}

/// A connection that is logged.
pub(super) struct LoggedConnection<'a> {
    log: &'a ConnectionLog,
    name: String,
    export: Option<String>,
    /// Counts from the beginning of the connection.
    clock: SystemClock,
}

impl LoggedConnection<'_> {
    pub(super) fn connected(&mut self, export: &str, stream: &Stream) {
        let encryption = match stream.tls_version() {
            Some(version) => format!("encrypted with {version}"),
            None => "not encrypted".to_owned(),
        };
        let line = format!("{} connected to '{export}', {encryption}", self.name);
        self.export = Some(export.to_owned());
        self.log.lines.tell(Line::Connected, line);
    }

    pub(super) fn left(self, traffic: Traffic, reason: &dyn fmt::Display) {
        let Self { log, name, export, clock } = self;
        let after = format_duration_ns(clock.now_ns());
        let line = match export {
            Some(export) => format!("{name} left '{export}' after {after}: {traffic}: {reason}"),
            None => format!("{name} left after {after} without an export: {reason}"),
        };
        log.lines.tell(Line::Left, line);
    }
}

/// Requests and data of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    pub(crate) requests: u64,
    /// Data of successful reads.
    pub(crate) read_bytes: u64,
    /// Data of successful writes.
    pub(crate) written_bytes: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, read_bytes, written_bytes } = *self;
        let (read, written) = (format_size(read_bytes), format_size(written_bytes));
        write!(formatter, "{}, {read} read, {written} written", format_counted(requests, "request"))
    }
}
