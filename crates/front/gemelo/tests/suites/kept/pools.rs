//! Kept pools: each is opened, read, written, checked and repaired.

use super::journal::{add_later_change, changes_of, cut_store, lose_commit_before_last};
use super::{keeps_anew, kept, pack, unpack};
use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, noise, refused};
use gemelo_device::{Durability, Operation, Request};
use gemelo_disk::{Disk, DiskAccess, FileDisk};
use gemelo_format::{Change, Features, Superblock, read_superblock};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const BLOCK: usize = 4096;
/// Blocks that are written to each volume at first.
const WRITTEN: u64 = 40;

/// Capacity of a pool that becomes smaller.
const SHRUNK: &str = "2m";
const SHRUNK_BLOCKS: u64 = (2 << 20) / BLOCK as u64;

/// The time after which the first contents of a pool that becomes smaller are moved.
const SOME_MOVED: Duration = Duration::from_millis(400);

/// The last event of a kept pool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    /// Its server was killed, so that its last changes are in the journal.
    Killed,
    /// It became smaller, so that its contents and the copy of block 0 were moved.
    Shrunk,
    /// Its server was killed while it became smaller.
    KilledAtShrink,
    /// Its server was killed right after the commit that made it smaller.
    KilledAfterCut,
    /// Its server was killed, and a program that is not written yet added a change to the journal.
    LaterChange,
}

/// A kept pool.
struct Kept {
    name: &'static str,
    /// Options of its creation.
    options: &'static str,
    end: End,
    unknown: Features,
}

impl Kept {
    const fn becomes_smaller(&self) -> bool {
        matches!(self.end, End::Shrunk | End::KilledAtShrink)
    }

    /// Returns whether the copy of block 0 was moved.
    const fn has_moved_copy(&self) -> bool {
        matches!(self.end, End::Shrunk | End::KilledAfterCut)
    }

    /// Returns whether this program may change the pool.
    fn is_writable(&self) -> bool {
        self.end != End::LaterChange
            && self.unknown.incompatible == 0
            && self.unknown.read_compatible == 0
    }
}

const fn pool(name: &'static str, options: &'static str) -> Kept {
    Kept { name, options, end: End::Closed, unknown: Features::NONE }
}

const POOLS: [Kept; 19] = [
    pool("plain", ""),
    pool("inram", "--policy inram"),
    pool("dtb", "--policy dtb"),
    pool("cbt", "--policy cbt"),
    pool("packed-lz4", "--compression lz4"),
    pool("packed-zstd", "--compression zstd:3"),
    pool("wide", "--max-capacity 17t"),
    pool("xxh3", "--fingerprint xxh3+compare"),
    pool("blocks-512", "--block-size 512"),
    Kept { end: End::Killed, ..pool("crashed", "") },
    Kept { end: End::Killed, ..pool("crashed-packed", "--compression lz4") },
    Kept { end: End::Shrunk, ..pool("shrunk", "") },
    Kept { end: End::KilledAtShrink, ..pool("shrinking", "") },
    Kept { end: End::KilledAtShrink, ..pool("shrinking-packed", "--compression lz4") },
    Kept { end: End::KilledAfterCut, ..pool("cut", "") },
    Kept { end: End::LaterChange, ..pool("later-change", "") },
    Kept {
        unknown: Features { incompatible: 1 << 40, ..Features::NONE },
        ..pool("incompatible", "")
    },
    Kept {
        unknown: Features { read_compatible: 1 << 40, ..Features::NONE },
        ..pool("read-compatible", "")
    },
    Kept { unknown: Features { compatible: 1 << 40, ..Features::NONE }, ..pool("compatible", "") },
];

/// The bytes of blocks with these contents: one in eight is noise.
fn blocks(ids: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let content = |id: u64| match id % 8 {
        0 => noise(id, BLOCK),
        _ => format!("content {id:08}").repeat(BLOCK / 16).into_bytes(),
    };
    ids.into_iter().flat_map(content).collect()
}

fn written() -> Vec<u8> {
    blocks((0..WRITTEN).map(|lbn| 1 + lbn % 30))
}

/// The volumes of each pool with their contents.
fn expected(kept: &Kept) -> Vec<(&'static str, Vec<u8>)> {
    let mut changed = written();
    if matches!(kept.end, End::Killed | End::KilledAtShrink | End::LaterChange) {
        changed[..BLOCK].copy_from_slice(&blocks([200]));
    }
    vec![
        ("clone", written()),
        ("inline", changed),
        ("off", written()),
        ("offline", blocks(100..110)),
        ("snapshot", written()),
    ]
}

fn import(pool: &TestPool, name: &str, mode: &str, content: &[u8]) {
    let source = pool.file("source");
    fs::write(&source, content).unwrap();
    done(&["volume", "import", &source, &pool.volume(name), "--dedup", mode]);
}

