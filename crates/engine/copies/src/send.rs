//! Sending a snapshot.
//!
//! Each content is in a stream once. Those that are referred to several times are remembered by a
//! keyed hash with the block that had them first, up to a bound: beyond it a content may be sent
//! again. Numbers of blocks of the pool would not do, because contents move meanwhile.

use crate::exchange::{AnswerReader, Asked, BATCHES_AHEAD, COMPRESSED_AHEAD};
use crate::first_blocks::FirstBlocks;
use crate::parts::{NextPart, Part, PartReader, with_parts};
use crate::stream::{Head, Record, StreamWriter, Sums};
use crate::survey::with_total;
use gemelo_base::locks::Mutex;
use gemelo_base::{Classified, Monitor, StopFlag, SystemClock, Unit, with_causes};
use gemelo_format::{Compression, Fingerprinter, Lbn, SnapshotId};
use gemelo_volume::{Outgoing, SentContent, VolumeError};

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::ops::{Range, RangeInclusive};
use thiserror::Error;

/// Most bytes of contents in a record.
const RECORD_BYTES: usize = 1 << 20;

/// Levels of Zstandard by which a stream may be compressed. Higher ones would take more memory than
/// a command may.
pub const LEVELS: RangeInclusive<u8> = 1..=6;

/// Settings of a send.
#[derive(Clone, Copy)]
pub struct SendOptions<'a> {
    /// Returns whether this process may still answer for the pool.
    pub may_answer: MayAnswer<'a>,
    /// One of [`LEVELS`] by which records are compressed, with an earlier snapshot against what
    /// that has at their places; [`None`] to send contents as the pool stores them.
    pub level: Option<u8>,
}

