//! The disks of a member on the simulated store, and the contents of other members there.
//!
//! A write whose answer is lost is sent again after the time in which a copy of it can arrive, so
//! that no copy arrives over a newer write. If that fails several times, the disk is broken, and
//! the process ends. A discarded range reads as bytes that no client wrote.

use gemelo_base::Clock;
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_domain::MemberId;
use gemelo_format::{
    PackedPlace, Pbn, SLOT_HEAD_BYTES, SlotHead, Superblock, read_superblock, slot_offset,
};
use gemelo_objects::simulated::Client;
use gemelo_objects::{ObjectError, Objects, Operation, Request, Update};
use gemelo_sharing::{ForeignContents, ForeignRead, Homes, ObjectContents};
use gemelo_store::block_number;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of an object.
const CHUNK: u64 = 16 << 10;
/// Attempts before a disk is broken.
const ATTEMPTS: u32 = 4;
/// The time after a time-out in which a copy of a call may arrive.
const LATE_NS: u64 = 2 * crate::TIMEOUT_NS;
const LENGTH_KEY: &str = "length";

/// A disk of a member.
pub(crate) struct ObjectDisk {
    client: Client,
    name: String,
    length: AtomicU64,
    is_broken: Arc<AtomicBool>,
    failed_reads: Arc<AtomicU64>,
}

pub(crate) fn data_name(member: MemberId) -> String {
    format!("data.{member}")
}

fn to_io(error: ObjectError) -> io::Error {
    match error.is_unknown() {
        true => io::Error::new(io::ErrorKind::TimedOut, error),
        false => io::Error::other(error),
    }
}

fn chunk_name(disk: &str, number: u64) -> String {
    format!("{disk}.{number}")
}

/// Cuts a range at the borders of objects: each part's object, its offset there, its place.
fn cut(offset: u64, length: usize) -> Vec<(u64, u64, Range<usize>)> {
    let (mut parts, mut done) = (Vec::new(), 0);
    while done < length {
        let at = offset + done as u64;
        let count = ((CHUNK - at % CHUNK) as usize).min(length - done);
        parts.push((at / CHUNK, at % CHUNK, done..done + count));
        done += count;
    }
    parts
}

/// Reads ranges of a disk together; what was never written reads as zeros.
fn read_ranges(
    client: &Client,
    disk: &str,
    ranges: &mut [(u64, &mut [u8])],
) -> Vec<io::Result<()>> {
    let mut outcomes = Vec::new();
    let mut names = Vec::new();
    for (offset, buffer) in ranges.iter() {
        let parts = cut(*offset, buffer.len());
        names.push(parts.iter().map(|(number, ..)| chunk_name(disk, *number)).collect::<Vec<_>>());
    }
    for attempt in 0..ATTEMPTS {
        let mut requests = Vec::new();
        let mut owners = Vec::new();
        for (at, ((offset, buffer), names)) in ranges.iter_mut().zip(&names).enumerate() {
            let mut rest: &mut [u8] = buffer;
            for ((_, within, range), name) in cut(*offset, rest.len()).into_iter().zip(names) {
                let (part, behind) = rest.split_at_mut(range.len());
                rest = behind;
                part.fill(0);
                requests.push(Request::new(name, Operation::read(within, part)));
                owners.push(at);
            }
        }
        client.execute(&mut requests);
        outcomes = (0..names.len()).map(|_| Ok(())).collect();
        let mut is_unknown = false;
        for (request, owner) in requests.into_iter().zip(owners) {
            match request.outcome {
                Ok(()) | Err(ObjectError::NotFound { .. }) => {}
                Err(error) => {
                    is_unknown |= error.is_unknown();
                    outcomes[owner] = Err(to_io(error));
                }
            }
        }
        if !is_unknown || attempt + 1 == ATTEMPTS {
            break;
        }
    }
    outcomes
}

impl ObjectDisk {
    pub(crate) fn open(
        client: &Client,
        name: String,
        (is_broken, failed_reads): (&Arc<AtomicBool>, &Arc<AtomicU64>),
    ) -> Self {
        let keys = [LENGTH_KEY.to_owned()];
        let length = (0..ATTEMPTS).find_map(|_| match client.get_keys(&name, &keys) {
            Ok(values) => values[0].as_deref().map(|bytes| bytes.try_into().unwrap()),
            Err(_) => None,
        });
        let length = AtomicU64::new(length.map_or(0, u64::from_le_bytes));
        Self {
            client: client.clone(),
            name,
            length,
            is_broken: Arc::clone(is_broken),
            failed_reads: Arc::clone(failed_reads),
        }
    }

