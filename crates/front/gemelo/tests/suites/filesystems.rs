//! Tests of file systems on served volumes, through `nbdfuse` and a loop device. File systems are
//! made, filled, checked, mounted again and compared, also after kills of the server. `fsx` runs on
//! a mounted file system; `GEMELO_FSX_OPERATIONS` sets its number of operations, `GEMELO_FILES`
//! that of files, and `GEMELO_FILE_SYSTEM_KILLS` that of kills.

use crate::support::mount::{Attached, Mounted, can_mount};
use crate::support::{MIB, TestPool, bytes, setting, small};
use gemelo_base::random::Random;
use gemelo_format::{DedupMode, FingerprintKind};
use gemelo_tools::{all_of, all_there, run, tool};
use gemelo_volume::PoolOptions;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// XFS takes no less than 300 MiB; what is not written takes no space.
const VOLUME_BYTES: u64 = 320 * MIB;
const FSX_OPERATIONS: u64 = 15_000;

/// A file system, and how to make and check it.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    make: &'static [&'static str],
    check: &'static [&'static str],
}

const EXT4: Kind =
    Kind { name: "ext4", make: &["mkfs.ext4", "-q", "-F"], check: &["e2fsck", "-f", "-n"] };
const XFS: Kind =
    Kind { name: "xfs", make: &["mkfs.xfs", "-q", "-f"], check: &["xfs_repair", "-n"] };
const MOUNTING: [&str; 5] = ["nbdfuse", "losetup", "mount", "umount", "fstrim"];

impl Kind {
    fn is_there(self) -> bool {
        can_mount() && all_there(&MOUNTING) && all_there(&[self.make[0], self.check[0]])
    }

    fn make(self, device: &Path) {
        run(tool(self.make[0]).unwrap().args(&self.make[1..]).arg(device));
    }

    /// The file system's own checker finds nothing.
    fn check(self, device: &Path) {
        run(tool(self.check[0]).unwrap().args(&self.check[1..]).arg(device));
    }
}

/// The content of each file of a tree.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// Fills a directory with files of many sizes; many are copies, and some get another content or are
/// removed again.
fn fill(directory: &Path, tree: &mut Tree, random: &mut Random, files: u64) {
    for _ in 0..files {
        let name = PathBuf::from(format!("d{}/f{}", random.below(7), random.below(200)));
        let path = directory.join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if random.below(8) == 0 && tree.remove(&name).is_some() {
            fs::remove_file(&path).unwrap();
            continue;
        }
        let length = [100, 4096, 10_000, 65_536, 400_000][random.below(5) as usize];
        let content = bytes(random.below(12), length);
        fs::write(&path, &content).unwrap();
        tree.insert(name, content);
    }
}

/// The directory holds the tree and nothing else.
fn compare(directory: &Path, tree: &Tree) {
    for (name, content) in tree {
        let found = fs::read(directory.join(name))
            .unwrap_or_else(|error| panic!("{}: {error}", name.display()));
        assert!(found == *content, "{} differs", name.display());
    }
    let directories = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files =
        directories.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with('d'));
    let count: usize = files.map(|path| fs::read_dir(path).unwrap().count()).sum();
    assert_eq!(count, tree.len());
}

fn is_made_filled_checked_and_mounted_again(kind: Kind, options: &PoolOptions, mode: DedupMode) {
    if !kind.is_there() {
        return;
    }
    let pool = TestPool::new(options, &[("disk", VOLUME_BYTES, mode)]);
    let mut tree = Tree::new();
    let mut random = Random::new(7);
    for round in 0..3 {
        let server = pool.serve();
        let disk = Attached::new(&pool, "disk");
        if round == 0 {
            kind.make(disk.device());
        }
        kind.check(disk.device());
        let mounted = Mounted::new(disk.device(), pool.file("mnt"), "rw");
        compare(mounted.path(), &tree);
        fill(mounted.path(), &mut tree, &mut random, setting("GEMELO_FILES", 120));
        run(tool("fstrim").unwrap().arg(mounted.path()));
        compare(mounted.path(), &tree);
        mounted.unmount();
        kind.check(disk.device());
        disk.detach();
        server.stop();
        pool.check();
    }
    let logical: u64 = tree.values().map(|content| content.len() as u64).sum();
    pool.change(|open| {
        let stat = open.stat().unwrap();
        let (logical_bytes, stored) = (stat.logical_blocks * 4096, stat.physical_blocks * 4096);
        eprintln!("{}: files {logical}, logical {logical_bytes}, stored {stored}", kind.name);
        if mode == DedupMode::Inline && options.block_bytes <= 4096 {
            assert!(stat.dedup_ratio() > 1.5, "copies are stored once: {}", stat.dedup_ratio());
        }
    });
}

#[test]
fn ext4_is_made_filled_checked_and_mounted_again() {
    is_made_filled_checked_and_mounted_again(EXT4, &small(2 * VOLUME_BYTES), DedupMode::Inline);
}

#[test]
fn ext4_without_deduplication_is_made_filled_checked_and_mounted_again() {
    is_made_filled_checked_and_mounted_again(EXT4, &small(2 * VOLUME_BYTES), DedupMode::Off);
}

#[test]
fn xfs_is_made_filled_checked_and_mounted_again() {
    let fingerprint = FingerprintKind::Xxh3Compare;
    let options = PoolOptions { fingerprint, ..small(2 * VOLUME_BYTES) };
    is_made_filled_checked_and_mounted_again(XFS, &options, DedupMode::Inline);
}

