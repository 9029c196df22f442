//! A disk whose bytes are objects of a store.
//!
//! Byte b lies in the object `<disk>.<member>.<b / 4 MiB>`. A missing object, and the part of an
//! object beyond its end, read as zeros. The flush marks of the metadata alone lie in the member's
//! object. The store acknowledges what is durable, so a sync has nothing to send. A change whose
//! fate is unknown ends the lease of the process: the store may apply it later, over a newer one,
//! so nothing is written afterwards.

use crate::cut::{MARKS_OBJECT, OBJECT_BYTES, Requested, cut};
use crate::flight::Flight;
use crate::lease_state::LeaseState;
use crate::marks::marking;
use crate::transfer::{Target, read_pieces, write_pieces};
use gemelo_base::short_read;
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_domain::{DomainError, MemberId, MemberValues, member_object};
use gemelo_objects::{ObjectError, Objects, Operation, Request};
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most operations of one list that are in flight together.
pub(crate) const LIST_OPERATIONS: usize = 256;

/// One of the two disks of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberDisk {
    /// The disk with the contents.
    Data,
    /// The disk with the metadata.
    Metadata,
}

impl MemberDisk {
    /// Both disks.
    pub const ALL: [Self; 2] = [Self::Data, Self::Metadata];

    /// Returns the name of the object that holds the bytes from `number` times 4 MiB on.
    #[must_use]
    pub fn object(self, member: MemberId, number: u64) -> String {
        format!("{}{number}", self.prefix(member))
    }

    /// Returns the beginning of the names of all objects of the disk.
    #[must_use]
    pub fn prefix(self, member: MemberId) -> String {
        let name = match self {
            Self::Data => "data",
            Self::Metadata => "meta",
        };
        format!("{name}.{member}.")
    }

    /// Returns the key of the disk's length among the values of the member.
    pub(crate) const fn length_key(self) -> &'static str {
        match self {
            Self::Data => "data.length",
            Self::Metadata => "meta.length",
        }
    }

    /// Returns the most bytes that a disk has: 2^32 blocks of 1 MiB, or both copies of 2^32 pages.
    const fn most_bytes(self) -> u64 {
        match self {
            Self::Data => 1 << 52,
            Self::Metadata => 1 << 45,
        }
    }

    /// Returns the names of the objects that a disk of this length has.
    pub(crate) fn objects(self, member: MemberId, length: u64) -> impl Iterator<Item = String> {
        (0..length.div_ceil(OBJECT_BYTES)).map(move |number| self.object(member, number))
    }

    /// Reads the length of the disk. A new member has none.
    pub(crate) fn recorded_length(
        self,
        index: &dyn Objects,
        member: MemberId,
    ) -> Result<Option<u64>, DomainError> {
        let key = self.length_key();
        let Some(length) = MemberValues::new(index, member).get(key)? else { return Ok(None) };
        let length = length.try_into().map(u64::from_le_bytes);
        let length = length.ok().filter(|length| *length <= self.most_bytes());
        length.map(Some).ok_or_else(|| DomainError::Damaged {
            object: member_object(member),
            key: key.to_owned(),
            reason: "it is no length of a disk",
        })
    }
}

/// The state that both disks of an open member share.
pub(crate) struct DiskContext {
    /// The store that has keys.
    pub(crate) index: Arc<dyn Objects>,
    pub(crate) member: MemberId,
    pub(crate) lease_state: Arc<LeaseState>,
    pub(crate) flight: Flight,
    pub(crate) read_only: bool,
    /// The tenure of this process, with which new objects of metadata are marked.
    pub(crate) epoch: u64,
}

