//! Contents of other members whose data disks are objects.

use crate::foreign::{ForeignContents, ForeignRead};
use crate::homes::Homes;
use gemelo_domain::MemberId;
use gemelo_objects::{ObjectError, Objects, Operation, Request};
use gemelo_store::{BlockStore, ContentRead, PackedReader};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Attempts to read: a read that is repeated changes nothing.
const ATTEMPTS: u32 = 3;
/// Most bytes that are read together.
const BYTES_AT_ONCE: usize = 16 << 20;

/// The data disks of all members, which are divided into blocks as that of a [`BlockStore`].
pub struct ObjectContents {
    /// The store that has the objects.
    pub objects: Arc<dyn Objects>,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of an object, a multiple of the bytes of a block.
    pub object_bytes: u64,
    /// Returns the name of a member's object by its number.
    pub name: fn(MemberId, u64) -> String,
    /// The forms in which the blocks have contents.
    pub homes: Homes,
}

/// Reads of a member whose store compresses.
type PackedReads<'r, 'b> = (PackedReader, Vec<&'r mut ForeignRead<'b>>);

/// A read of contents that lie side by side in one object.
struct Run<'r, 'b> {
    object: String,
    offset: u64,
    reads: Vec<&'r mut ForeignRead<'b>>,
    length: usize,
}

impl ForeignContents for ObjectContents {
    fn read(&self, reads: &mut [ForeignRead<'_>]) {
        let mut plain = Vec::with_capacity(reads.len());
        let mut packed: BTreeMap<MemberId, PackedReads<'_, '_>> = BTreeMap::new();
        for read in reads {
            match self.homes.reader(read.home) {
                Ok(None) => plain.push(read),
                Ok(Some(reader)) => {
                    packed.entry(read.home).or_insert((reader, Vec::new())).1.push(read);
                }
                Err(error) => read.outcome = Err(error),
            }
        }
        self.read_blocks(plain);
        packed.into_iter().for_each(|(home, reads)| self.read_packed(home, reads));
    }
}

impl ObjectContents {
    /// Reads contents of a store that compresses.
    fn read_packed(&self, home: MemberId, (reader, reads): PackedReads<'_, '_>) {
        let parts = reads.into_iter().map(|read| {
            let ForeignRead { pbn, within, buffer, outcome, .. } = read;
            (outcome, ContentRead::new(*pbn, *within, buffer))
        });
        let (outcomes, mut list): (Vec<_>, Vec<_>) = parts.unzip();
        reader.read_by(&mut list, |blocks| {
            let parts = blocks.iter_mut().map(|block| {
                let ContentRead { pbn, within, buffer, outcome, .. } = block;
                let (pbn, within) = (*pbn, *within);
                (outcome, ForeignRead { home, pbn, within, buffer, outcome: Ok(()) })
            });
            let (outcomes, mut list): (Vec<_>, Vec<_>) = parts.unzip();
            self.read_blocks(list.iter_mut().collect());
            outcomes.into_iter().zip(list).for_each(|(to, read)| *to = read.outcome);
        });
        outcomes.into_iter().zip(list).for_each(|(to, read)| *to = read.outcome);
    }

    /// Reads blocks, or parts of them.
    fn read_blocks(&self, reads: Vec<&mut ForeignRead<'_>>) {
        let mut runs = self.runs(reads);
        while !runs.is_empty() {
            let mut bytes = 0;
            let fits = |run: &&Run<'_, '_>| {
                bytes += run.length;
                bytes <= BYTES_AT_ONCE
            };
            let count = runs.iter().take_while(fits).count().max(1);
            let rest = runs.split_off(count);
            self.read_runs(std::mem::replace(&mut runs, rest));
        }
    }

    /// Returns the object of a read, and its first byte there.
    fn place(&self, read: &ForeignRead<'_>) -> (u64, u64) {
        let at = BlockStore::offset_of(read.pbn, self.block_bytes) + read.within as u64;
        (at / self.object_bytes, at % self.object_bytes)
    }

    /// Groups reads that follow one another.
    fn runs<'r, 'b>(&self, reads: Vec<&'r mut ForeignRead<'b>>) -> Vec<Run<'r, 'b>> {
        let mut runs: Vec<Run<'r, 'b>> = Vec::new();
        // The member, the object and the byte at which the last run ends.
        let mut end = None;
        for read in reads {
            let ((number, offset), length) = (self.place(read), read.buffer.len());
            let home = read.home;
            if let Some(run) = runs.last_mut().filter(|_| end == Some((home, number, offset))) {
                run.length += length;
                run.reads.push(read);
            } else {
                let object = (self.name)(home, number);
                runs.push(Run { object, offset, reads: vec![read], length });
            }
            end = Some((home, number, offset + length as u64));
        }
        runs
    }

    fn read_runs(&self, mut runs: Vec<Run<'_, '_>>) {
        let mut outcomes: Vec<io::Result<()>> = Vec::new();
        for attempt in 1..=ATTEMPTS {
            let mut requests: Vec<Request<'_>> = runs.iter_mut().map(read_of).collect();
            self.objects.execute(&mut requests);
            let is_unknown = |request: &Request<'_>| {
                request.outcome.as_ref().is_err_and(ObjectError::is_unknown)
            };
            if attempt == ATTEMPTS || !requests.iter().any(is_unknown) {
                outcomes = requests.into_iter().map(outcome_of).collect();
                break;
            }
        }
        assert_eq!(runs.len(), outcomes.len(), "each run has an outcome");
        for (run, outcome) in runs.into_iter().zip(outcomes) {
            for read in run.reads {
                read.outcome = match &outcome {
                    Ok(()) => Ok(()),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
            }
        }
    }
}

fn read_of<'a>(run: &'a mut Run<'_, '_>) -> Request<'a> {
    let parts = run.reads.iter_mut().map(|read| &mut *read.buffer).collect();
    Request::new(&run.object, Operation::read_parts(run.offset, parts))
}

/// A content that was published is there as a whole.
fn outcome_of(request: Request<'_>) -> io::Result<()> {
    match (request.outcome, request.operation) {
        (Ok(()), Operation::ReadParts { parts, filled, .. })
            if filled == parts.iter().map(|part| part.len()).sum::<usize>() =>
        {
            Ok(())
        }
        (Ok(()), _) => {
            let why = "the object of another member ends before the content";
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, why))
        }
        (Err(ObjectError::NotFound { .. }), _) => Err(io::ErrorKind::NotFound.into()),
        (Err(error @ ObjectError::TimedOut { .. }), _) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, error))
        }
        (Err(error), _) => Err(io::Error::other(error)),
    }
}
