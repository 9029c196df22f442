//! Pools whose contents are compressed and share blocks.

use crate::common::simulated::Simulation;
use crate::common::stored::copies_of;
use crate::common::{COMPRESSIONS, flush, open, options, read, write};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_format::{
    Compression, DedupMode, PACKED_MAGIC, PACKED_TABLE_BYTES, Policy, SLOT_HEAD_BYTES,
};
use gemelo_volume::{Pool, PoolOptions, ScrubOptions, Tuning, VolumeError, repair_outlook};

/// Makes a content of which this share in eighths does not compress.
fn content(id: u64, bytes: usize, eighths: usize) -> Vec<u8> {
    let mut random = Random::new(id);
    let noise = bytes * eighths / 8;
    let mut content: Vec<u8> = (0..noise).map(|_| random.next_u64() as u8).collect();
    content.resize(bytes, id as u8);
    content
}

fn packed(compression: Compression, block_bytes: u32, blocks: u64) -> PoolOptions {
    let capacity_bytes = blocks * u64::from(block_bytes);
    PoolOptions {
        compression: Some(compression),
        block_bytes,
        capacity_bytes,
        journal_bytes: Some(1 << 20),
        ..options(blocks)
    }
}

/// The write buffer holds everything until a flush.
fn tuning() -> Tuning {
    Tuning { write_buffer_bytes: 64 << 20, ..crate::common::tuning() }
}

fn checked(simulation: &Simulation) -> CheckReport {
    let options = CheckOptions { data: true };
    check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap()
}

/// Makes a pool with a volume "a" of `contents` contents. Returns the blocks that they take.
fn fill(simulation: &Simulation, options: &PoolOptions, contents: u64, eighths: usize) -> u64 {
    let [used, _] = filled(simulation, options, contents, eighths);
    used
}

/// Does the same as [`fill`], and returns the bytes that were packed as well.
fn filled(
    simulation: &Simulation,
    options: &PoolOptions,
    contents: u64,
    eighths: usize,
) -> [u64; 2] {
    Pool::format(&simulation.disks(), options).unwrap();
    let bytes = u64::from(options.block_bytes);
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", contents * bytes, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    for first in (0..contents).step_by(16) {
        let ids = first..contents.min(first + 16);
        let run: Vec<u8> = ids.flat_map(|id| content(id + 1, bytes as usize, eighths)).collect();
        write(&volume, first * bytes, &run).unwrap();
    }
    flush(&volume).unwrap();
    let stat = pool.stat().unwrap();
    assert_eq!(stat.physical_blocks, contents);
    assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
    pool.close().unwrap();
    [stat.used_blocks, stat.activity.packed_bytes]
}

#[test]
fn half_compressible_contents_take_little_more_than_half_the_space() {
    for compression in [Compression::Lz4, Compression::Zstd(3)] {
        for (block_bytes, most) in [(512, 61), (4096, 55), (65536, 53)] {
            let simulation = Simulation::new(1);
            let options = packed(compression, block_bytes, 300);
            let [used, packed_bytes] = filled(&simulation, &options, 200, 4);
            assert!(used <= 2 * most, "{compression:?}, {block_bytes} bytes: {used} blocks");
            let report = checked(&simulation);
            assert!(report.is_clean(), "{:?}", report.problems);
            assert_eq!(report.used_blocks, used, "the checker counts the same");
            let bytes = u64::from(block_bytes);
            let space = report.space.unwrap();
            assert_eq!(space.logical_bytes, 200 * bytes);
            assert_eq!(space.deduplicated_bytes, 200 * bytes);
            assert_eq!(space.compressed_bytes, packed_bytes, "each byte that was packed is there");
            assert_eq!(space.used_bytes(), used * bytes);
            // Each block has a table, and the last ones are not full.
            let unused = space.unused_bytes - used * PACKED_TABLE_BYTES as u64;
            assert!(unused < 10 * bytes, "{block_bytes} bytes: {unused} bytes are unused");
        }
    }
}

#[test]
fn contents_that_do_not_compress_take_their_own_blocks() {
    let simulation = Simulation::new(1);
    assert_eq!(fill(&simulation, &packed(Compression::Lz4, 4096, 300), 200, 8), 200);
    assert!(checked(&simulation).is_clean());
}