impl DiskContext {
    pub(crate) fn check_writable(&self) -> io::Result<()> {
        if self.read_only {
            let why = "the member is opened for reading only";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        self.lease_state.check().map_err(io::Error::other)
    }
}

/// A disk of a member.
pub struct ObjectDisk {
    which: MemberDisk,
    objects: Arc<dyn Objects>,
    context: Arc<DiskContext>,
    length: AtomicU64,
    /// Changes of the length follow one another.
    resizing: Mutex<()>,
}

impl ObjectDisk {
    /// Opens a disk. That of a new member has the length 0.
    pub(crate) fn open(
        which: MemberDisk,
        objects: Arc<dyn Objects>,
        context: Arc<DiskContext>,
    ) -> Result<Self, DomainError> {
        let length = which.recorded_length(&*context.index, context.member)?;
        let (length, resizing) = (AtomicU64::new(length.unwrap_or(0)), Mutex::new(()));
        Ok(Self { which, objects, context, length, resizing })
    }

    /// Asks each object of the disk for its length, so that no earlier change of a client that was
    /// fenced takes effect on it afterwards.
    pub(crate) fn settle(&self) -> Result<(), ObjectError> {
        let count = self.length().div_ceil(OBJECT_BYTES);
        // A late flush mark names a commit that was durable, so it does no harm.
        let mut numbers = (0..count).peekable();
        while numbers.peek().is_some() {
            let some = numbers.by_ref().take(LIST_OPERATIONS);
            let names: Vec<String> = some.map(|number| self.object(number)).collect();
            let stat = |name| Request::new(name, Operation::Stat { length: 0 });
            let mut requests: Vec<_> = names.iter().map(String::as_str).map(stat).collect();
            self.objects.execute(&mut requests);
            for request in requests {
                match request.outcome {
                    Ok(()) | Err(ObjectError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    fn object(&self, number: u64) -> String {
        match number {
            MARKS_OBJECT => member_object(self.context.member),
            _ => self.which.object(self.context.member, number),
        }
    }

    /// Records a length in the store. The caller holds the lock.
    fn record_length(&self, length: u64) -> io::Result<()> {
        let key = self.which.length_key();
        let values = MemberValues::new(&*self.context.index, self.context.member);
        match values.set(&[(key, &length.to_le_bytes())]) {
            Ok(()) => {
                self.length.store(length, Ordering::Release);
                Ok(())
            }
            Err(DomainError::Object(error)) => {
                self.context.lease_state.judge("write the length of", key, &error);
                Err(to_io(&error))
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Creates the objects of metadata up to a length, before the length is recorded: one that is
    /// missing later was lost. Objects of contents come and go.
    fn create_objects(&self, length: u64) -> io::Result<()> {
        if self.which == MemberDisk::Data {
            return Ok(());
        }
        let marked = marking(self.context.epoch);
        let (first, end) = (self.length() / OBJECT_BYTES, length.div_ceil(OBJECT_BYTES));
        let names: Vec<String> = (first..end).map(|number| self.object(number)).collect();
        for names in names.chunks(LIST_OPERATIONS) {
            let create = |name| Request::new(name, Operation::Update(&marked));
            let mut requests: Vec<_> = names.iter().map(String::as_str).map(create).collect();
            self.context.check_writable()?;
            self.objects.execute(&mut requests);
            let created = self.context.lease_state.judge_all(requests, |_| false);
            created.map_err(|error| to_io(&error))?;
        }
        Ok(())
    }

    /// Makes the disk as long as a write needs. Its length then ends with an object, so that it is
    /// recorded seldom.
    fn extend(&self, end: u64) -> io::Result<()> {
        let _resizing = self.resizing.lock();
        if end <= self.length() {
            return Ok(());
        }
        let _in_flight = self.context.flight.enter(0);
        self.context.check_writable()?;
        let length = end.next_multiple_of(OBJECT_BYTES);
        assert!(length >= end, "a disk is long enough for what is written");
        self.create_objects(length)?;
        self.record_length(length)
    }

    /// Makes a range read as zeros: removes whole objects, and overwrites parts by zeros.
    fn clear(&self, range: Range<u64>) -> io::Result<()> {
        let mut begin = range.start;
        while begin < range.end {
            let last = (begin / OBJECT_BYTES + LIST_OPERATIONS as u64) * OBJECT_BYTES;
            let end = range.end.min(last);
            let length = usize::try_from(end - begin).unwrap_or(usize::MAX);
            let pieces = cut(self.which, [Requested { request: 0, offset: begin, length }]);
            let names: Vec<String> = pieces.iter().map(|piece| self.object(piece.object)).collect();
            let mut requests = Vec::with_capacity(pieces.len());
            for (piece, name) in pieces.iter().zip(&names) {
                let length = piece.length as u64;
                requests.push(Request::new(
                    name,
                    match length {
                        // An object of metadata is missing only if it was lost.
                        OBJECT_BYTES if self.which == MemberDisk::Metadata => {
                            Operation::Truncate { length: 0 }
                        }
                        OBJECT_BYTES => Operation::Remove,
                        _ => Operation::Zero { offset: piece.offset, length },
                    },
                ));
            }
            let _in_flight = self.context.flight.enter(0);
            self.context.check_writable()?;
            self.objects.execute(&mut requests);
            let is_done = |error: &ObjectError| matches!(error, ObjectError::NotFound { .. });
            let cleared = self.context.lease_state.judge_all(requests, is_done);
            cleared.map_err(|error| to_io(&error))?;
            begin = end;
        }
        Ok(())
    }
}

impl Disk for ObjectDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.context.check_writable()?;
        let _resizing = self.resizing.lock();
        let present = self.length();
        // Bytes that are cut off must not come back when the disk grows again.
        if length < present {
            self.clear(length..present.next_multiple_of(OBJECT_BYTES))?;
        }
        let _in_flight = self.context.flight.enter(0);
        self.context.check_writable()?;
        self.create_objects(length)?;
        self.record_length(length)
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        let length = self.length();
        for read in reads.iter_mut() {
            let is_beyond = read.offset.saturating_add(read.buffer.len() as u64) > length;
            read.outcome = match is_beyond {
                true => Err(short_read(length, read.offset, read.buffer.len())),
                false => Ok(()),
            };
        }
        let target = Target { disk: self.which, objects: &*self.objects, context: &self.context };
        read_pieces(target, |number| self.object(number), reads);
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        let ends = writes.iter().map(|write| write.offset.saturating_add(write.bytes.len() as u64));
        let end = ends.max().unwrap_or(0);
        if end > self.length()
            && let Err(error) = self.extend(end)
        {
            for write in writes {
                write.outcome = Err(io::Error::new(error.kind(), error.to_string()));
            }
            return;
        }
        let target = Target { disk: self.which, objects: &*self.objects, context: &self.context };
        write_pieces(target, |number| self.object(number), writes);
    }

    /// A flush of more contents than a part of this is written beside them. One more operation
    /// takes as much of the storage servers' time as writing this.
    fn bytes_per_sync(&self) -> u64 {
        64 << 10
    }

    fn writes_durably(&self) -> bool {
        true
    }

    fn sync(&self) -> io::Result<()> {
        // A write returns when it is durable. After the end of the lease another process may
        // have changed the disk, and a write may not be there.
        self.context.check_writable()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.saturating_add(length).min(self.length());
        self.clear(offset.min(end)..end)
    }
}

/// Returns the error of the system that corresponds to an error of the store.
pub(crate) fn to_io(error: &ObjectError) -> io::Error {
    io::Error::new(kind_of(error), text_of(error))
}

/// Returns the kind of the system's error that corresponds to an error of the store.
pub(crate) const fn kind_of(error: &ObjectError) -> io::ErrorKind {
    match error {
        ObjectError::Full { .. } => io::ErrorKind::StorageFull,
        ObjectError::TimedOut { .. } => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::Other,
    }
}

/// Returns an error with its cause in one line.
pub(crate) fn text_of(error: &ObjectError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
