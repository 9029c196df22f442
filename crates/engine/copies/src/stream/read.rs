//! Reading a stream. Its bytes come from outside: each frame is checked before it is parsed, and
//! memory is taken for bytes that have arrived.

use super::bytes::Bytes;
use super::compressed::CompressedFrame;
use super::head::BadHead;
use super::record::{Position, Record, Sums};
use super::{
    ASK, ASKED_BYTES, CHECK_BYTES, COMPRESSED, END, FRAME_HEAD_BYTES, GIVEN_UP, HASH_BYTES, Head,
    MAGIC, MAX_PAYLOAD_BYTES, RECORDS, Running, StreamError, VERSION,
};
use crate::exchange::Asked;
use gemelo_format::Fingerprint;
use std::io::{self, Read};

/// The longest description of a snapshot in bytes.
const MAX_DESCRIPTION_BYTES: usize = 32 << 10;
/// The longest reason that a message shows, in characters.
const MAX_REASON_CHARS: usize = 1000;

/// A frame of a stream.
#[derive(Debug)]
pub enum Frame<'a> {
    /// Records.
    Records(Vec<Record<'a>>),
    /// Contents that the sender asks for.
    Ask(Vec<Asked>),
    /// Records, which [`StreamReader::decompress`] gives.
    Compressed(CompressedFrame),
}

/// Reads a stream, frame by frame.
pub struct StreamReader<'r> {
    input: &'r mut dyn Read,
    running: Running,
    /// First byte of the part that is read.
    part_from: u64,
    payload: Vec<u8>,
    at: Position,
    /// The block after the last one that was asked for.
    asked_next: u64,
    /// Blocks of the earlier snapshot that a compressed frame may name; [`None`] if none may come.
    earlier_blocks: Option<u64>,
    sums: Sums,
}

impl<'r> StreamReader<'r> {
    /// Reads the head of a stream.
    ///
    /// # Errors
    /// Fails if the input fails, is no stream, or needs what this program does not know.
    pub fn begin(input: &'r mut dyn Read) -> Result<(Head, Self), StreamError> {
        let at = Position { next: 0, block_bytes: 0, blocks: 0 };
        let (running, payload, sums) = (Running::default(), Vec::new(), Sums::default());
        let (asked_next, earlier_blocks) = (0, None);
        let part_from = 0;
        let mut stream =
            Self { input, running, part_from, payload, at, asked_next, earlier_blocks, sums };
        let not_a_stream = |error| match error {
            StreamError::CutOff { .. } => StreamError::NotAStream,
            error => error,
        };
        stream.fill(MAGIC.len()).map_err(not_a_stream)?;
        if stream.payload != MAGIC {
            return Err(StreamError::NotAStream);
        }
        let version = stream.fill_u32()?;
        if version != VERSION {
            return Err(StreamError::Unknown { what: format!("version {version}") });
        }
        let length = stream.fill_u32()? as usize;
        if length > MAX_DESCRIPTION_BYTES {
            return Err(stream.damaged("its head is too long"));
        }
        stream.fill(length)?;
        let check = stream.running.check();
        let description = std::mem::take(&mut stream.payload);
        stream.verify(check)?;
        let head = Head::decode(&description).map_err(|error| match error {
            BadHead::Malformed => stream.damaged("its head makes no sense"),
            BadHead::Feature(what) => StreamError::Unknown { what },
        })?;
        stream.at = Position { next: 0, block_bytes: head.block_bytes, blocks: head.blocks() };
        let earlier_blocks = head.since.map_or(0, |_| head.blocks());
        stream.earlier_blocks = head.has_compressed_frames.then_some(earlier_blocks);
        Ok((head, stream))
    }

    /// Reads the next frame; returns [`None`] after the end of the stream.
    ///
    /// # Errors
    /// Fails if the input fails, or is not what was sent.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, StreamError> {
        self.part_from = self.running.bytes;
        let before = self.running.hash();
        self.fill(FRAME_HEAD_BYTES)?;
        let &[kind, a, b, c, d] = self.payload.as_slice() else {
            return Err(self.damaged("a frame has no head"));
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > MAX_PAYLOAD_BYTES {
            return Err(self.damaged("a frame is too long"));
        }
        self.fill(length)?;
        let payload = std::mem::take(&mut self.payload);
        let check = self.running.check();
        self.verify(check)?;
        self.payload = payload;
        match kind {
            RECORDS => self.records().map(|records| Some(Frame::Records(records))),
            ASK => self.asked().map(|asked| Some(Frame::Ask(asked))),
            COMPRESSED if self.earlier_blocks.is_some() => {
                self.compressed().map(|frame| Some(Frame::Compressed(frame)))
            }
            END => self.end(before).map(|()| None),
            GIVEN_UP => {
                let why = String::from_utf8_lossy(&self.payload);
                let why = why.chars().take(MAX_REASON_CHARS).collect::<String>();
                Err(StreamError::GivenUp { why: why.escape_debug().to_string() })
            }
            _ => Err(self.damaged("a frame is of an unknown kind")),
        }
    }