    /// Sends changes until their outcomes are known.
    fn execute_changes<'a>(&self, make: &dyn Fn() -> Vec<Request<'a>>) -> io::Result<()> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk is broken"));
        }
        for _ in 0..ATTEMPTS {
            let mut requests = make();
            self.client.execute(&mut requests);
            let failed = requests.into_iter().find_map(|request| request.outcome.err());
            match failed {
                None => return Ok(()),
                Some(error) if error.is_unknown() => {
                    let clock = self.client.clock();
                    clock.sleep_until_ns(clock.now_ns() + LATE_NS);
                }
                Some(error) => {
                    self.is_broken.store(true, Ordering::Relaxed);
                    return Err(to_io(error));
                }
            }
        }
        self.is_broken.store(true, Ordering::Relaxed);
        Err(io::Error::from(io::ErrorKind::TimedOut))
    }

    fn write_bytes(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let parts = cut(offset, bytes.len());
        let names: Vec<String> =
            parts.iter().map(|(number, ..)| chunk_name(&self.name, *number)).collect();
        self.execute_changes(&|| {
            let request = |((_, within, range), name): (&(u64, u64, Range<usize>), _)| {
                let bytes = &bytes[range.clone()];
                Request::new(name, Operation::write(*within, bytes))
            };
            parts.iter().zip(names.iter().map(String::as_str)).map(request).collect()
        })
    }
}

impl Disk for ObjectDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length.load(Ordering::Relaxed))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let set = vec![(LENGTH_KEY.into(), length.to_le_bytes().to_vec())];
        let update = Update { set, ..Update::default() };
        self.execute_changes(&|| vec![Request::new(&self.name, Operation::Update(&update))])?;
        self.length.store(length, Ordering::Relaxed);
        Ok(())
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        let length = self.length.load(Ordering::Relaxed);
        let (mut ranges, mut outcomes) = (Vec::new(), Vec::new());
        for read in reads {
            if read.offset + read.buffer.len() as u64 > length {
                read.outcome = Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                continue;
            }
            ranges.push((read.offset, &mut *read.buffer));
            outcomes.push(&mut read.outcome);
        }
        let done = read_ranges(&self.client, &self.name, &mut ranges);
        let failed = done.iter().filter(|outcome| outcome.is_err()).count();
        self.failed_reads.fetch_add(failed as u64, Ordering::Relaxed);
        outcomes.into_iter().zip(done).for_each(|(outcome, done)| *outcome = done);
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        let length = self.length.load(Ordering::Relaxed);
        let end = writes.iter().map(|write| write.offset + write.bytes.len() as u64).max();
        if end > Some(length)
            && let Err(error) = self.set_len(end.unwrap())
        {
            let text = error.to_string();
            writes.iter_mut().for_each(|write| write.outcome = Err(io::Error::other(text.clone())));
            return;
        }
        for run in
            writes.chunk_by_mut(|one, next| one.offset + one.bytes.len() as u64 == next.offset)
        {
            let bytes: Vec<u8> = run.iter().flat_map(|write| write.bytes).copied().collect();
            if let Err(error) = self.write_bytes(run[0].offset, &bytes) {
                let (kind, text) = (error.kind(), error.to_string());
                run.iter_mut()
                    .for_each(|write| write.outcome = Err(io::Error::new(kind, text.clone())));
            }
        }
    }

    fn writes_durably(&self) -> bool {
        true
    }

    fn sync(&self) -> io::Result<()> {
        match self.is_broken.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the disk is broken")),
            false => Ok(()),
        }
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = (offset + length).min(self.length.load(Ordering::Relaxed));
        self.write_bytes(offset, &vec![0xDD; end.saturating_sub(offset) as usize])
    }
}

/// Returns what reads the superblocks of members.
fn superblock_of(client: Client) -> impl Fn(MemberId) -> io::Result<Superblock> + Send + Sync {
    move |member| {
        let counts = (&Arc::default(), &Arc::default());
        let disk = ObjectDisk::open(&client, format!("meta.{member}"), counts);
        read_superblock(&disk, &mut Vec::new()).map_err(|_| io::ErrorKind::TimedOut.into())
    }
}

