//! Sending and receiving snapshots of an open pool.

use crate::failure::RequestFailure;
use crate::open_pool::OpenPool;
use crate::request::{CopiedReport, Reply};
use gemelo_base::{Classified, Monitor, StopFlag};
use gemelo_copies::stream::Sums;
use gemelo_copies::{Answers, LEVELS, ReceiveOptions, SendOptions, receive, send};
use gemelo_format::DedupMode;
use gemelo_volume::Outgoing;
use std::io::{Read, Write};

/// Ranges that differ, about as many as one reply has.
const MAX_RANGES: usize = 100_000;

impl OpenPool {
    /// Compares a volume with another one, from a byte on.
    pub(crate) fn differing_ranges(
        &self,
        name: &str,
        since: &str,
        from_bytes: u64,
        stop: &StopFlag,
    ) -> Result<Reply, RequestFailure> {
        let bytes = from_bytes..u64::MAX;
        let ranges = self.pool().differing_ranges(name, since, bytes, (MAX_RANGES, stop))?;
        Ok(Reply::DifferingRanges(ranges))
    }

    /// Begins to send a snapshot.
    pub(crate) fn outgoing(
        &self,
        name: &str,
        since: Option<&str>,
    ) -> Result<Outgoing, RequestFailure> {
        Ok(self.pool().outgoing(name, since)?)
    }

    /// Sends a snapshot. A member that another process may have taken by now sends nothing more.
    pub(crate) fn send(
        &self,
        outgoing: &Outgoing,
        (out, answers): (&mut dyn Write, Option<&mut (dyn Read + Send)>),
        level: Option<u8>,
        (monitor, stop): (&dyn Monitor, &StopFlag),
    ) -> Result<CopiedReport, RequestFailure> {
        let may_answer = || self.check_lease().map_err(|failure| failure.text);
        // A request may come from another program.
        let level = level.map(|level| level.clamp(*LEVELS.start(), *LEVELS.end()));
        let options = SendOptions { may_answer: &may_answer, level };
        let sent = send(outgoing, out, answers, options, (monitor, stop))
            .map_err(|error| failed(&error))?;
        let record = outgoing.record();
        Ok(report(
            (&record.name, outgoing.base().is_some(), record.size_bytes),
            (sent.sums, sent.stream_bytes, outgoing.block_bytes()),
            sent.rested_ns,
        ))
    }

    /// Makes a snapshot of a stream.
    pub(crate) fn receive(
        &self,
        name: &str,
        mode: DedupMode,
        (input, answers): (&mut dyn Read, Option<&mut (dyn Write + Send)>),
        (monitor, stop): (&dyn Monitor, &StopFlag),
    ) -> Result<CopiedReport, RequestFailure> {
        let options = ReceiveOptions { mode, tells: self.settings().of_pool().is_on("exchange") };
        self.forget_earlier(name)?;
        let answers = answers.map(Answers::new);
        let received = receive(self.pool(), name, input, answers, options, (monitor, stop));
        let received = received.map_err(|error| failed(&error))?;
        self.check_lease()?;
        let head = &received.head;
        Ok(report(
            (&head.name, head.since.is_some(), head.size_bytes),
            (received.sums, received.stream_bytes, head.block_bytes),
            received.rested_ns,
        ))
    }
}

fn failed(error: &(impl Classified + 'static)) -> RequestFailure {
    RequestFailure::of_error(error)
}

fn report(
    (name, is_increment, size_bytes): (&str, bool, u64),
    (sums, stream_bytes, block_bytes): (Sums, u64, u32),
    rested_ns: u64,
) -> CopiedReport {
    let bytes = |blocks: u64| blocks * u64::from(block_bytes);
    CopiedReport {
        name: name.to_owned(),
        is_increment,
        size_bytes,
        stream_bytes,
        content_bytes: bytes(sums.contents),
        duplicate_bytes: bytes(sums.copies),
        zero_bytes: bytes(sums.zeros),
        known_bytes: bytes(sums.known),
        rested_ns,
    }
}