    /// The sums of what was read.
    #[must_use]
    pub const fn sums(&self) -> Sums {
        self.sums
    }

    /// The bytes that were read.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.running.bytes
    }

    /// Notes blocks of which the sender was told that their contents are there.
    pub const fn note_known(&mut self, blocks: u64) {
        self.sums.known += blocks;
    }

    /// The block after the last record.
    #[must_use]
    pub const fn next_block(&self) -> u64 {
        self.at.next
    }

    /// Decompresses the records of the frame that was read last. `earlier` are the contents of the
    /// earlier blocks that it names.
    ///
    /// # Errors
    /// Fails if the records do not come out as they were, or make no sense.
    pub fn decompress(
        &mut self,
        frame: &CompressedFrame,
        earlier: &[u8],
    ) -> Result<Vec<Record<'_>>, StreamError> {
        let what =
            "the records of a frame do not come out as they were before they were compressed";
        self.payload = frame.decompress(earlier).ok_or_else(|| self.damaged(what))?;
        self.records()
    }

    fn compressed(&self) -> Result<CompressedFrame, StreamError> {
        let blocks = self.earlier_blocks.unwrap_or(0);
        let frame = CompressedFrame::decode(&self.payload, self.at.block_bytes, blocks);
        frame.ok_or_else(|| self.damaged("a compressed frame makes no sense"))
    }

    fn records(&mut self) -> Result<Vec<Record<'_>>, StreamError> {
        let Self { payload, at, sums, .. } = self;
        let (mut bytes, mut records) = (Bytes::new(payload), Vec::new());
        while !bytes.is_empty() {
            let Some(record) = Record::from(&mut bytes, at) else {
                let what = "a frame has records that make no sense";
                let (from, to) = (self.part_from, self.running.bytes);
                return Err(StreamError::Damaged { from, to, what });
            };
            sums.add(&record, at.block_bytes);
            records.push(record);
        }
        Ok(records)
    }

    fn asked(&mut self) -> Result<Vec<Asked>, StreamError> {
        let most = (ASKED_BYTES / (self.at.block_bytes as usize).max(1)).max(1);
        let (mut bytes, mut asked) = (Bytes::new(&self.payload), Vec::new());
        let mut next = self.asked_next;
        while !bytes.is_empty() {
            let one = bytes.varint().and_then(|gap| {
                let block = next.checked_add(gap).filter(|block| *block < self.at.blocks)?;
                Some(Asked { block, fingerprint: Fingerprint::from_bytes(bytes.array()?) })
            });
            let Some(one) = one.filter(|_| asked.len() < most) else {
                return Err(self.damaged("a frame has questions that make no sense"));
            };
            next = one.block + 1;
            asked.push(one);
        }
        self.asked_next = next;
        Ok(asked)
    }

    fn end(&mut self, hash: [u8; HASH_BYTES]) -> Result<(), StreamError> {
        let mut bytes = Bytes::new(&self.payload);
        let sums = Sums::from(&mut bytes);
        if sums != Some(self.sums) || bytes.array() != Some(hash) || !bytes.is_empty() {
            return Err(self.damaged("the sums at its end are of another stream"));
        }
        self.part_from = self.running.bytes;
        let mut more = [0];
        match self.read_some(&mut more)? {
            0 => Ok(()),
            _ => Err(StreamError::Damaged {
                from: self.part_from,
                to: self.part_from + 1,
                what: "there is more after its end",
            }),
        }
    }

    fn damaged(&self, what: &'static str) -> StreamError {
        StreamError::Damaged { from: self.part_from, to: self.running.bytes, what }
    }

    /// Reads the checksum of a part.
    fn verify(&mut self, check: [u8; CHECK_BYTES]) -> Result<(), StreamError> {
        self.fill(CHECK_BYTES)?;
        if self.payload != check {
            return Err(self.damaged("a frame is not the one that was sent here"));
        }
        Ok(())
    }

    fn fill_u32(&mut self) -> Result<u32, StreamError> {
        self.fill(4)?;
        let bytes = self.payload.first_chunk().copied();
        bytes.map(u32::from_le_bytes).ok_or_else(|| self.damaged("a number is cut off"))
    }

    /// Reads so many bytes into the payload.
    fn fill(&mut self, count: usize) -> Result<(), StreamError> {
        self.payload.clear();
        let mut read = (&mut *self.input).take(count as u64);
        let outcome = read.read_to_end(&mut self.payload);
        let at = self.running.bytes + self.payload.len() as u64;
        outcome.map_err(|source| StreamError::Io { at, source })?;
        if self.payload.len() < count {
            return Err(StreamError::CutOff { at });
        }
        self.running.add(&self.payload);
        Ok(())
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        loop {
            match self.input.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => {
                    let at = self.running.bytes;
                    return other.map_err(|source| StreamError::Io { at, source });
                }
            }
        }
    }
}
