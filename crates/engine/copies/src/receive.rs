//! Receiving a snapshot.
//!
//! The records of a frame become one batch of requests to the volume that is filled. A copy of an
//! earlier block is read back from that volume, after what precedes it was written.

use crate::exchange::{Answers, Asked};
use crate::giving_way::GivingWay;
use crate::stream::{CompressedFrame, Frame, Head, Record, StreamError, StreamReader, Sums};
use gemelo_base::{Classified, Clock, Monitor, StopFlag, SystemClock, Unit};
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use gemelo_format::{DedupMode, Fingerprint};
use gemelo_store::decompress;
use gemelo_volume::{Incoming, Pool, Volume, VolumeError};
use std::io::{self, Read};
use thiserror::Error;

/// Bytes of earlier blocks that are copied at once.
const COPIED_BYTES: u64 = 1 << 20;
/// Most bytes of contents that are decompressed at once.
const DECOMPRESSED_BYTES: usize = 1 << 20;

/// Bytes of a stream after which what was received is made durable, unless that was done within
/// [`DURABLE_EVERY_NS`]: each time costs a sync, which a fast stream should not wait for often.
const DURABLE_EVERY_BYTES: u64 = 8 << 20;
/// Shortest time between two such syncs.
const DURABLE_EVERY_NS: u64 = 500_000_000;

/// Settings of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Deduplication of a copy that builds on no other one.
    pub mode: DedupMode,
    /// `true` to tell the sender which contents the pool has.
    pub tells: bool,
}

/// The result of a receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The description of the snapshot.
    pub head: Head,
    /// The sums of the stream.
    pub sums: Sums,
    /// Length of the stream in bytes.
    pub stream_bytes: u64,
    /// Time in nanoseconds for which clients of the pool were given way.
    pub rested_ns: u64,
}

