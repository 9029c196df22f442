//! Sending a snapshot.
//!
//! Each content is in a stream once. Those that are referred to several times are remembered by a
//! keyed hash with the block that had them first, up to a bound: beyond it a content may be sent
//! again. Numbers of blocks of the pool would not do, because contents move meanwhile.

use crate::stream::{Head, Record, StreamWriter, Sums};
use gemelo_base::{Classified, Monitor, StopFlag, Unit, with_causes};
use gemelo_format::{Compression, Lbn, MapEntry};
use gemelo_volume::{Outgoing, SentContent, VolumeError};

use std::collections::HashMap;
use std::io::{self, Write};
use thiserror::Error;

/// Contents that are remembered: 45 MiB of memory.
const MAX_REMEMBERED: usize = (1 << 21) / 8 * 7;
/// Bytes of contents that are read at once.
const READ_BYTES: usize = 1 << 20;
/// Bytes of a keyed hash of a content.
const NAME_BYTES: usize = 16;

/// The result of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// The sums of the stream.
    pub sums: Sums,
    /// Length of the stream in bytes.
    pub stream_bytes: u64,
}

/// The reason why a snapshot was not sent to the end.
#[derive(Debug, Error, Classified)]
pub enum SendError {
    /// The pool failed.
    #[kind(source)]
    #[error(transparent)]
    Pool(#[from] VolumeError),
    /// The stream could not be written.
    #[kind(Failed)]
    #[error("cannot write the stream")]
    Output(#[source] io::Error),
    /// Another process may act for the member by now.
    #[kind(Failed)]
    #[error("{0}")]
    NotAnswering(String),
    /// The user stopped it.
    #[kind(Failed)]
    #[error("stopped before the end")]
    Interrupted,
}

/// Returns whether this process may still answer for the pool, or the reason why not.
pub type MayAnswer<'a> = &'a dyn Fn() -> Result<(), String>;

/// Writes a snapshot, or what differs from an earlier one, as a stream. After a failure the stream
/// tells the reason.
///
/// # Errors
/// Fails if the pool or the output fails.
pub fn send(
    outgoing: &Outgoing,
    out: &mut dyn Write,
    may_answer: MayAnswer<'_>,
    (monitor, stop): (&dyn Monitor, &StopFlag),
) -> Result<Sent, SendError> {
    let record = outgoing.record();
    let head = Head {
        block_bytes: outgoing.block_bytes(),
        size_bytes: record.size_bytes,
        padding_bytes: record.padding_bytes,
        identity: outgoing.identity(),
        created_s: record.birth.created_s,
        name: record.name.clone(),
        since: outgoing.base(),
        is_compressed: outgoing.is_compressed(),
    };
    monitor.begin("Sending", Unit::Bytes, Some(head.size_bytes));
    let stream = StreamWriter::begin(out, &head).map_err(SendError::Output)?;
    let mut sender = Sender {
        outgoing,
        stream,
        block_bytes: head.block_bytes as usize,
        first_of: HashMap::new(),
        pending: Pending::None,
    };
    let sent = sender.send_all(head.blocks(), may_answer, (monitor, stop));
    match sent {
        Ok(()) => {
            let (sums, stream_bytes) = sender.stream.finish().map_err(SendError::Output)?;
            monitor.finish();
            Ok(Sent { sums, stream_bytes })
        }
        Err(error) => {
            if !matches!(error, SendError::Output(_)) {
                // The reader learns from a cut-off stream as well that it is not whole.
                let _ = sender.stream.give_up(&with_causes(&error));
            }
            Err(error)
        }
    }
}

/// A record that may still grow.
enum Pending {
    None,
    Zeros { first: u64, count: u64 },
    Plain { first: u64, contents: Vec<u8> },
    Copies { first: u64, count: u64, from: u64 },
}

struct Sender<'s> {
    outgoing: &'s Outgoing,
    stream: StreamWriter<'s>,
    block_bytes: usize,
    /// The first block of contents that may come again, by the hashes of these.
    first_of: HashMap<[u8; NAME_BYTES], u64>,
    pending: Pending,
}

impl Sender<'_> {
    fn send_all(
        &mut self,
        blocks: u64,
        may_answer: MayAnswer<'_>,
        (monitor, stop): (&dyn Monitor, &StopFlag),
    ) -> Result<(), SendError> {
        let at_once = (READ_BYTES / self.block_bytes).max(1);
        let mut next = Lbn(0);
        while next.0 < blocks {
            let found = self.outgoing.differences(next)?;
            for some in found.entries.chunks(at_once) {
                if stop.is_raised() {
                    return Err(SendError::Interrupted);
                }
                let is_stored = |lbn: &MapEntry| *lbn != MapEntry::Unmapped;
                let stored: Vec<Lbn> =
                    some.iter().filter(|one| is_stored(&one.own)).map(|one| one.lbn).collect();
                let mut contents = self.outgoing.contents(&stored)?.into_iter();
                may_answer().map_err(SendError::NotAnswering)?;
                for one in some {
                    match is_stored(&one.own).then(|| contents.next()).flatten().flatten() {
                        Some(content) => self.add_content(one.lbn.0, content)?,
                        None => self.add_zeros(one.lbn.0)?,
                    }
                }
            }
            assert!(found.end > next, "each comparison goes on");
            let end = found.end.0.min(blocks);
            monitor.advance((end - next.0) * self.block_bytes as u64);
            next = found.end;
        }
        self.write_pending()
    }

