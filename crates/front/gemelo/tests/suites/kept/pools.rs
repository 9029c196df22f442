//! Kept pools: each is opened, read, written, checked and repaired.

use super::{keeps_anew, kept, pack, unpack};
use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, noise};
use gemelo_device::{Durability, Operation, Request};
use gemelo_disk::{Disk, DiskAccess, FileDisk};
use gemelo_format::{Features, Superblock, read_superblock};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

const BLOCK: usize = 4096;
/// Blocks that are written to each volume at first.
const WRITTEN: u64 = 40;

/// A kept pool.
struct Kept {
    name: &'static str,
    /// Options of its creation.
    options: &'static str,
    /// Whether its server was killed, so that its last changes are in the journal.
    is_crashed: bool,
    unknown: Features,
}

const fn pool(name: &'static str, options: &'static str) -> Kept {
    Kept { name, options, is_crashed: false, unknown: Features::NONE }
}

const POOLS: [Kept; 14] = [
    pool("plain", ""),
    pool("inram", "--policy inram"),
    pool("dtb", "--policy dtb"),
    pool("cbt", "--policy cbt"),
    pool("packed-lz4", "--compression lz4"),
    pool("packed-zstd", "--compression zstd:3"),
    pool("wide", "--max-capacity 17t"),
    pool("xxh3", "--fingerprint xxh3+compare"),
    pool("blocks-512", "--block-size 512"),
    Kept { is_crashed: true, ..pool("crashed", "") },
    Kept { is_crashed: true, ..pool("crashed-packed", "--compression lz4") },
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
    if kept.is_crashed {
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
    let mut words = vec!["pool", "create", &path, "--capacity", "16m"];
    words.extend(kept.options.split_whitespace());
    done(&words);
    import(&pool, "inline", "inline", &written());
    import(&pool, "off", "off", &written());
    import(&pool, "offline", "offline", &blocks(100..110));
    done(&["volume", "snapshot", &pool.volume("inline"), "snapshot"]);
    done(&["volume", "clone", &pool.volume("inline"), "clone"]);
    if kept.is_crashed {
        let served = pool.serve(&[]);
        let stream = UnixStream::connect(pool.file("socket")).unwrap();
        let device = gemelo_nbd::client::connect_device(stream, "inline").unwrap();
        let data = &blocks([200]);
        let operation = Operation::Write { offset: 0, data, durability: Durability::Immediate };
        let mut batch = [Request { operation, outcome: Ok(()) }];
        device.execute(&mut batch);
        assert!(batch.into_iter().all(|request| request.outcome.is_ok()));
        served.kill();
    }
    set_features(&path, kept.unknown);
    let _ = fs::remove_file(format!("{path}/control"));
    pack(Path::new(&path), archive);
}

fn set_features(pool: &str, unknown: Features) {
    let path = PathBuf::from(pool).join("metadata");
    let disk = FileDisk::open(&path, DiskAccess::Exclusive).unwrap();
    let superblock = read_superblock(&disk, &mut Vec::new()).unwrap();
    let page = Superblock { unknown, ..superblock }.encode();
    Superblock::offsets().iter().for_each(|at| disk.write_at(*at, page.as_slice()).unwrap());
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
        if kept.unknown.incompatible == 0 && kept.unknown.read_compatible == 0 {
            use_it(kept);
        }
    }
}

fn use_it(kept: &Kept) {
    let name = kept.name;
    let pool = unpacked(name);
    let path = pool.path();
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