fn make(kept: &Kept, archive: &Path) {
    let pool = TestPool { directory: tempfile::tempdir().unwrap() };
    let path = pool.path();
    let capacity = if kept.becomes_smaller() || kept.has_moved_copy() { "4m" } else { "16m" };
    let mut words = vec!["pool", "create", &path, "--capacity", capacity];
    words.extend(kept.options.split_whitespace());
    done(&words);
    if kept.becomes_smaller() {
        // What comes after it lies beyond the new end.
        let before = if kept.options.is_empty() { 1000..1700 } else { 1000..5800 };
        import(&pool, "before", "off", &blocks(before.filter(|id| id % 8 != 0)));
    }
    import(&pool, "inline", "inline", &written());
    import(&pool, "off", "off", &written());
    import(&pool, "offline", "offline", &blocks(100..110));
    done(&["volume", "snapshot", &pool.volume("inline"), "snapshot"]);
    done(&["volume", "clone", &pool.volume("inline"), "clone"]);
    if kept.becomes_smaller() {
        done(&["volume", "rm", &pool.volume("before"), "--force"]);
    }
    match kept.end {
        End::Closed => {}
        End::Shrunk => drop(done(&["pool", "shrink", &path, "--capacity", SHRUNK])),
        End::Killed | End::KilledAtShrink => write_and_kill(&pool, kept),
        End::KilledAfterCut => cut_store(&path, SHRUNK_BLOCKS),
        End::LaterChange => {
            write_and_kill(&pool, kept);
            add_later_change(&path);
        }
    }
    set_features(&path, kept.unknown);
    let _ = fs::remove_file(format!("{path}/control"));
    pack(Path::new(&path), archive);
}

/// Serves a pool, which may become smaller meanwhile, writes to it, and kills the server.
fn write_and_kill(pool: &TestPool, kept: &Kept) {
    let served = pool.serve(&[]);
    let mut shrink = Command::new(env!("CARGO_BIN_EXE_gemelo"));
    shrink.args(["pool", "shrink", &pool.path(), "--capacity", SHRUNK, "--rate", "16k"]);
    let shrink = kept.becomes_smaller().then(|| shrink.spawn().unwrap());
    let stream = UnixStream::connect(pool.file("socket")).unwrap();
    let device = gemelo_nbd::client::connect_device(stream, "inline").unwrap();
    let mut ids = vec![201, 202, 203, 200];
    if kept.becomes_smaller() {
        // All contents are moved at once. The moves are in the journal until the next checkpoint.
        std::thread::sleep(SOME_MOVED);
        ids = vec![200];
    }
    for id in ids {
        let data = &blocks([id]);
        let operation = Operation::Write { offset: 0, data, durability: Durability::Immediate };
        let mut batch = [Request { operation, outcome: Ok(()) }];
        device.execute(&mut batch);
        assert!(batch.into_iter().all(|request| request.outcome.is_ok()));
    }
    served.kill();
    shrink.map(|mut shrink| shrink.wait().unwrap());
}

/// Sets features that this program does not know, if there are some.
fn set_features(pool: &str, unknown: Features) {
    if unknown == Features::NONE {
        return;
    }
    let disk = disk_of(pool, "metadata");
    let superblock = read_superblock(&disk, &mut Vec::new()).unwrap();
    let page = Superblock { unknown, ..superblock }.encode();
    Superblock::offsets().iter().for_each(|at| disk.write_at(*at, page.as_slice()).unwrap());
}

/// One of the disks of a pool.
pub(super) fn disk_of(pool: &str, name: &str) -> FileDisk {
    FileDisk::open(&Path::new(pool).join(name), DiskAccess::Exclusive).unwrap()
}

fn superblock_of(pool: &str) -> Superblock {
    read_superblock(&disk_of(pool, "metadata"), &mut Vec::new()).unwrap()
}

/// Unpacks a kept pool.
fn unpacked(name: &str) -> TestPool {
    let pool = TestPool { directory: tempfile::tempdir().unwrap() };
    fs::create_dir(pool.path()).unwrap();
    unpack(&archive(name), Path::new(&pool.path()));
    pool
}

fn archive(name: &str) -> PathBuf {
    kept(&format!("pools/{name}.tar.zst"))
}

fn expect_contents(pool: &TestPool, kept: &Kept) {
    let out = pool.file("out");
    for (volume, mut content) in expected(kept) {
        let _ = fs::remove_file(&out);
        done_or_warned(&["volume", "export", &pool.volume(volume), &out]);
        let found = fs::read(&out).unwrap();
        content.resize(found.len(), 0);
        assert!(found == content, "{}: {volume}", kept.name);
    }
}

/// Runs a command that may warn of a feature.
fn done_or_warned(words: &[&str]) -> String {
    let Ran { status, out, err } = gemelo(words);
    assert_eq!(status, 0, "{words:?}: {err}");
    out
}

#[test]
fn kept_pools_are_opened_read_written_checked_and_repaired() {
    for kept in &POOLS {
        if keeps_anew() && !archive(kept.name).exists() {
            make(kept, &archive(kept.name));
        }
        if kept.is_writable() {
            use_it(kept);
        }
    }
}