/// Returns the object of a block of a member, and its place there. The number of a PBN is that of a
/// block in a store that does not compress.
fn place_of(member: MemberId, pbn: Pbn) -> (String, u64) {
    let offset = pbn.number() * crate::BLOCK as u64;
    (chunk_name(&data_name(member), offset / CHUNK), offset % CHUNK)
}

/// Overwrites a block of a member by other bytes, as rot does.
pub(crate) fn damage(client: &Client, member: MemberId, pbn: Pbn) {
    let (name, offset) = place_of(member, pbn);
    client.write(&name, offset, &[0xAB; crate::BLOCK]).unwrap();
}

/// Returns the bytes of a block of a member in the store.
pub(crate) fn raw_block(client: &Client, member: MemberId, pbn: Pbn) -> Vec<u8> {
    let (name, offset) = place_of(member, pbn);
    let mut bytes = vec![0; crate::BLOCK];
    client.read(&name, offset, &mut bytes).unwrap();
    bytes
}

/// Returns a content of a member as the others read it, unless it is found damaged.
pub(crate) fn stored(client: &Client, member: MemberId, pbn: Pbn) -> Option<Vec<u8>> {
    let mut bytes = vec![0; crate::BLOCK];
    let buffer = bytes.as_mut_slice();
    let mut reads = [ForeignRead { home: member, pbn, within: 0, buffer, outcome: Ok(()) }];
    Others::new(client).read(&mut reads);
    let [read] = reads;
    read.outcome.is_ok().then_some(bytes)
}

/// Returns where a content of a member that compresses has its checksum and its first bytes: the
/// block, and the range in it.
pub(crate) fn packed_bytes(client: &Client, member: MemberId, pbn: Pbn) -> (Pbn, Range<u64>) {
    let place = PackedPlace::of(pbn);
    let block = block_number(place.block).unwrap();
    if place.is_whole() {
        return (block, 0..crate::BLOCK as u64);
    }
    let bytes = raw_block(client, member, block);
    let offset = slot_offset(&bytes, place.slot).unwrap();
    let head: [u8; SLOT_HEAD_BYTES] = bytes[offset..offset + SLOT_HEAD_BYTES].try_into().unwrap();
    let end = offset + SLOT_HEAD_BYTES + usize::from(SlotHead::decode(head).length);
    (block, offset as u64 + 4..end.min(crate::BLOCK) as u64)
}

/// Flips bits of a byte of a block of a member.
pub(crate) fn flip_byte(client: &Client, member: MemberId, (pbn, at): (Pbn, u64), bits: u8) {
    let (name, offset) = place_of(member, pbn);
    let mut byte = [0];
    client.read(&name, offset + at, &mut byte).unwrap();
    client.write(&name, offset + at, &[byte[0] ^ bits]).unwrap();
}

/// The contents of other members, counted.
pub(crate) struct Others {
    contents: ObjectContents,
    /// Reads that failed.
    pub(crate) failures: AtomicU64,
    /// Contents read.
    pub(crate) reads: AtomicU64,
    /// Called before each read.
    watch: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Others {
    pub(crate) fn new(client: &Client) -> Self {
        let contents = ObjectContents {
            objects: Arc::new(client.clone()),
            block_bytes: crate::BLOCK as u32,
            object_bytes: CHUNK,
            name: |member, number| chunk_name(&data_name(member), number),
            homes: Homes::new(superblock_of(client.clone())),
        };
        let (failures, reads) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { contents, failures, reads, watch: OnceLock::new() }
    }

    /// Has this called before each read from now on.
    pub(crate) fn watch(&self, call: impl Fn() + Send + Sync + 'static) {
        assert!(self.watch.set(Box::new(call)).is_ok(), "it is watched already");
    }
}

impl ForeignContents for Others {
    fn read(&self, reads: &mut [ForeignRead<'_>]) {
        self.watch.get().iter().for_each(|call| call());
        self.contents.read(reads);
        self.reads.fetch_add(reads.len() as u64, Ordering::Relaxed);
        let failed = reads.iter().filter(|read| read.outcome.is_err()).count();
        self.failures.fetch_add(failed as u64, Ordering::Relaxed);
    }
}
