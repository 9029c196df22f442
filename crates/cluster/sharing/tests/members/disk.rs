//! The disks of a member on the simulated store, and the contents of other members there.

use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead};
use gemelo_domain::MemberId;
use gemelo_format::{PackedPlace, Pbn, SLOT_HEAD_BYTES, SlotHead, slot_offset};
use gemelo_member::{MemberDisk, OBJECT_BYTES, superblock_of};
use gemelo_objects::Objects;
use gemelo_objects::simulated::Client;
use gemelo_sharing::{ForeignContents, ForeignRead, Homes, ObjectContents};
use gemelo_store::block_number;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A disk of a member, whose failed reads are counted.
pub(crate) struct Counted {
    pub(crate) below: Arc<dyn Disk>,
    pub(crate) failed_reads: Arc<AtomicU64>,
}

impl DiskLayer for Counted {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        self.below.read_many(reads);
        let failed = reads.iter().filter(|read| read.outcome.is_err()).count();
        self.failed_reads.fetch_add(failed as u64, Ordering::Relaxed);
    }
}

/// Returns the object of a block of a member, and its place there. The number of a PBN is that of a
/// block in a store that does not compress.
fn place_of(member: MemberId, pbn: Pbn) -> (String, u64) {
    let offset = pbn.number() * crate::BLOCK as u64;
    (MemberDisk::Data.object(member, offset / OBJECT_BYTES), offset % OBJECT_BYTES)
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
        let objects: Arc<dyn Objects> = Arc::new(client.clone());
        let index = Arc::clone(&objects);
        let contents = ObjectContents {
            objects,
            block_bytes: crate::BLOCK as u32,
            object_bytes: OBJECT_BYTES,
            name: |member, number| MemberDisk::Data.object(member, number),
            homes: Homes::new(move |member| superblock_of(&index, member)),
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
