//! Damaged pools that were passed over in silence, or stopped the program.

use crate::common::{Ran, gemelo};
use crate::served::{Served, TestPool, done};
use gemelo_disk::{Disk, DiskAccess, FileDisk};
use gemelo_format::{
    COMMIT_HEADER_BYTES, Change, Checksum, CommitOrder, Fingerprint, Lbn, NewCommit, PAGE_BYTES,
    Pbn, PoolSeed, Root, VolumeId, append_freed, build_commit, find_roots, read_superblock,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The flag of a descriptor that bypasses the page cache, on the machines that tests run on.
const O_DIRECT: u32 = 0o40000;
/// A number of a block that only a pool with wide words can have.
const FAR: u64 = 1 << 33;

fn metadata_of(pool: &TestPool) -> FileDisk {
    let path = PathBuf::from(pool.path()).join("metadata");
    FileDisk::open(&path, DiskAccess::Exclusive).unwrap()
}

/// The commands that read all metadata of an idle pool.
fn readers(pool: &TestPool) -> [Vec<String>; 4] {
    let path = pool.path();
    ["pool stat", "pool check", "volume ls", "pool check --repair"].map(|words| {
        let (first, rest) = words.split_at(words.find(" --").unwrap_or(words.len()));
        let words = first.split(' ').chain([path.as_str()]).chain(rest.split_whitespace());
        words.map(str::to_owned).collect()
    })
}

/// The newest root lies in a place of the root before, where a disk wrote it by mistake, and the
/// power failed before its copy was written. Every command panicked.
#[test]
fn a_root_in_the_place_of_the_other_one_stops_no_command() {
    let pool = TestPool::new(&[]);
    let before = {
        let disk = metadata_of(&pool);
        let mut page = vec![0; PAGE_BYTES];
        disk.read_at(Root::offsets(1)[0], &mut page).unwrap();
        page
    };
    done(&["volume", "create", &pool.volume("v"), "--size", "1m"]);
    {
        let disk = metadata_of(&pool);
        let superblock = read_superblock(&disk, &mut Vec::new()).unwrap();
        let newest = find_roots(&disk, &superblock, PoolSeed::of(&superblock)).unwrap().newest;
        let own = Root::offsets(newest.generation);
        let mut page = vec![0; PAGE_BYTES];
        disk.read_at(own[0], &mut page).unwrap();
        disk.write_at(Root::offsets(newest.generation + 1)[0], &page).unwrap();
        own.iter().for_each(|at| disk.write_at(*at, &before).unwrap());
    }
    for words in readers(&pool) {
        let Ran { status, out, err } = gemelo(&words);
        let is_check = words[1] == "check" && words.len() == 3;
        assert_eq!(status, if is_check { 4 } else { 0 }, "{words:?}: {out}{err}");
        assert!(!words[0].contains("volume") || out.contains('v'), "{out}");
    }
    pool.assert_clean();
}

/// Appends a commit with a right checksum to the journal of an idle pool.
fn append_commit(pool: &TestPool, order: CommitOrder, changes: &[Change]) {
    let disk = metadata_of(pool);
    let superblock = read_superblock(&disk, &mut Vec::new()).unwrap();
    let seed = PoolSeed::of(&superblock);
    let root = find_roots(&disk, &superblock, seed).unwrap().newest;
    let mut commit = vec![0; COMMIT_HEADER_BYTES];
    changes.iter().for_each(|change| change.encode(&mut commit));
    if order == CommitOrder::BesideContents {
        append_freed(&mut commit, &[]);
    }
    let (number, generation) = (root.next_commit, root.generation);
    build_commit(&mut commit, NewCommit { number, generation, order }, seed);
    for piece in superblock.regions().ring(root.journal_offset, commit.len()) {
        for offset in piece.offsets {
            disk.write_at(offset, &commit[piece.bytes.clone()]).unwrap();
        }
    }
}

/// A commit with a right checksum names a block that no pool of this kind can have. A pool with
/// compression panicked; a plain one refused it in words.
#[test]
fn a_commit_about_a_block_that_cannot_be_is_refused_in_words() {
    let pbn = Pbn::new(FAR).unwrap();
    let store = Change::Store {
        volume: VolumeId(1),
        lbn: Lbn(0),
        pbn,
        fingerprint: Fingerprint::of_hash(7),
        checksum: Checksum(1),
    };
    let data = Change::JournalData { pbn, content: b"abcd".to_vec() };
    for options in [&["--compression", "lz4"][..], &[]] {
        for (order, change) in
            [(CommitOrder::AfterContents, &data), (CommitOrder::BesideContents, &store)]
        {
            let pool = TestPool::new(options);
            done(&["volume", "create", &pool.volume("v"), "--size", "1m"]);
            append_commit(&pool, order, std::slice::from_ref(change));
            for words in readers(&pool) {
                let Ran { status, out, err } = gemelo(&words);
                let told = format!("{out}{err}");
                assert_eq!(status, 4, "{options:?}, {order:?}, {words:?}: {told}");
                assert!(told.contains("commit") && !told.contains("panicked"), "{told}");
            }
        }
    }
}

/// A loop device with one partition. The test says that it is skipped where it cannot have one.
struct Loop {
    device: String,
    _directory: tempfile::TempDir,
}

impl Loop {
    fn new(test: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let backing = directory.path().join("backing");
        fs::File::create(&backing).unwrap().set_len(512 << 20).unwrap();
        let made =
            Command::new("losetup").args(["--find", "--show", "--partscan"]).arg(&backing).output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            gemelo_tools::missing(&format!("losetup and root, for {test}"));
            return None;
        };
        let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        Some(Self { device, _directory: directory })
    }

    /// Makes a partition, and returns the path of its device.
    fn partition(&self, test: &str) -> Option<String> {
        let script = format!("echo ,256M | sfdisk --quiet --no-tell-kernel {}", self.device);
        let made = Command::new("sh").args(["-c", &script]).status();
        let told = Command::new("partx").args(["--update", &self.device]).status();
        let path = format!("{}p1", self.device);
        if made.is_ok_and(|made| made.success())
            && told.is_ok_and(|told| told.success())
            && Path::new(&path).exists()
        {
            return Some(path);
        }
        eprintln!("{test}: not tested with a partition, which needs sfdisk, partx and its device");
        None
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

/// The descriptors of a process on a path that bypass the page cache.
fn direct_descriptors(served: &Served, path: &str) -> usize {
    let process = PathBuf::from(format!("/proc/{}", served.process_id()));
    let is_direct = |name: &str| {
        let text = fs::read_to_string(process.join("fdinfo").join(name)).unwrap_or_default();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & O_DIRECT != 0)
    };
    let entries = fs::read_dir(process.join("fd")).unwrap().flatten();
    let on_path =
        entries.filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == Path::new(path)));
    on_path.filter(|entry| is_direct(&entry.file_name().to_string_lossy())).count()
}

