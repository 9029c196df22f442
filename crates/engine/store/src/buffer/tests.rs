//! Tests of the write buffer against a map, over a store that can fail.

mod aside;
mod cached;
mod given_up;
mod map;
mod observed;
mod ready;
mod reserved;

use super::*;
use crate::compare_by_reading;
use gemelo_base::locks::{Condvar, Mutex};
use gemelo_base::{ManualClock, random::Random};
use gemelo_format::FormatError;
use std::collections::{BTreeMap, BTreeSet};

const BLOCK: usize = 512;

#[derive(Default)]
struct Below {
    contents: BTreeMap<u64, Vec<u8>>,
    durable: BTreeMap<u64, Vec<u8>>,
    /// PBNs that are being written at this moment.
    writing: BTreeSet<u64>,
    /// Writes of these fail, this often and in this way.
    failing: BTreeMap<u64, (u32, io::ErrorKind)>,
    /// The next write panics.
    panics: bool,
    /// The PBNs of each list of writes.
    lists: Vec<Vec<u64>>,
    /// Writes wait while it is true.
    is_held: bool,
    /// There is no space for these PBNs.
    without_space: BTreeSet<u64>,
    /// Reads of these wait for the medium.
    cold: BTreeSet<u64>,
    /// Calls that reserve space ahead, and the number from which on none is wanted.
    reserved_ahead: u32,
    max_reserved_ahead: u32,
}

/// A store in memory. It checks that no PBN is written twice at once.
#[derive(Default)]
struct TestStore {
    below: Mutex<Below>,
    freed: Condvar,
}

impl TestStore {
    /// Fails writes of a PBN for lack of space.
    fn fail(&self, pbn: u64, times: u32) {
        self.fail_with(pbn, times, io::ErrorKind::StorageFull);
    }

    fn fail_with(&self, pbn: u64, times: u32, kind: io::ErrorKind) {
        self.below.lock().failing.insert(pbn, (times, kind));
    }

    fn hold(&self, is_held: bool) {
        self.below.lock().is_held = is_held;
        self.freed.notify_all();
    }
}

impl StoreSetUp for TestStore {
    fn blocks(&self) -> io::Result<u64> {
        Ok(1 << 20)
    }

    fn enlarge(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_labels(&self) -> Result<(), FormatError> {
        Ok(())
    }

    fn check_labels(&self) -> Result<Vec<String>, FormatError> {
        Ok(Vec::new())
    }

    fn content_of_form(&self, _: Pbn, form: &[u8]) -> Option<Vec<u8>> {
        Some(form.to_vec())
    }

    fn write_forms(&self, _: &[(Pbn, &[u8])]) -> io::Result<Vec<(Pbn, Vec<u8>)>> {
        Ok(Vec::new())
    }
}

impl StoreRoom for TestStore {
    fn reserve(&self, writes: &mut [ContentWrite<'_>]) {
        let below = self.below.lock();
        for write in
            writes.iter_mut().filter(|write| below.without_space.contains(&write.pbn.number()))
        {
            write.outcome = Err(io::Error::from(io::ErrorKind::StorageFull));
        }
    }

    fn wants_reserve_ahead(&self) -> bool {
        let below = self.below.lock();
        below.reserved_ahead < below.max_reserved_ahead
    }

    fn reserve_ahead(&self) {
        self.below.lock().reserved_ahead += 1;
    }

    fn discard(&self, first: Pbn, count: u32) -> io::Result<()> {
        let mut below = self.below.lock();
        for pbn in first.number()..first.number() + u64::from(count) {
            assert!(!below.writing.contains(&pbn), "{pbn} is discarded while it is written");
            below.contents.remove(&pbn);
        }
        Ok(())
    }

    fn min_discard_blocks(&self) -> u32 {
        1
    }

    fn allocated_bytes(&self) -> Option<u64> {
        None
    }
}

impl Store for TestStore {
    fn block_bytes(&self) -> usize {
        BLOCK
    }

