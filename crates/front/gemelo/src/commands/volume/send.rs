//! `gemelo volume send` and `receive`: a snapshot as a stream.

use super::mode::Mode;
use super::send_to::rests;
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome, refused};
use crate::pipes::Pipe;
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_base::units::format_size;
use gemelo_place::VolumePath;
use gemelo_serve::{CopiedReport, Purpose};
use std::io::{BufReader, BufWriter, IsTerminal, Write, stdin, stdout};

/// Bytes of a stream that are gathered before they are passed on.
const BUFFER_BYTES: usize = 256 << 10;

/// How a stream is compressed.
#[derive(Debug, Args)]
pub(super) struct Compressing {
    /// Compress the stream by this level of Zstandard, from 1 to 6: what an earlier snapshot has at
    /// the same place takes few bytes [default: contents as the pool stores them]
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(1..=6))]
    pub(super) compress: Option<u8>,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The snapshot: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/SNAPSHOT", value_parser = volume_path_parser())]
    snapshot: VolumePath,
    /// Send only what differs from this snapshot of the same pool
    ///
    /// The receiving pool must have a copy of it.
    #[arg(long, value_name = "POOL/EARLIER", value_parser = volume_path_parser())]
    since: Option<VolumePath>,
    #[command(flatten)]
    compressing: Compressing,
}

#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// The pool and the new snapshot's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    snapshot: VolumePath,
    /// Mode of deduplication of the new snapshot
    ///
    /// A snapshot that is received as differences from an earlier one keeps the mode of that.
    #[arg(long, value_name = "MODE", default_value = "inline")]
    dedup: Mode,
    /// Write the answers for 'gemelo volume copy' to standard output
    #[arg(long, hide = true)]
    answers: bool,
}

pub(super) fn send(arguments: &Send, context: &Context) -> crate::Result<Outcome> {
    let Send { snapshot, since, compressing } = arguments;
    if let Some(since) = since.as_ref().filter(|since| since.pool != snapshot.pool) {
        return Err(refused!(
            "{since} is of another pool than {snapshot}: name a snapshot of the same pool"
        ));
    }
    if stdout().is_terminal() {
        return Err(refused!(
            "a stream is not for a terminal: redirect it to a file, or to 'gemelo volume receive'"
        ));
    }
    let access = pools::open(&snapshot.pool, Purpose::Send, context)?;
    let since = since.as_ref().map(|since| &*since.name);
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, Pipe::to(stdout(), &context.stop));
    let what = (&*snapshot.name, since, compressing.compress);
    let sent = access.send(what, &mut out, None, (&*context.monitor, &context.stop));
    let flushed = out.flush();
    let closed = access.close();
    sent?;
    flushed.context("cannot write the stream")?;
    closed?;
    Ok(Outcome::Done)
}

pub(super) fn receive(arguments: &Receive, context: &Context) -> crate::Result<Outcome> {
    let snapshot = &arguments.snapshot;
    if stdin().is_terminal() {
        return Err(refused!(
            "a stream is not typed at a terminal: give the output of 'gemelo volume send' as input"
        ));
    }
    let access = pools::open(&snapshot.pool, Purpose::Receive, context)?;
    let input = BufReader::with_capacity(BUFFER_BYTES, Pipe::new(stdin(), &context.stop));
    let mode = arguments.dedup.into();
    let progress = (&*context.monitor, &context.stop);
    let mut out = Pipe::to(stdout(), &context.stop);
    let answers = arguments.answers.then_some(&mut out as _);
    let received = access.receive(&snapshot.name, mode, Box::new(input), answers, progress);
    let closed = access.close();
    let received = received?;
    closed?;
    if !arguments.answers {
        context.print(&text(snapshot, &received))?;
    }
    Ok(Outcome::Done)
}

fn text(snapshot: &VolumePath, received: &CopiedReport) -> String {
    let CopiedReport { name, stream_bytes, content_bytes, duplicate_bytes, rested_ns, .. } =
        received;
    let what = if received.is_increment { "what was new in" } else { "a copy of" };
    format!(
        "{snapshot}: {what} snapshot {name} came in a stream of {}: {} of data, {} of duplicates{}\n",
        format_size(*stream_bytes),
        format_size(*content_bytes),
        format_size(*duplicate_bytes),
        rests(*rested_ns)
    )
}