    fn add_zeros(&mut self, block: u64) -> Result<(), SendError> {
        match &mut self.pending {
            Pending::Zeros { first, count } if *first + *count == block => *count += 1,
            _ => {
                self.write_pending()?;
                self.pending = Pending::Zeros { first: block, count: 1 };
            }
        }
        Ok(())
    }

    fn add_content(&mut self, block: u64, sent: SentContent) -> Result<(), SendError> {
        if let Some(earlier) = self.earlier(block, &sent) {
            return self.add_copy(block, earlier);
        }
        let SentContent { content, form, .. } = sent;
        if let Some((algorithm, bytes)) = form.filter(|(algorithm, _)| is_known(*algorithm)) {
            self.write_pending()?;
            let record = Record::Compressed { block, algorithm, bytes: &bytes };
            return self.stream.add(&record).map_err(SendError::Output);
        }
        match &mut self.pending {
            Pending::Plain { first, contents }
                if *first + (contents.len() / self.block_bytes) as u64 == block
                    && contents.len() < READ_BYTES =>
            {
                contents.extend_from_slice(&content);
            }
            _ => {
                self.write_pending()?;
                self.pending = Pending::Plain { first: block, contents: content };
            }
        }
        Ok(())
    }

    /// The block that had this content first; remembers it if it is this one.
    fn earlier(&mut self, block: u64, sent: &SentContent) -> Option<u64> {
        if !sent.is_shared {
            return None;
        }
        let hash = blake3::keyed_hash(self.outgoing.key(), &sent.content);
        let name = *hash.as_bytes().first_chunk()?;
        let known = self.first_of.get(&name).copied();
        if known.is_none() && self.first_of.len() < MAX_REMEMBERED {
            self.first_of.insert(name, block);
        }
        known
    }

    fn add_copy(&mut self, block: u64, earlier: u64) -> Result<(), SendError> {
        match &mut self.pending {
            // What came first is before all copies, so a run never reaches its own start.
            Pending::Copies { first, count, from }
                if *first + *count == block && *from + *count == earlier =>
            {
                *count += 1;
            }
            _ => {
                self.write_pending()?;
                self.pending = Pending::Copies { first: block, count: 1, from: earlier };
            }
        }
        Ok(())
    }

    fn write_pending(&mut self) -> Result<(), SendError> {
        let pending = std::mem::replace(&mut self.pending, Pending::None);
        let record = match &pending {
            Pending::None => return Ok(()),
            Pending::Zeros { first, count } => Record::Zeros { first: *first, count: *count },
            Pending::Plain { first, contents } => Record::Plain { first: *first, contents },
            Pending::Copies { first, count, from } => {
                Record::Copies { first: *first, count: *count, from: *from }
            }
        };
        self.stream.add(&record).map_err(SendError::Output)
    }
}

fn is_known(algorithm: u8) -> bool {
    [Compression::Lz4, Compression::Zstd(1)].iter().any(|known| known.algorithm() == algorithm)
}