    fn read(&self, reads: &mut [ContentRead<'_>]) {
        let below = self.below.lock();
        for read in reads {
            let zeros = vec![0; BLOCK];
            let content = below.contents.get(&read.pbn.number()).unwrap_or(&zeros);
            read.buffer.copy_from_slice(&content[read.within..][..read.buffer.len()]);
        }
    }

    fn read_ready(&self, reads: &mut [ContentRead<'_>]) {
        let cold = self.below.lock().cold.clone();
        for read in reads {
            if cold.contains(&read.pbn.number()) {
                read.outcome = Err(io::Error::from(io::ErrorKind::WouldBlock));
            } else {
                self.read(std::slice::from_mut(read));
            }
        }
    }

    fn lend(&self, _: &[Pbn]) -> Vec<(usize, LentContent)> {
        Vec::new()
    }

    fn write(&self, writes: &mut [ContentWrite<'_>]) {
        let pbns: Vec<u64> = writes.iter().map(|write| write.pbn.number()).collect();
        let mut below = self.below.lock();
        let panics = std::mem::take(&mut below.panics);
        assert!(!panics, "a defect that the test has put in");
        for pbn in &pbns {
            assert!(below.writing.insert(*pbn), "{pbn} is written twice at once");
        }
        below.lists.push(pbns);
        while below.is_held {
            self.freed.wait(&mut below);
        }
        below.unlocked(std::thread::yield_now);
        for write in writes {
            let pbn = write.pbn.number();
            below.writing.remove(&pbn);
            match below.failing.get_mut(&pbn).filter(|(times, _)| *times > 0) {
                Some((times, kind)) => {
                    *times -= 1;
                    write.outcome = Err(io::Error::from(*kind));
                }
                None => drop(below.contents.insert(pbn, write.content.to_vec())),
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut below = self.below.lock();
        below.durable = below.contents.clone();
        Ok(())
    }

    fn read_medium(&self, reads: &mut [ContentRead<'_>]) {
        self.read(reads);
    }

    fn compare(&self, comparisons: &mut [ContentComparison<'_>]) {
        compare_by_reading(self, comparisons);
    }
}

/// Nobody waits to hear of a panic.
fn told() -> ToldOfPanic {
    Arc::new(|_| {})
}

fn buffer(slots: u64, background: bool) -> (Arc<TestStore>, WriteBuffer) {
    buffer_with(slots, slots, background)
}

/// Options of a buffer with this many slots, and a cache with some.
fn options(slots: u64, cached: u64, background: bool) -> BufferOptions {
    let (bytes, cache_bytes) = (slots * BLOCK as u64, cached * BLOCK as u64);
    BufferOptions { bytes, cache_bytes, caches_reads: true, background, threads: 4 }
}

fn buffer_with(slots: u64, cached: u64, background: bool) -> (Arc<TestStore>, WriteBuffer) {
    let (store, options) = (Arc::new(TestStore::default()), options(slots, cached, background));
    let below = Arc::clone(&store) as Arc<dyn Store>;
    let buffer =
        WriteBuffer::new(below, options, Arc::new(ManualClock::new()), None, told()).unwrap();
    (store, buffer)
}

fn pbn(number: u64) -> Pbn {
    Pbn::new(number).unwrap()
}

fn content(id: u64) -> Vec<u8> {
    id.to_le_bytes().repeat(BLOCK / 8)
}

fn write(store: &dyn Store, list: &[(u64, u64)]) -> Vec<bool> {
    let contents: Vec<Vec<u8>> = list.iter().map(|(_, id)| content(*id)).collect();
    let pairs = list.iter().zip(&contents);
    let mut writes: Vec<ContentWrite<'_>> =
        pairs.map(|((number, _), content)| ContentWrite::new(pbn(*number), content)).collect();
    store.write(&mut writes);
    writes.iter().map(|write| write.outcome.is_ok()).collect()
}

/// The ids of the contents, by their last bytes.
fn read(store: &dyn Store, list: &[u64]) -> Vec<u64> {
    let mut buffers = vec![[0u8; 8]; list.len()];
    let pairs = list.iter().zip(&mut buffers);
    let mut reads: Vec<ContentRead<'_>> =
        pairs.map(|(number, buffer)| ContentRead::new(pbn(*number), BLOCK - 8, buffer)).collect();
    store.read(&mut reads);
    assert!(reads.iter().all(|read| read.outcome.is_ok()));
    buffers.into_iter().map(u64::from_le_bytes).collect()
}

/// The ids of the contents, which are read as wholes, so that they go through the cache.
fn read_whole(store: &dyn Store, list: &[u64], is_ready: bool) -> Vec<u64> {
    let mut buffers = vec![vec![0xff; BLOCK]; list.len()];
    let pairs = list.iter().zip(&mut buffers);
    let mut reads: Vec<ContentRead<'_>> =
        pairs.map(|(number, buffer)| ContentRead::new(pbn(*number), 0, buffer)).collect();
    if is_ready {
        store.read_ready(&mut reads);
    } else {
        store.read(&mut reads);
    }
    assert!(reads.iter().all(|read| read.outcome.is_ok()));
    let id = |content: &Vec<u8>| u64::from_le_bytes(*content.first_chunk().unwrap());
    let ids: Vec<u64> = buffers.iter().map(id).collect();
    assert!(ids.iter().zip(buffers).all(|(id, bytes)| content(*id) == bytes), "a torn content");
    ids
}

#[test]
fn a_write_stays_in_memory_until_a_sync_and_leaves_in_runs() {
    let (store, buffer) = buffer(8, false);
    write(&buffer, &[(7, 70), (3, 30), (5, 50), (4, 40)]);
    assert!(store.below.lock().contents.is_empty());
    assert_eq!(read(&buffer, &[3, 9, 7]), [30, 0, 70]);
    assert_eq!(buffer.figures().held_bytes, 4 * BLOCK as u64);
    buffer.sync().unwrap();
    assert_eq!(store.below.lock().lists, [vec![7, 3, 4, 5]]);
    assert_eq!(store.below.lock().durable.len(), 4);
    let figures = buffer.figures();
    assert_eq!((figures.runs, figures.run_bytes), (2, 4 * BLOCK as u64));
    assert_eq!((figures.syncs, figures.held_bytes, figures.waits), (1, 0, 0));
    assert_eq!(figures.capacity_bytes, 8 * BLOCK as u64);
}

#[test]
fn contents_without_space_are_held_up_to_the_whole_memory_and_not_beyond_it() {
    const SLOTS: u64 = 10_000;
    for background in [false, true] {
        let (store, buffer) = buffer_with(SLOTS, 0, background);
        let hold = |contents: u64| {
            let bytes: Vec<Vec<u8>> = (0..contents).map(content).collect();
            let numbered = (1..).map(pbn).zip(bytes.iter().map(Vec::as_slice));
            buffer.hold_unwritten(&numbered.collect::<Vec<_>>())
        };
        assert!(hold(SLOTS + 1).is_err());
        hold(SLOTS).unwrap();
        buffer.sync().unwrap();
        assert_eq!(store.below.lock().durable.len() as u64, SLOTS);
    }
}

#[test]
fn a_full_buffer_makes_a_writer_wait_and_counts_it() {
    for background in [false, true] {
        let (store, buffer) = buffer(3, background);
        let list: Vec<(u64, u64)> = (1..50).map(|number| (number * 2, 5)).collect();
        assert!(write(&buffer, &list).iter().all(|is_ok| *is_ok));
        let figures = buffer.figures();
        assert!(figures.held_bytes <= 3 * BLOCK as u64);
        assert!(background || figures.waits > 0);
        drop(buffer);
        assert_eq!(store.below.lock().contents.len(), 49, "a drop writes out the rest");
    }
}

/// Runs a write that waits for room, then makes room, and fails if the write does not end.
fn write_once_there_is_room(buffer: WriteBuffer, make_room: impl FnOnce(&WriteBuffer)) {
    let buffer = Arc::new(buffer);
    let waiting = Arc::clone(&buffer);
    let writer = std::thread::spawn(move || write(&*waiting, &[(9, 90)]));
    while buffer.shared.lock().starving == 0 {
        std::thread::yield_now();
    }
    make_room(&buffer);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !writer.is_finished() {
        assert!(std::time::Instant::now() < deadline, "the writer still waits");
        std::thread::yield_now();
    }
    assert_eq!(writer.join().unwrap(), [true]);
    assert_eq!(read(&*buffer, &[9]), [90]);
}

#[test]
fn a_writer_gets_the_room_that_the_last_reader_of_a_content_gives_up() {
    for background in [false, true] {
        let (store, buffer) = buffer_with(2, 0, background);
        store.hold(true);
        write(&buffer, &[(1, 10), (2, 20)]);
        let found = buffer.find_held([pbn(1), pbn(2)].into_iter());
        assert_eq!(found.len(), 2);
        store.hold(false);
        // The contents are below now, and the reader alone has their memory.
        buffer.sync().unwrap();
        assert_eq!(buffer.figures().held_bytes, 2 * BLOCK as u64);
        write_once_there_is_room(buffer, |buffer| buffer.put_back(found));
    }
}

#[test]
fn a_writer_without_threads_writes_out_what_another_has_brought_meanwhile() {
    let (store, buffer) = buffer(2, false);
    write(&buffer, &[(1, 10)]);
    buffer.sync().unwrap();
    let Room::Slots(mut slots) = buffer.shared.take_slots(2) else { panic!("there is room") };
    slots.iter_mut().for_each(|slot| fill(slot, &content(70)));
    write_once_there_is_room(buffer, |buffer| {
        let contents = [pbn(5), pbn(7)].into_iter().zip(slots);
        buffer
            .shared
            .insert(contents.map(|(pbn, slot)| (ContentKey { pbn, ticket: None }, slot)), None);
    });
    assert_eq!(store.below.lock().contents[&5], content(70));
}

/// Without a sync the threads write out what is old, and only that.
#[test]
fn a_single_write_is_written_out_in_the_background() {
    let (store, buffer) = buffer(1000, true);
    write(&buffer, &[(1, 1)]);
    while store.below.lock().contents.is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(read(&buffer, &[1]), [1]);
}

/// A content that is set aside stays while others leave. A sync and another one that is set aside
/// have it written.
#[test]
fn a_content_that_is_set_aside_can_be_replaced_until_it_has_to_be_written() {
    let (store, buffer) = buffer(2, true);
    let is_written =
        |number: u64, id: u64| store.below.lock().contents.get(&number) == Some(&content(id));
    let until_written = |number: u64, id: u64| {
        while !is_written(number, id) {
            std::thread::yield_now();
        }
    };
    let set_aside = |number: u64, id: u64| {
        let first = content(id - 1);
        let mut write = ContentWrite::new(pbn(number), &first);
        buffer.write_aside(&mut write);
        write.outcome.unwrap();
        assert!(buffer.replace_aside(pbn(number), &content(id)), "it was written at once");
    };
    set_aside(5, 51);
    for number in [6, 4] {
        write(&buffer, &[(number, 10)]);
        until_written(number, 10);
    }
    assert!(!is_written(5, 51) && buffer.replace_aside(pbn(5), &content(52)));
    assert_eq!(read(&buffer, &[5]), [52]);
    buffer.sync().unwrap();
    assert!(is_written(5, 52) && !buffer.replace_aside(pbn(5), &content(53)));
    set_aside(7, 71);
    set_aside(8, 81);
    until_written(7, 71);
    assert!(!is_written(8, 81));
    let list = [(1, 10), (2, 20), (3, 30)];
    assert_eq!(write(&buffer, &list), [true; 3], "there is room for others");
    assert!(!is_written(8, 81));
    set_aside(9, 91);
    buffer.discard(pbn(9), 1).unwrap();
    drop(buffer);
    assert!(is_written(8, 81) && !is_written(9, 91));
}

#[test]
fn a_rewrite_waits_for_the_write_before_it_and_reads_see_the_newest() {
    let (store, buffer) = buffer(8, true);
    store.hold(true);
    write(&buffer, &[(1, 10)]);
    while store.below.lock().lists.is_empty() {
        std::thread::yield_now();
    }
    write(&buffer, &[(1, 11)]);
    write(&buffer, &[(1, 12)]);
    assert_eq!(read(&buffer, &[1]), [12]);
    store.hold(false);
    buffer.sync().unwrap();
    assert_eq!(store.below.lock().durable[&1], content(12));
    assert_eq!(store.below.lock().lists.len(), 2);
}

#[test]
fn a_sync_waits_for_what_is_being_written() {
    let (store, buffer) = buffer(8, true);
    store.hold(true);
    write(&buffer, &[(1, 1), (5, 5)]);
    std::thread::scope(|scope| {
        let sync = scope.spawn(|| buffer.sync().unwrap());
        while store.below.lock().writing.is_empty() {
            std::thread::yield_now();
        }
        assert!(!sync.is_finished() && store.below.lock().durable.is_empty());
        store.hold(false);
    });
    assert_eq!(store.below.lock().durable.len(), 2);
}

#[test]
fn a_content_that_cannot_be_written_is_read_from_memory_and_fails_syncs_until_it_can() {
    let (store, buffer) = buffer(8, false);
    store.fail(2, 1);
    write(&buffer, &[(1, 10), (2, 20)]);
    buffer.sync().unwrap();
    store.fail(2, 4);
    write(&buffer, &[(2, 21), (3, 30)]);
    assert_eq!(buffer.sync().unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(read(&buffer, &[1, 2, 3]), [10, 21, 30]);
    assert!(store.below.lock().durable[&2] == content(20), "nothing was synced");
    assert_eq!(write(&buffer, &[(4, 40)]), [false], "what waits for space goes first");
    assert_eq!(write(&buffer, &[(2, 22)]), [false], "the fourth failure");
    assert_eq!(read(&buffer, &[2]), [21]);
    assert_eq!(write(&buffer, &[(2, 23), (4, 41)]), [true, true]);
    assert_eq!(read(&buffer, &[2, 4]), [23, 41]);
    buffer.sync().unwrap();
    buffer.sync().unwrap();
    assert_eq!(store.below.lock().durable[&2], content(23));
}

#[test]
fn a_discard_drops_what_is_held() {
    let (store, buffer) = buffer(8, false);
    write(&buffer, &[(1, 1), (2, 2), (3, 3), (4, 4)]);
    store.fail(2, 9);
    assert!(buffer.sync().is_err());
    buffer.discard(pbn(2), 2).unwrap();
    assert_eq!(read(&buffer, &[1, 2, 3, 4]), [1, 0, 0, 4]);
    buffer.sync().unwrap();
    assert_eq!(store.below.lock().durable.len(), 2);
}

#[test]
fn a_comparison_sees_what_is_held() {
    let (_, buffer) = buffer(8, false);
    write(&buffer, &[(1, 1)]);
    buffer.sync().unwrap();
    write(&buffer, &[(2, 2)]);
    let (one, two) = (content(1), content(2));
    let mut list = [(1, &one), (2, &one), (1, &two), (2, &two)]
        .map(|(number, content)| ContentComparison::new(pbn(number), content));
    buffer.compare(&mut list);
    assert_eq!(list.map(|one| one.outcome.unwrap()), [true, false, false, true]);
}