/// The node of a device lies in devtmpfs, which was taken for the place of its bytes: the pool
/// wrote through the page cache, and had no cache of contents.
#[test]
fn a_pool_on_a_block_device_writes_past_the_page_cache() {
    let test = "a_pool_on_a_block_device_writes_past_the_page_cache";
    let Some(looped) = Loop::new(test) else { return };
    let check = |device: &str| {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (path, socket) = (file("pool"), format!("unix:{}", file("socket")));
        done(&["pool", "create", &path, "--data", device, "--capacity", "64m", "--force", "-q"]);
        done(&["volume", "create", &file("pool/v"), "--size", "16m", "-q"]);
        for (mode, is_direct) in [("direct", true), ("buffered", false)] {
            let served = Served::start(&["serve", &path, "--listen", &socket, "--io", mode]);
            assert_eq!(direct_descriptors(&served, device) > 0, is_direct, "{device}, {mode}");
            let text = done(&["pool", "stat", &path]);
            let cache = text.lines().find(|line| line.trim_start().starts_with("cache "));
            let cache = cache.unwrap_or_else(|| panic!("a line about the cache in {text}"));
            assert_eq!(cache.contains("256.00 MiB"), is_direct, "{device}, {mode}: {cache}");
            served.stop();
        }
    };
    check(&looped.device);
    if let Some(partition) = looped.partition(test) {
        check(&partition);
    }
}