/// Data that was synced before a kill of the server is there after its restart, and the journal of
/// the file system makes everything else consistent.
fn survives_kills(kind: Kind) {
    if !kind.is_there() {
        return;
    }
    let options = PoolOptions { journal_bytes: Some(MIB), ..small(2 * VOLUME_BYTES) };
    let pool = TestPool::new(&options, &[("disk", VOLUME_BYTES, DedupMode::Inline)]);
    let mut tree = Tree::new();
    let mut random = Random::new(8);
    for round in 0..setting("GEMELO_FILE_SYSTEM_KILLS", 4) {
        let server = pool.serve();
        let disk = Attached::new(&pool, "disk");
        if round == 0 {
            kind.make(disk.device());
        }
        // Mounting replays the file system's journal.
        let mounted = Mounted::new(disk.device(), pool.file("mnt"), "rw");
        for (name, content) in &tree {
            assert!(fs::read(mounted.path().join(name)).unwrap() == *content, "{}", name.display());
        }
        fill(mounted.path(), &mut tree, &mut random, 60);
        run(tool("sync").unwrap().arg("--file-system").arg(mounted.path()));
        let unsynced = mounted.path().join(format!("after-{round}"));
        fs::write(unsynced, bytes(round, 3 << 20)).unwrap();
        if round % 2 == 1 {
            std::thread::sleep(std::time::Duration::from_millis(random.below(200)));
        }
        server.kill();
        mounted.abandon();
        disk.abandon();
        pool.check();
    }
    let server = pool.serve();
    let disk = Attached::new(&pool, "disk");
    Mounted::new(disk.device(), pool.file("mnt"), "rw").unmount();
    kind.check(disk.device());
    let mounted = Mounted::new(disk.device(), pool.file("mnt"), "ro");
    compare(mounted.path(), &tree);
    mounted.unmount();
    disk.detach();
    server.stop();
    pool.check();
}

#[test]
fn ext4_survives_kills_of_the_server() {
    survives_kills(EXT4);
}

#[test]
fn xfs_survives_kills_of_the_server() {
    survives_kills(XFS);
}

fn fsx(pool: &TestPool, file: &Path, settings: &str, operations: u64, seed: u64) {
    let configuration = pool.file("fsx.toml");
    fs::write(&configuration, settings).unwrap();
    let output = tool("fsx")
        .unwrap()
        .arg("-f")
        .arg(&configuration)
        .args(["-N", &operations.to_string(), "-S", &seed.to_string(), "-P"])
        .arg(pool.directory.path())
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", all_of(&output));
}

#[test]
fn fsx_finds_nothing_on_a_mounted_volume() {
    if !EXT4.is_there() || !all_there(&["fsx"]) {
        return;
    }
    let operations = setting("GEMELO_FSX_OPERATIONS", FSX_OPERATIONS);
    let pool =
        TestPool::new(&small(2 * VOLUME_BYTES), &[("disk", VOLUME_BYTES, DedupMode::Inline)]);
    let server = pool.serve();
    let disk = Attached::new(&pool, "disk");
    EXT4.make(disk.device());
    let mounted = Mounted::new(disk.device(), pool.file("mnt"), "rw,discard");
    // One operation in twenty with much that leaves the cache; the rest with what fsx does by
    // itself.
    let often_synced = "flen = 1048576\n[opsize]\nmax = 65536\n[weights]\nfsync = 0.2\nfdatasync = 0.2\n\
        invalidate = 0.5\npunch_hole = 1\nposix_fallocate = 0.5\ncopy_file_range = 1\n";
    let seldom = "nomsyncafterwrite = true\n[weights]\npunch_hole = 0.05\nposix_fallocate = 0.1\n\
        copy_file_range = 0.1\nclose_open = 0.2\ninvalidate = 0.01\nfsync = 0.01\n";
    for (seed, (settings, operations)) in
        [(often_synced, operations / 20), (seldom, operations - operations / 20)]
            .into_iter()
            .enumerate()
    {
        let begun = std::time::Instant::now();
        fsx(&pool, &mounted.path().join("file"), settings, operations, seed as u64);
        eprintln!("fsx: {operations} operations in {:?}", begun.elapsed());
    }
    mounted.unmount();
    EXT4.check(disk.device());
    disk.detach();
    server.stop();
    pool.check();
}

#[test]
fn fsx_finds_nothing_on_a_volume_as_a_block_device() {
    if !can_mount() || !all_there(&MOUNTING) || !all_there(&["fsx"]) {
        return;
    }
    let operations = setting("GEMELO_FSX_OPERATIONS", FSX_OPERATIONS) / 20;
    let options = PoolOptions { block_bytes: 16384, ..small(64 * MIB) };
    let pool = TestPool::new(&options, &[("disk", 2 * MIB, DedupMode::Inline)]);
    let server = pool.serve();
    let disk = Attached::new(&pool, "disk");
    fs::File::options()
        .write(true)
        .open(disk.device())
        .unwrap()
        .write_all_at(&[1; 512], 0)
        .unwrap();
    let settings = "blockmode = true\nflen = 2097152\n[opsize]\nalign = 512\nmax = 65536\n[weights]\n\
        invalidate = 1\nfsync = 0.5\ntruncate = 0\n";
    fsx(&pool, disk.device(), settings, operations, 3);
    disk.detach();
    server.stop();
    pool.check();
}