/// The reason why nothing was received.
#[derive(Debug, Error, Classified)]
pub enum ReceiveError {
    /// The stream was refused.
    #[kind(source)]
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The stream has a content that cannot be decompressed.
    #[kind(Damaged)]
    #[error("block {block} of the snapshot cannot be decompressed")]
    Content {
        /// The number of the block.
        block: u64,
    },
    /// The pool refused the snapshot, or failed.
    #[kind(source)]
    #[error(transparent)]
    Pool(#[from] VolumeError),
    /// The volume that is filled failed.
    #[kind(source)]
    #[error("cannot write block {block} of the snapshot")]
    Volume {
        /// The number of the block.
        block: u64,
        /// The error of the volume.
        source: DeviceError,
    },
    /// The sender waits for answers, and there is no way back to it.
    #[kind(BadInput)]
    #[error("the stream is a part of a conversation: only 'gemelo volume copy' can have it")]
    NoWayBack,
    /// The sender cannot be answered.
    #[kind(source)]
    #[error("cannot answer the sender")]
    Answer(#[source] io::Error),
    /// The earlier snapshot, against which the stream is compressed, cannot be read.
    #[kind(source)]
    #[error("cannot read block {block} of the snapshot on which this one builds")]
    Earlier {
        /// The number of the block.
        block: u64,
        /// The error of the snapshot.
        source: DeviceError,
    },
    /// The user stopped it.
    #[kind(Failed)]
    #[error("stopped before the end")]
    Interrupted,
}

/// Makes a snapshot `name` of a stream. It is there when this returns, and otherwise the pool is as
/// it was.
///
/// A stream of a conversation needs `answers`, the way back to the sender, who is told when this
/// fails.
///
/// # Errors
/// Fails if the stream is not whole or builds on a snapshot that the pool lacks, if the pool has a
/// volume of this name, or if the pool fails.
pub fn receive(
    pool: &Pool,
    name: &str,
    input: &mut dyn Read,
    mut answers: Option<Answers<'_>>,
    options: ReceiveOptions,
    progress: (&dyn Monitor, &StopFlag),
) -> Result<Received, ReceiveError> {
    let received = receive_answering(pool, name, input, answers.as_mut(), options, progress);
    if let (Err(_), Some(answers)) = (&received, &mut answers) {
        answers.give_up();
    }
    received
}

fn receive_answering(
    pool: &Pool,
    name: &str,
    input: &mut dyn Read,
    mut answers: Option<&mut Answers<'_>>,
    options: ReceiveOptions,
    progress: (&dyn Monitor, &StopFlag),
) -> Result<Received, ReceiveError> {
    let (head, mut stream) = StreamReader::begin(input)?;
    let mut incoming = pool.incoming(name, head.receipt(options.mode))?;
    if head.is_exchange {
        // Fingerprints are of blocks of the pool.
        let tells = options.tells && head.block_bytes == pool.block_bytes();
        let naming = pool.naming().filter(|_| tells);
        let answers = answers.as_mut().ok_or(ReceiveError::NoWayBack)?;
        answers.greet(naming, incoming.received_bytes()).map_err(ReceiveError::Answer)?;
    }
    let filled = fill((pool, &mut incoming), (&head, &mut stream), answers, options, progress);
    let rested_ns = match filled {
        Ok(rested_ns) => rested_ns,
        // A stream that is cut off can be continued. What the pool refuses makes room again.
        Err(error) => {
            let is_cut_off = matches!(error, ReceiveError::Stream(_) | ReceiveError::Interrupted);
            if head.is_exchange && is_cut_off {
                incoming.keep();
            }
            return Err(error);
        }
    };
    let (sums, stream_bytes) = (stream.sums(), stream.bytes());
    incoming.finish()?;
    progress.0.finish();
    Ok(Received { head, sums, stream_bytes, rested_ns })
}

/// Fills a copy, and notes its progress if it can be continued. Returns the time in nanoseconds for
/// which clients were given way.
fn fill(
    (pool, incoming): (&Pool, &mut Incoming),
    (head, stream): (&Head, &mut StreamReader<'_>),
    mut answers: Option<&mut Answers<'_>>,
    options: ReceiveOptions,
    (monitor, stop): (&dyn Monitor, &StopFlag),
) -> Result<u64, ReceiveError> {
    monitor.begin("Receiving", Unit::Bytes, Some(head.size_bytes));
    let mut filler =
        Filler { volume: incoming.volume(), block_bytes: head.block_bytes, contents: Vec::new() };
    let (mut passed, mut durable_at, clock) = (0, (0, None), SystemClock::new());
    let mut pace = GivingWay::new(&clock, pool.traffic());
    let earlier = incoming.earlier();
    while let Some(frame) = stream.next_frame()? {
        let began_ns = pace.now_ns();
        match frame {
            Frame::Records(records) => filler.fill(&records)?,
            Frame::Compressed(frame) => {
                let contents = earlier_contents(earlier.as_ref(), &frame, head.block_bytes)?;
                filler.fill(&stream.decompress(&frame, &contents)?)?;
            }
            Frame::Ask(asked) => {
                let answers = answers.as_mut().filter(|_| head.is_exchange && options.tells);
                let answers = answers.ok_or(ReceiveError::NoWayBack)?;
                let has = filler.take_known(pool, &asked)?;
                stream.note_known(has.iter().filter(|has| **has).count() as u64);
                answers.answer(&has).map_err(ReceiveError::Answer)?;
                pace.rest_after(began_ns, pool.traffic(), stop);
                continue;
            }
        }
        if stop.is_raised() {
            return Err(ReceiveError::Interrupted);
        }
        let next = stream.next_block();
        monitor.advance((next - passed) * u64::from(head.block_bytes));
        passed = next;
        if head.is_exchange {
            let (bytes, now_ns) = (stream.bytes(), clock.now_ns());
            let is_due = |at_ns: u64| now_ns - at_ns >= DURABLE_EVERY_NS;
            let is_durable =
                bytes - durable_at.0 >= DURABLE_EVERY_BYTES && durable_at.1.is_none_or(is_due);
            incoming.note_received(next * u64::from(head.block_bytes), is_durable)?;
            durable_at = if is_durable { (bytes, Some(now_ns)) } else { durable_at };
        }
        pace.rest_after(began_ns, pool.traffic(), stop);
    }
    Ok(pace.rested_ns())
}

/// Reads the contents of the earlier snapshot against which a frame is compressed.
fn earlier_contents(
    earlier: Option<&Volume>,
    frame: &CompressedFrame,
    block_bytes: u32,
) -> Result<Vec<u8>, ReceiveError> {
    let bytes = |blocks: u64| blocks * u64::from(block_bytes);
    let length: u64 = frame.earlier().iter().map(|run| bytes(run.end - run.start)).sum();
    let mut contents = vec![0; length as usize];
    let Some(earlier) = earlier else { return Ok(contents) };
    let (mut batch, mut rest) = (Vec::new(), &mut *contents);
    for run in frame.earlier() {
        let (buffer, after) = rest.split_at_mut(bytes(run.end - run.start) as usize);
        rest = after;
        let operation = Operation::Read { offset: bytes(run.start), buffer };
        batch.push(Request { operation, outcome: Ok(()) });
    }
    earlier.execute(&mut batch);
    let outcomes = batch.into_iter().zip(frame.earlier());
    for (request, run) in outcomes {
        let failed = |source| ReceiveError::Earlier { block: run.start, source };
        request.outcome.map_err(failed)?;
    }
    Ok(contents)
}

const fn is_compressed(record: &Record<'_>) -> bool {
    matches!(record, Record::Compressed { .. })
}

/// Fills a volume.
struct Filler {
    volume: Volume,
    block_bytes: u32,
    /// Contents that were decompressed.
    contents: Vec<u8>,
}

impl Filler {
    fn offset(&self, block: u64) -> u64 {
        block * u64::from(self.block_bytes)
    }

    /// Writes the blocks of a frame. Of its compressed contents, which may be tiny, as many are
    /// decompressed at once as have a bounded length.
    fn fill(&mut self, records: &[Record<'_>]) -> Result<(), ReceiveError> {
        let most = (DECOMPRESSED_BYTES / self.block_bytes as usize).max(1);
        let mut rest = records;
        while !rest.is_empty() {
            let compressed = rest.iter().enumerate().filter(|(_, record)| is_compressed(record));
            let end = compressed.map(|(at, _)| at).nth(most).unwrap_or(rest.len());
            let (some, after) = rest.split_at(end);
            self.fill_some(some)?;
            rest = after;
        }
        Ok(())
    }

    fn fill_some(&mut self, records: &[Record<'_>]) -> Result<(), ReceiveError> {
        self.decompress_all(records)?;
        let mut contents = self.contents.chunks_exact(self.block_bytes as usize);
        let mut batch = Vec::with_capacity(records.len());
        for record in records {
            let operation = match record {
                Record::Zeros { first, count } => Operation::WriteZeroes {
                    offset: self.offset(*first),
                    length: self.offset(*count),
                    may_free: true,
                    durability: Durability::Flushed,
                },
                Record::Plain { first, contents } => Operation::Write {
                    offset: self.offset(*first),
                    data: contents,
                    durability: Durability::Flushed,
                },
                Record::Compressed { block, .. } => {
                    let data = contents.next();
                    assert!(data.is_some(), "each content was decompressed");
                    Operation::Write {
                        offset: self.offset(*block),
                        data: data.unwrap_or_default(),
                        durability: Durability::Flushed,
                    }
                }
                Record::Copies { first, count, from } => {
                    self.execute(&mut batch)?;
                    self.copy(*first, *count, *from)?;
                    continue;
                }
            };
            batch.push(Request { operation, outcome: Ok(()) });
        }
        self.execute(&mut batch)
    }

    /// Writes the contents that the pool has to the blocks that should have them. Returns which.
    fn take_known(&self, pool: &Pool, asked: &[Asked]) -> Result<Vec<bool>, ReceiveError> {
        let wanted: Vec<Fingerprint> = asked.iter().map(|asked| asked.fingerprint).collect();
        let known = pool.known_contents(&wanted)?;
        let durability = Durability::Flushed;
        // The contents are in memory, so it does not matter if another volume loses them now.
        let mut batch = Vec::new();
        for (asked, content) in asked.iter().zip(&known) {
            let Some(data) = content.as_deref() else { continue };
            let operation = Operation::Write { offset: self.offset(asked.block), data, durability };
            batch.push(Request { operation, outcome: Ok(()) });
        }
        self.execute(&mut batch)?;
        Ok(known.iter().map(Option::is_some).collect())
    }

    fn decompress_all(&mut self, records: &[Record<'_>]) -> Result<(), ReceiveError> {
        let block_bytes = self.block_bytes as usize;
        let compressed = || records.iter().filter(|record| is_compressed(record));
        self.contents.resize(compressed().count() * block_bytes, 0);
        let compressed = compressed();
        for (record, content) in compressed.zip(self.contents.chunks_exact_mut(block_bytes)) {
            let Record::Compressed { block, algorithm, bytes } = record else { continue };
            if !decompress(*algorithm, bytes, content) {
                return Err(ReceiveError::Content { block: *block });
            }
        }
        Ok(())
    }

    /// Copies earlier blocks.
    fn copy(&self, first: u64, count: u64, from: u64) -> Result<(), ReceiveError> {
        let at_once = (COPIED_BYTES / u64::from(self.block_bytes)).max(1);
        let mut done = 0;
        let mut buffer = Vec::new();
        while done < count {
            let some = at_once.min(count - done);
            buffer.resize(self.offset(some) as usize, 0);
            let offset = self.offset(from + done);
            let operation = Operation::Read { offset, buffer: &mut buffer };
            self.execute(&mut vec![Request { operation, outcome: Ok(()) }])?;
            let operation = Operation::Write {
                offset: self.offset(first + done),
                data: &buffer,
                durability: Durability::Flushed,
            };
            self.execute(&mut vec![Request { operation, outcome: Ok(()) }])?;
            done += some;
        }
        Ok(())
    }

    fn execute(&self, batch: &mut Vec<Request<'_>>) -> Result<(), ReceiveError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.volume.execute(batch);
        let failed = batch.drain(..).find_map(|request| {
            let offset = match &request.operation {
                Operation::Read { offset, .. }
                | Operation::Write { offset, .. }
                | Operation::WriteZeroes { offset, .. }
                | Operation::Trim { offset, .. } => *offset,
                Operation::Flush => 0,
            };
            request.outcome.err().map(|source| (offset, source))
        });
        match failed {
            None => Ok(()),
            Some((offset, source)) => {
                Err(ReceiveError::Volume { block: offset / u64::from(self.block_bytes), source })
            }
        }
    }
}