#[test]
fn everything_is_read_in_parts_after_a_reopening_and_a_removal_frees_all_of_it() {
    for (seed, policy) in Policy::ALL.into_iter().enumerate() {
        let simulation = Simulation::new(seed as u64);
        let compression = COMPRESSIONS[seed % COMPRESSIONS.len()];
        let options = PoolOptions { policy, ..packed(compression, 4096, 300) };
        let used = fill(&simulation, &options, 200, 3);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let volume = pool.volume("a").unwrap();
        assert_eq!(pool.stat().unwrap().used_blocks, used, "after a reopening");
        for id in 0..200u64 {
            let right = content(id + 1, 4096, 3);
            assert!(read(&volume, id * 4096, 4096).unwrap() == right, "content {id}");
            assert!(read(&volume, id * 4096 + 1000, 700).unwrap() == right[1000..1700]);
        }
        drop(volume);
        pool.remove_volume("a").unwrap();
        pool.gc(None, &Silent, &StopFlag::new()).unwrap();
        let stat = pool.stat().unwrap();
        assert_eq!((stat.physical_blocks, stat.used_blocks), (0, 0));
        assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
        pool.close().unwrap();
        assert!(checked(&simulation).is_clean());
    }
}

#[test]
fn a_flipped_byte_loses_one_content_and_writing_it_again_heals_it() {
    let simulation = Simulation::new(7);
    let used = fill(&simulation, &packed(Compression::Lz4, 4096, 300), 40, 4);
    assert!(used < 30);
    let [mut data, metadata] = simulation.images();
    // The middle of the compressed bytes of the first content that is found.
    let noise = content(5, 4096, 4);
    let at = data.windows(64).position(|bytes| bytes == &noise[1000..1064]).unwrap();
    data[at] ^= 1;
    let damaged = Simulation::of_images(8, [data, metadata]);
    let report = checked(&damaged);
    assert_eq!((report.damaged_blocks.len(), report.lost_blocks), (1, 0), "{report:?}");
    assert!(report.problems[0].what.contains("block 4 of 'a'"), "{:?}", report.problems);
    let find = |pool: &Pool| {
        for id in 0..40u64 {
            let found = read(&pool.volume("a").unwrap(), id * 4096, 4096);
            assert_eq!(found.is_err(), id == 4, "content {id}");
        }
    };
    // The checksum of the form finds it where that of the content is not compared.
    let unverified = Tuning { verify_reads: false, ..tuning() };
    let images = damaged.images();
    for tuning in [unverified, tuning()] {
        let damaged = Simulation::of_images(8, images.clone());
        let pool = open(&damaged.disks(), tuning).unwrap();
        find(&pool);
        let volume = pool.volume("a").unwrap();
        assert!(read(&volume, 4 * 4096 + 100, 100).is_err(), "a part of it is as damaged");
        write(&volume, 4 * 4096, &noise).unwrap();
        assert!(read(&volume, 4 * 4096, 4096).unwrap() == noise);
        flush(&volume).unwrap();
        drop(volume);
        pool.close().unwrap();
        let report = checked(&damaged);
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

#[test]
fn all_find_a_content_damaged_or_none_whichever_bit_of_its_head_has_flipped() {
    let simulation = Simulation::new(7);
    fill(&simulation, &packed(Compression::Lz4, 512, 300), 40, 4);
    let [first, ..] = copies_of(&simulation, &content(5, 512, 4))[..] else { panic!("is stored") };
    let head = first.at - 1 - SLOT_HEAD_BYTES;
    let mut harmless = 0;
    for bit in 0..8 * SLOT_HEAD_BYTES {
        let [mut data, metadata] = simulation.images();
        data[head + bit / 8] ^= 1 << (bit % 8);
        let flipped = Simulation::of_images(8, [data, metadata]);
        let report = checked(&flipped);
        let pool = open(&flipped.disks(), tuning()).unwrap();
        let found = read(&pool.volume("a").unwrap(), 4 * 512, 512);
        assert_eq!(found.is_ok(), report.is_clean(), "bit {bit}: {:?}", report.problems);
        harmless += u32::from(found.is_ok_and(|found| found == content(5, 512, 4)));
        drop(pool);
        let outlook = repair_outlook(&flipped.disks(), true, &Silent, &StopFlag::new()).unwrap();
        assert_eq!(outlook.roll_back.costs.is_empty(), report.is_clean(), "bit {bit}");
        let unverified = Tuning { verify_reads: false, ..tuning() };
        let pool = open(&flipped.disks(), unverified).unwrap();
        let scrubbed = pool.scrub(ScrubOptions::default(), &Silent, &StopFlag::new()).unwrap();
        assert_eq!(scrubbed.is_clean(), report.is_clean(), "bit {bit}: {:?}", scrubbed.problems);
        let volume = pool.volume("a").unwrap();
        assert_eq!(read(&volume, 4 * 512 + 100, 8).is_ok(), report.is_clean(), "bit {bit}");
        assert_eq!(write(&volume, 4 * 512 + 100, &[9; 8]).is_ok(), report.is_clean(), "bit {bit}");
    }
    assert!(harmless >= 32, "those of the checksum of the form: {harmless}");
}

#[test]
fn a_pool_is_full_only_when_it_has_no_room_and_removing_always_works() {
    let simulation = Simulation::new(9);
    let options = packed(Compression::Lz4, 4096, 60);
    Pool::format(&simulation.disks(), &options).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", 400 * 4096, DedupMode::Off).unwrap();
    let volume = pool.volume("a").unwrap();
    let mut written = 0;
    while write(&volume, written * 4096, &content(written + 1, 4096, 4)).is_ok() {
        written += 1;
        // A flush would seal the open block.
        assert!(written < 200, "it is full at some time");
    }
    assert!(written > 90, "{written} contents of half a block were written to 50 blocks");
    flush(&volume).unwrap();
    // The cleaner had 8 blocks. Moves that gain nothing waste two of them at most.
    assert!(pool.stat().unwrap().free_blocks >= 6, "the room of the cleaner");
    for id in 0..written {
        assert!(read(&volume, id * 4096, 4096).unwrap() == content(id + 1, 4096, 4));
    }
    drop(volume);
    pool.remove_volume("a").unwrap();
    pool.create_volume("b", 400 * 4096, DedupMode::Off).unwrap();
    let volume = pool.volume("b").unwrap();
    write(&volume, 0, &content(1, 4096, 8)).unwrap();
    drop(volume);
    pool.close().unwrap();
    assert!(checked(&simulation).is_clean());
}

/// A life of a pool with blocks of any size: contents of every kind and in every mode, parts of
/// blocks, the finder, a snapshot, another compression, a removal and an opening.
#[test]
fn blocks_of_every_size_are_written_found_stored_again_and_read() {
    const CONTENTS: u64 = 48;
    for (number, block_bytes) in (0..).zip((9..=16).map(|bits| 1u32 << bits)) {
        for (turn, mode) in
            [DedupMode::Off, DedupMode::Inline, DedupMode::Offline].into_iter().enumerate()
        {
            let policy = Policy::ALL[(number + turn) % Policy::ALL.len()];
            let what = format!("{block_bytes} bytes, {mode:?}, {policy:?}");
            let simulation = Simulation::new(number as u64);
            let options = PoolOptions { policy, ..packed(Compression::Lz4, block_bytes, 300) };
            Pool::format(&simulation.disks(), &options).unwrap();
            let bytes = block_bytes as usize;
            let at = |lbn: u64| lbn * u64::from(block_bytes);
            // Each content is there twice, some of them shrink, and some do not.
            let of_lbn =
                |lbn: u64| content(1 + lbn % CONTENTS, bytes, (lbn % CONTENTS % 9) as usize);
            let mut expected: Vec<Vec<u8>> = (0..2 * CONTENTS).map(of_lbn).collect();
            let pool = open(&simulation.disks(), tuning()).unwrap();
            pool.create_volume("a", at(2 * CONTENTS), mode).unwrap();
            let volume = pool.volume("a").unwrap();
            write(&volume, 0, &expected.concat()).unwrap();
            flush(&volume).unwrap();
            pool.find(&Silent, &StopFlag::new()).unwrap();
            let stored = if mode == DedupMode::Off { 2 * CONTENTS } else { CONTENTS };
            assert_eq!(pool.stat().unwrap().physical_blocks, stored, "{what}");
            pool.snapshot_volume("a", "s").unwrap();
            let before = expected.concat();
            // The first part goes over the border of two blocks.
            for lbn in [0, 7, 50] {
                let part = content(1000 + lbn, bytes / 2, 4);
                let offset = bytes * 3 / 4;
                write(&volume, at(lbn) + offset as u64, &part).unwrap();
                let two = [&*expected[lbn as usize], &*expected[lbn as usize + 1]];
                let mut blocks = two.concat();
                blocks[offset..offset + part.len()].copy_from_slice(&part);
                let (one, two) = blocks.split_at(bytes);
                (expected[lbn as usize], expected[lbn as usize + 1]) = (one.into(), two.into());
            }
            let check = |pool: &Pool| {
                let volume = pool.volume("a").unwrap();
                let found = read(&volume, 0, bytes * expected.len()).unwrap();
                assert!(found == expected.concat(), "{what}");
                let part = read(&volume, at(7) + 3, 2 * bytes).unwrap();
                assert!(part == expected.concat()[7 * bytes + 3..][..2 * bytes], "{what}");
            };
            check(&pool);
            let snapshot = pool.volume("s").unwrap();
            assert!(read(&snapshot, 0, before.len()).unwrap() == before, "{what}");
            pool.remove_volume("s").unwrap();
            pool.set_compression("a", Compression::Zstd(3)).unwrap();
            let again = pool.recompress(None, &Silent, &StopFlag::new()).unwrap();
            assert!(again.moved_blocks > 0, "{what}: {again:?}");
            check(&pool);
            assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new(), "{what}");
            drop((volume, snapshot));
            pool.close().unwrap();
            let report = checked(&simulation);
            assert!(report.is_clean(), "{what}: {:?}", report.problems);
            let pool = open(&simulation.disks(), tuning()).unwrap();
            check(&pool);
        }
    }
}

#[test]
fn large_blocks_are_not_compressed() {
    let simulation = Simulation::new(9);
    let refused = Pool::format(&simulation.disks(), &packed(Compression::Lz4, 1 << 17, 60));
    assert!(matches!(refused, Err(VolumeError::BadOption { .. })));
}

/// A block that lost its table has no places any more into which its contents could be written.
#[test]
fn contents_whose_places_are_lost_are_healed_at_others() {
    const CONTENTS: u64 = 12;
    for policy in Policy::ALL {
        let simulation = Simulation::new(11);
        let options = PoolOptions { policy, ..packed(Compression::Lz4, 4096, 300) };
        Pool::format(&simulation.disks(), &options).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let run: Vec<u8> = (1..=CONTENTS).flat_map(|id| content(id, 4096, 4)).collect();
        // The second volume stores the contents once more, and the third one shares the first's.
        for (name, mode) in
            [("a", DedupMode::Inline), ("b", DedupMode::Off), ("c", DedupMode::Inline)]
        {
            pool.create_volume(name, CONTENTS * 4096, mode).unwrap();
            let volume = pool.volume(name).unwrap();
            write(&volume, 0, &run).unwrap();
            flush(&volume).unwrap();
        }
        assert_eq!(pool.stat().unwrap().physical_blocks, 2 * CONTENTS);
        pool.close().unwrap();
        let [mut data, metadata] = simulation.images();
        let first = data.chunks(4096).position(|block| block.starts_with(&PACKED_MAGIC)).unwrap();
        data[first * 4096..][..PACKED_TABLE_BYTES].fill(0);
        let damaged = Simulation::of_images(12, [data, metadata]);
        assert!(!checked(&damaged).is_clean());
        let tuning = Tuning { content_cache_bytes: Some(0), ..tuning() };
        let pool = open(&damaged.disks(), tuning).unwrap();
        let scrub = ScrubOptions { heals: true, max_bytes_per_s: None };
        let report = pool.scrub(scrub, &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean() && report.healed_contents > 0, "{policy:?}: {report:?}");
        for name in ["a", "b", "c"] {
            let volume = pool.volume(name).unwrap();
            assert!(read(&volume, 0, run.len()).unwrap() == run, "{policy:?}: {name}");
        }
        assert_eq!(pool.stat().unwrap().physical_blocks, 2 * CONTENTS, "{policy:?}");
        assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
        pool.close().unwrap();
        let report = checked(&damaged);
        assert!(report.is_sound(), "{policy:?}: {:?}", report.problems);
    }
}
