//! A request of a guest: a chain of descriptors becomes a command with places in guest memory.
//!
//! A chain that breaks the protocol (an address outside of the guest's memory, no place for the
//! status) is an error, and stops the device. A request that the device cannot execute gets a
//! status.

use crate::chain::{self, Chain, GuestRange};
use crate::config::{ID_BYTES, MAX_RANGE_SECTORS, MAX_RANGES, SECTOR_BYTES};
use gemelo_device::{Claim, Geometry};
use std::io;
use thiserror::Error;
use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

/// Length in bytes of a header: type, a number that is not used, and the first sector.
const HEADER_BYTES: usize = 16;

/// Length in bytes of a range to discard or to zero: its first sector, its sectors and flags.
const RANGE_BYTES: usize = 16;

/// The flag of a range of zeroes that may deallocate it.
const MAY_FREE: u32 = 1;

/// Types of requests: virtio 1.2, 5.2.6.
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;

/// A breach of the protocol by a guest.
#[derive(Debug, Error)]
pub(crate) enum Breach {
    #[error("a queue of the guest is invalid: {0}")]
    Queue(virtio_queue::Error),
    #[error("a request of the guest has invalid places in its memory: {0}")]
    Places(GuestMemoryError),
    #[error("a request of the guest has no {0}")]
    Incomplete(&'static str),
    #[error("the memory of the guest cannot be used")]
    Memory(#[from] io::Error),
    #[error("the region for requests in flight is invalid: {0}")]
    InFlight(&'static str),
}

/// The result of a request as the guest learns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    Done = 0,
    Failed = 1,
    Unsupported = 2,
}

/// A range of the device in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

#[derive(Debug)]
pub(crate) enum Command {
    Read(Range, Vec<GuestRange>),
    Write(Range, Vec<GuestRange>),
    Discard(Vec<Range>),
    WriteZeroes {
        ranges: Vec<(Range, bool)>,
    },
    Flush,
    GetId(Vec<GuestRange>),
    /// The request is not executed.
    Refused(Status),
}

#[derive(Debug)]
pub(crate) struct GuestRequest {
    /// The number of the chain's first descriptor, which identifies the request.
    pub(crate) head: u16,
    pub(crate) command: Command,
    status: GuestAddress,
}

impl GuestRequest {
    /// Reads the request that a chain describes. Its descriptors are not looked at again.
    pub(crate) fn parse(
        memory: &GuestMemoryMmap,
        (head, chain): (u16, Chain),
        geometry: &Geometry,
    ) -> Result<Self, Breach> {
        let Chain { mut given, mut wanted } = chain;
        if chain::bytes_of(&given) < HEADER_BYTES as u64 {
            return Err(Breach::Incomplete("header"));
        }
        let mut header = [0; HEADER_BYTES];
        chain::take_front(memory, &mut given, &mut header)?;
        let Some(status) = chain::take_last_byte(&mut wanted) else {
            return Err(Breach::Incomplete("place for its status"));
        };
        let number = |at: usize| little_endian(&header, at);
        let sector = u64::from(number(8)) | u64::from(number(12)) << 32;
        let command = match number(0) {
            READ => match data_range(sector, chain::bytes_of(&wanted), geometry) {
                Some(range) => Command::Read(range, wanted),
                None => Command::Refused(Status::Failed),
            },
            WRITE => match data_range(sector, chain::bytes_of(&given), geometry) {
                Some(range) if !geometry.read_only => Command::Write(range, given),
                _ => Command::Refused(Status::Failed),
            },
            FLUSH => Command::Flush,
            GET_ID if chain::bytes_of(&wanted) >= ID_BYTES as u64 => Command::GetId(wanted),
            kind @ (DISCARD | WRITE_ZEROES) => ranges_of(memory, kind, &mut given, geometry)?,
            _ => Command::Refused(Status::Unsupported),
        };
        Ok(Self { head, command, status })
    }

    /// Returns the number of bytes of data that the request moves.
    pub(crate) fn data_bytes(&self) -> usize {
        match &self.command {
            // The length of a request has 32 bits.
            Command::Read(range, _) | Command::Write(range, _) => range.length as usize,
            _ => 0,
        }
    }

    /// Returns the range of a read.
    pub(crate) fn read_range(&self) -> Option<std::ops::Range<u64>> {
        match &self.command {
            Command::Read(range, _) => Some(range.bytes()),
            _ => None,
        }
    }

    /// Returns whether the request changes the device.
    pub(crate) fn changes(&self) -> bool {
        matches!(
            self.command,
            Command::Write(..) | Command::Discard(_) | Command::WriteZeroes { .. }
        )
    }

    /// Returns what the request reads and changes.
    pub(crate) fn claims(&self, is_durable: bool) -> impl Iterator<Item = Claim> {
        let change = move |range: &Range| Claim::Change { range: range.bytes(), is_durable };
        let (mut one, mut discarded, mut zeroed) = (None, [].as_slice(), [].as_slice());
        match &self.command {
            Command::Read(range, _) => one = Some(Claim::Read(range.bytes())),
            Command::Write(range, _) => one = Some(change(range)),
            Command::Discard(ranges) => discarded = ranges,
            Command::WriteZeroes { ranges } => zeroed = ranges,
            Command::Flush => one = Some(Claim::Flush),
            Command::GetId(_) | Command::Refused(_) => {}
        }
        let discarded = discarded.iter().map(change);
        one.into_iter().chain(discarded).chain(zeroed.iter().map(move |(range, _)| change(range)))
    }

    /// Writes the status. Returns the number of bytes that the guest's memory got.
    pub(crate) fn answer(&self, memory: &GuestMemoryMmap, status: Status) -> Result<u32, Breach> {
        memory.write_obj(status as u8, self.status).map_err(Breach::Places)?;
        let data_bytes = match (&self.command, status) {
            (Command::Read(..), Status::Done) => self.data_bytes(),
            (Command::GetId(_), Status::Done) => ID_BYTES,
            _ => 0,
        };
        Ok(u32::try_from(data_bytes + 1).unwrap_or(u32::MAX))
    }
}

impl Range {
    fn bytes(&self) -> std::ops::Range<u64> {
        self.offset..self.offset.saturating_add(self.length)
    }
}

fn little_endian(bytes: &[u8], at: usize) -> u32 {
    let number = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    assert!(number.is_some(), "a number is within its bytes");
    u32::from_le_bytes(number.unwrap_or_default())
}

/// Returns the range in bytes, if it is on the device.
fn range_of(sector: u64, length: u64, geometry: &Geometry) -> Option<Range> {
    let offset = sector.checked_mul(SECTOR_BYTES)?;
    let end = offset.checked_add(length)?;
    let is_on_device = length > 0 && length.is_multiple_of(SECTOR_BYTES);
    (is_on_device && end <= geometry.size_bytes).then_some(Range { offset, length })
}

/// Returns the range of a read or a write, if it is on the device and not too long.
fn data_range(sector: u64, bytes: u64, geometry: &Geometry) -> Option<Range> {
    let range = range_of(sector, bytes, geometry)?;
    (range.length <= u64::from(geometry.maximum_request_bytes)).then_some(range)
}

/// Reads the ranges of a request that discards or zeroes.
fn ranges_of(
    memory: &GuestMemoryMmap,
    kind: u32,
    given: &mut Vec<GuestRange>,
    geometry: &Geometry,
) -> Result<Command, Breach> {
    let bytes = chain::bytes_of(given);
    let count = bytes / RANGE_BYTES as u64;
    let is_whole = bytes.is_multiple_of(RANGE_BYTES as u64);
    if !is_whole || count == 0 || count > u64::from(MAX_RANGES) || geometry.read_only {
        return Ok(Command::Refused(Status::Failed));
    }
    let mut ranges = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let mut bytes = [0; RANGE_BYTES];
        chain::take_front(memory, given, &mut bytes)?;
        let number = |at: usize| little_endian(&bytes, at);
        let (sectors, flags) = (number(8), number(12));
        if flags & !MAY_FREE != 0 || (kind == DISCARD && flags != 0) {
            return Ok(Command::Refused(Status::Unsupported));
        }
        let sector = u64::from(number(0)) | u64::from(number(4)) << 32;
        match range_of(sector, u64::from(sectors) * SECTOR_BYTES, geometry) {
            Some(range) if sectors <= MAX_RANGE_SECTORS => {
                ranges.push((range, flags & MAY_FREE != 0));
            }
            _ => return Ok(Command::Refused(Status::Failed)),
        }
    }
    Ok(match kind {
        DISCARD => Command::Discard(ranges.into_iter().map(|(range, _)| range).collect()),
        _ => Command::WriteZeroes { ranges },
    })
}