/// The result of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// The sums of the stream.
    pub sums: Sums,
    /// Length of the stream in bytes.
    pub stream_bytes: u64,
    /// Time in nanoseconds for which clients of the pool were given way.
    pub rested_ns: u64,
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
    /// The receiver does not answer.
    #[kind(source)]
    #[error("the receiver does not answer")]
    NoAnswer(#[source] io::Error),
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
/// tells the reason. With `answers`, the way back from the receiver, only contents are sent that it
/// does not have.
///
/// # Errors
/// Fails if the pool or the output fails.
pub fn send(
    outgoing: &Outgoing,
    out: &mut dyn Write,
    answers: Option<&mut (dyn Read + Send)>,
    options: SendOptions<'_>,
    (monitor, stop): (&dyn Monitor, &StopFlag),
) -> Result<Sent, SendError> {
    let record = outgoing.record();
    let head = Head {
        block_bytes: outgoing.block_bytes(),
        size_bytes: record.size_bytes,
        padding_bytes: record.padding_bytes,
        identity: outgoing.identity(),
        source: SnapshotId::source_of(record),
        created_s: record.birth.created_s,
        name: record.name.clone(),
        since: outgoing.base(),
        is_compressed: outgoing.is_compressed() && options.level.is_none(),
        is_exchange: answers.is_some(),
        has_compressed_frames: options.level.is_some(),
    };
    monitor.begin("Sending", Unit::Bytes, None);
    let mut stream = StreamWriter::begin(out, &head).map_err(SendError::Output)?;
    if head.is_exchange {
        stream.flush().map_err(SendError::Output)?;
    }
    let answers = answers.map(AnswerReader::begin).transpose().map_err(SendError::NoAnswer)?;
    let mut sender = Sender {
        outgoing,
        stream,
        block_bytes: head.block_bytes as usize,
        first_blocks: FirstBlocks::new(head.blocks()),
        pending: Pending::None,
        level: options.level,
        places: Vec::new(),
    };
    let sent = sender.send_all(head.blocks(), answers, options.may_answer, (monitor, stop));
    match sent {
        Ok(rested_ns) => {
            let (sums, stream_bytes) = sender.stream.finish().map_err(SendError::Output)?;
            monitor.finish();
            Ok(Sent { sums, stream_bytes, rested_ns })
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
    Plain { first: u64, contents: Vec<Vec<u8>> },
    Copies { first: u64, count: u64, from: u64 },
}

struct Sender<'s> {
    outgoing: &'s Outgoing,
    stream: StreamWriter<'s>,
    block_bytes: usize,
    first_blocks: FirstBlocks,
    pending: Pending,
    level: Option<u8>,
    /// Blocks whose contents are in the frame, if it is compressed.
    places: Vec<Lbn>,
}

/// A block that is sent.
enum Planned {
    Zeros,
    /// Its content is that of an earlier block.
    Copy(u64),
    Content(SentContent),
}

/// Blocks of which the receiver was asked together, if it is asked.
struct Batch {
    blocks: Vec<(u64, Planned)>,
    /// Contents that were asked for.
    asked: usize,
}

impl Sender<'_> {
    /// Sends all blocks. Returns the time in nanoseconds for which clients were given way.
    fn send_all(
        &mut self,
        blocks: u64,
        mut answers: Option<AnswerReader<'_>>,
        may_answer: MayAnswer<'_>,
        (monitor, stop): (&dyn Monitor, &StopFlag),
    ) -> Result<u64, SendError> {
        let ahead = answers.as_ref().and_then(|answers| answers.fingerprinter());
        let most = if self.level.is_some() { COMPRESSED_AHEAD } else { BATCHES_AHEAD };
        let ahead = if ahead.is_some() { most } else { 0 };
        let received = answers.as_ref().map_or(0, AnswerReader::received_bytes);
        let received = (received / self.block_bytes as u64).min(blocks);
        let (clock, outgoing, left) = (SystemClock::new(), self.outgoing, (received, blocks));
        let reader = PartReader::new(outgoing, left, self.level.is_none(), (&clock, stop));
        let reader = Mutex::new(reader);
        let send = |next_part: NextPart<'_>| {
            let mut batches = VecDeque::new();
            while let Some(part) = next_part()? {
                may_answer().map_err(SendError::NotAnswering)?;
                let contents = part.contents();
                batches.push_back(self.plan(part, answers.as_ref())?);
                while batches.len() > ahead {
                    self.add_next(&mut batches, answers.as_mut())?;
                }
                monitor.advance(contents * self.block_bytes as u64);
            }
            while !batches.is_empty() {
                self.add_next(&mut batches, answers.as_mut())?;
            }
            self.write_pending()?;
            self.compress()
        };
        with_total(outgoing, left, monitor, || with_parts(&reader, send))?;
        Ok(reader.lock().rested_ns())
    }

    /// Plans the records of a part, and asks the receiver for its contents.
    fn plan(&mut self, part: Part, answers: Option<&AnswerReader<'_>>) -> Result<Batch, SendError> {
        let planned = |(block, content): (u64, Option<SentContent>)| {
            let planned = content.map_or(Planned::Zeros, |content| {
                self.earlier(block, &content).map_or(Planned::Content(content), Planned::Copy)
            });
            (block, planned)
        };
        let mut blocks: Vec<(u64, Planned)> = part.blocks.into_iter().map(planned).collect();
        let asked = match answers.and_then(AnswerReader::fingerprinter) {
            Some(fingerprinter) => self.ask(&blocks, fingerprinter)?,
            None => 0,
        };
        for (_, planned) in &mut blocks {
            if let Planned::Content(sent) = planned {
                forget_what_stays(sent);
            }
        }
        Ok(Batch { blocks, asked })
    }

    /// Asks the receiver for contents. Returns their number.
    fn ask(
        &mut self,
        blocks: &[(u64, Planned)],
        fingerprinter: &Fingerprinter,
    ) -> Result<usize, SendError> {
        let asked = blocks.iter().filter_map(|(block, planned)| match planned {
            Planned::Content(content) => {
                let fingerprint = fingerprinter.of(&content.content);
                Some(Asked { block: *block, fingerprint })
            }
            Planned::Zeros | Planned::Copy(_) => None,
        });
        let asked: Vec<Asked> = asked.collect();
        if !asked.is_empty() {
            self.stream.ask(&asked).map_err(SendError::Output)?;
        }
        Ok(asked.len())
    }

    /// Adds the records of the first batch, without the contents that the receiver has.
    fn add_next(
        &mut self,
        batches: &mut VecDeque<Batch>,
        answers: Option<&mut AnswerReader<'_>>,
    ) -> Result<(), SendError> {
        let Some(Batch { blocks, asked }) = batches.pop_front() else { return Ok(()) };
        let has = match answers {
            Some(answers) if asked > 0 => answers.next(asked).map_err(SendError::NoAnswer)?,
            _ => Vec::new(),
        };
        self.stream.note_known(has.iter().filter(|has| **has).count() as u64);
        let mut has = has.into_iter();
        for (block, planned) in blocks {
            match planned {
                Planned::Zeros => self.add_zeros(block)?,
                Planned::Copy(earlier) => self.add_copy(block, earlier)?,
                Planned::Content(content) => {
                    if has.next() != Some(true) {
                        self.add_content(block, content)?;
                    }
                }
            }
        }
        Ok(())
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
        let SentContent { content, form, .. } = sent;
        if let Some((algorithm, bytes)) = form.filter(is_known) {
            self.write_pending()?;
            let record = Record::Compressed { block, algorithm, bytes: &bytes };
            return self.stream.add(&record).map_err(SendError::Output);
        }
        let is_against = self.level.is_some() && self.outgoing.base().is_some();
        match &mut self.pending {
            Pending::Plain { first, contents }
                if *first + contents.len() as u64 == block
                    && contents.len() * self.block_bytes < RECORD_BYTES =>
            {
                contents.push(content);
            }
            _ => {
                self.write_pending()?;
                self.pending = Pending::Plain { first: block, contents: vec![content] };
            }
        }
        self.places.extend(is_against.then_some(Lbn(block)));
        Ok(())
    }

    /// The block that had this content first; remembers it if it is this one.
    fn earlier(&mut self, block: u64, sent: &SentContent) -> Option<u64> {
        if !sent.is_shared {
            return None;
        }
        let hash = blake3::keyed_hash(self.outgoing.key(), &sent.content);
        self.first_blocks.earlier(*hash.as_bytes().first_chunk()?, block)
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

    /// Writes the record that may still grow, and the frame if it is full.
    fn write_pending(&mut self) -> Result<(), SendError> {
        self.add_pending()?;
        if self.stream.is_full() { self.compress() } else { Ok(()) }
    }

    /// Writes the frame, if it is to be compressed. What the earlier snapshot cannot give is not
    /// compressed against it.
    fn compress(&mut self) -> Result<(), SendError> {
        let Some(level) = self.level else { return Ok(()) };
        let places = std::mem::take(&mut self.places);
        let contents = self.outgoing.earlier_contents(&places).unwrap_or_default();
        let (mut earlier, mut bytes): (Vec<Range<u64>>, Vec<u8>) = (Vec::new(), Vec::new());
        for (place, content) in places.into_iter().zip(contents) {
            let Some(SentContent { content, .. }) = content else { continue };
            match earlier.last_mut() {
                Some(run) if run.end == place.0 => run.end += 1,
                _ => earlier.push(place.0..place.0 + 1),
            }
            bytes.extend_from_slice(&content);
        }
        self.stream.write_compressed((earlier, &bytes), level).map_err(SendError::Output)
    }

    /// Adds the record that may still grow to the frame.
    fn add_pending(&mut self) -> Result<(), SendError> {
        let pending = std::mem::replace(&mut self.pending, Pending::None);
        let record = match &pending {
            Pending::None => return Ok(()),
            Pending::Zeros { first, count } => Record::Zeros { first: *first, count: *count },
            Pending::Plain { first, contents } => {
                return self.stream.add_plain(*first, contents).map_err(SendError::Output);
            }
            Pending::Copies { first, count, from } => {
                Record::Copies { first: *first, count: *count, from: *from }
            }
        };
        self.stream.add(&record).map_err(SendError::Output)
    }
}

/// Forgets the content itself where its compressed form is sent.
fn forget_what_stays(sent: &mut SentContent) {
    if sent.form.as_ref().is_some_and(is_known) {
        sent.content = Vec::new();
    }
}

fn is_known((algorithm, _): &(u8, Vec<u8>)) -> bool {
    [Compression::Lz4, Compression::Zstd(1)].iter().any(|known| known.algorithm() == *algorithm)
}