fn use_it(kept: &Kept) {
    let name = kept.name;
    let pool = unpacked(name);
    let path = pool.path();
    let changes = changes_of(&path);
    let has = |is_it: fn(&Change) -> bool| changes.iter().any(is_it);
    let has_moves = has(|change| matches!(change, Change::Move { .. }));
    assert_eq!(has_moves, kept.end == End::KilledAtShrink, "{name}");
    let is_cut = has(|change| matches!(change, Change::Cut { .. }));
    assert_eq!(is_cut, kept.end == End::KilledAfterCut, "{name}");
    let last = superblock_of(&path).header_copy.unwrap().number();
    assert_eq!(last + 1 == SHRUNK_BLOCKS, kept.has_moved_copy(), "{name}");
    pool.assert_clean();
    let stat = done(&["pool", "stat", &path, "--json", "-"]);
    let stat: serde_json::Value = serde_json::from_str(&stat).unwrap();
    assert_eq!(stat["result"]["damage"], serde_json::json!([]), "{name}");
    expect_contents(&pool, kept);
    import(&pool, "new", "inline", &blocks(300..320));
    done(&["volume", "rm", &pool.volume("off"), "--force"]);
    done(&["volume", "snapshot", &pool.volume("clone"), "later"]);
    pool.assert_clean();
    // The first copy of the head is lost.
    let metadata = format!("{path}/metadata");
    let mut bytes = fs::read(&metadata).unwrap();
    bytes[..4 * 4096].fill(0);
    fs::write(&metadata, bytes).unwrap();
    let Ran { status, out, err } = gemelo(&["pool", "check", &path, "--repair", "--force"]);
    assert_eq!(status, 0, "{name}: {out}{err}");
    pool.assert_clean();
    let out = pool.file("again");
    done(&["volume", "export", &pool.volume("new"), &out]);
    assert!(fs::read(out).unwrap() == blocks(300..320), "{name}");
}

#[test]
fn a_kept_pool_with_an_unknown_feature_is_refused_or_only_read() {
    for kept in POOLS.iter().filter(|kept| kept.unknown != Features::NONE) {
        let pool = unpacked(kept.name);
        let path = pool.path();
        let said = gemelo(&["volume", "create", &pool.volume("new"), "--size", "1m"]);
        let looked = gemelo(&["pool", "check", &path, "--data"]);
        if kept.unknown.incompatible != 0 {
            assert!(said.err.contains("the incompatible feature 40"), "{}", said.err);
            assert_eq!(looked.status, 2, "{}", looked.err);
        } else if kept.unknown.read_compatible != 0 {
            assert!(said.err.contains("the read-compatible feature 40"), "{}", said.err);
            assert_eq!(looked.status, 0, "{}", looked.err);
            expect_contents(&pool, kept);
        } else {
            assert_eq!((said.status, looked.status), (0, 0), "{}{}", said.err, looked.err);
        }
    }
}

/// A repair must not give up what it does not know, nor what comes before it.
#[test]
fn a_kept_pool_with_a_change_of_a_later_program_is_refused_by_its_number_and_left_as_it_is() {
    let kept = POOLS.iter().find(|kept| kept.end == End::LaterChange).unwrap();
    for loses_commit in [false, true] {
        let pool = unpacked(kept.name);
        let path = pool.path();
        if loses_commit {
            lose_commit_before_last(&path);
        }
        let disks = || ["data", "metadata"].map(|disk| fs::read(format!("{path}/{disk}")).unwrap());
        let (before, volume, out) = (disks(), pool.volume("off"), pool.file("out"));
        let repair = ["pool", "check", &path, "--repair", "--force", "--lost-commit"];
        let commands: [&[&str]; 7] = [
            &["pool", "stat", &path],
            &["pool", "check", &path, "--data"],
            &["volume", "export", &volume, &out, "--salvage"],
            &["volume", "rm", &volume, "--force"],
            &["serve", &path, "--listen", &format!("unix:{}", pool.file("socket"))],
            &[&repair[..], &["skip"]].concat(),
            &[&repair[..], &["roll-back"]].concat(),
        ];
        for words in commands {
            let said = refused(words);
            let named = "has the change 255 in its journal, which this version of gemelo does not";
            assert!(said.contains(named), "{words:?}: {said}");
        }
        assert!(disks() == before, "nothing is written");
    }
}

/// What is kept stays small, and every archive is used.
#[test]
fn kept_pools_are_small_and_all_used() {
    let names: Vec<String> = fs::read_dir(kept("pools"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), POOLS.len(), "{names:?}");
    let bytes: u64 = names.iter().map(|name| fs::metadata(archive_of(name)).unwrap().len()).sum();
    assert!(bytes < 1 << 20, "{bytes} bytes");
}

fn archive_of(file: &str) -> PathBuf {
    kept("pools").join(file)
}
