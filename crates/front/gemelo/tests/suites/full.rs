//! Tests of pools and file systems without space: requests that need a block get ENOSPC, all others
//! succeed, and writes succeed again when there is space.

use crate::support::mount::{Attached, Mounted, can_mount};
use crate::support::{MIB, PATIENCE, TestPool, bytes, small};
use gemelo_format::DedupMode;
use gemelo_nbd::client::{Client, Submission};
use gemelo_nbd::wire::ErrorCode;
use gemelo_tools::{all_there, run, tool};
use gemelo_volume::PoolOptions;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// Bytes of a write.
const CHUNK: usize = 64 << 10;

fn done(client: &mut Client, submission: Submission<'_>) -> ErrorCode {
    client.run(submission, |completion| completion.error).unwrap()
}

fn write(client: &mut Client, offset: u64, data: &[u8]) -> ErrorCode {
    done(client, Submission::Write { offset, data, durable: false })
}

fn read(client: &mut Client, offset: u64, length: usize) -> Vec<u8> {
    client
        .run(Submission::Read { offset, length: length as u32 }, |completion| {
            assert!(completion.error.is_none(), "{}", completion.error);
            completion.data.to_vec()
        })
        .unwrap()
}

/// Content for a chunk: unique, the same for its number.
fn content(number: u64) -> Vec<u8> {
    bytes(1000 + number, CHUNK)
}

/// Writes chunks of unique data until one is refused for lack of space; returns their number.
fn fill(client: &mut Client, most: u64) -> u64 {
    for number in 0..most {
        let error = write(client, number * CHUNK as u64, &content(number));
        if !error.is_none() {
            assert_eq!(error, ErrorCode::NO_SPACE);
            return number;
        }
    }
    panic!("{most} chunks fit");
}

/// Checks the requests that must succeed when there is no space for a new block.
fn goes_on_without_space(client: &mut Client, chunks: u64) {
    for number in 0..chunks {
        assert!(read(client, number * CHUNK as u64, CHUNK) == content(number), "chunk {number}");
    }
    // A duplicate, an overwrite with equal content, zeros: none needs a block.
    let beyond = (chunks + 4) * CHUNK as u64;
    assert!(write(client, beyond, &content(0)).is_none());
    assert!(write(client, CHUNK as u64, &content(1)).is_none());
    assert!(write(client, beyond + CHUNK as u64, &[0; CHUNK]).is_none());
    assert!(read(client, beyond, CHUNK) == content(0));
    // A block that is refused leaves the old one.
    assert_eq!(write(client, CHUNK as u64, &bytes(5, CHUNK)), ErrorCode::NO_SPACE);
    let now = read(client, CHUNK as u64, CHUNK);
    let (old, new) = (content(1), bytes(5, CHUNK));
    for (place, block) in now.chunks_exact(BLOCK).enumerate() {
        let range = place * BLOCK..(place + 1) * BLOCK;
        assert!(block == &old[range.clone()] || block == &new[range], "block {place} is another's");
    }
    assert!(write(client, CHUNK as u64, &old).is_none() || now != old);
    assert!(done(client, Submission::Flush).is_none());
}

/// Runs a command on the pool while it is served.
fn gemelo(arguments: &[&str]) {
    run(std::process::Command::new(env!("CARGO_BIN_EXE_gemelo")).args(arguments));
}

/// Writes until one is taken: freed blocks are for use when what freed them is durable.
fn write_in_time(client: &mut Client, offset: u64, data: &[u8]) {
    let begun = Instant::now();
    loop {
        match write(client, offset, data) {
            ErrorCode::NONE => return,
            error => assert_eq!(error, ErrorCode::NO_SPACE),
        }
        assert!(begun.elapsed() < PATIENCE, "there is space, and no write is taken");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_full_pool_refuses_new_blocks_serves_the_rest_and_recovers_by_collection_and_by_growth() {
    let size = 64 * MIB;
    let pool = TestPool::new(&small(16 * MIB), &[("disk", size, DedupMode::Inline)]);
    let server = pool.serve();
    let mut client = pool.client("disk", 4);
    let chunks = fill(&mut client, size / CHUNK as u64);
    assert!(chunks > 200, "{chunks} chunks of 64 KiB fit into 16 MiB");
    goes_on_without_space(&mut client, chunks);

    // Trims give space back.
    let trim = Submission::Trim { offset: 0, length: (8 * CHUNK) as u32, durable: false };
    assert!(done(&mut client, trim).is_none());
    gemelo(&["pool", "gc", &pool.path().to_string_lossy()]);
    for number in 0..6 {
        assert!(write(&mut client, number * CHUNK as u64, &bytes(9000 + number, CHUNK)).is_none());
    }
    assert!(done(&mut client, Submission::Flush).is_none());
    // Also over a kill: what was refused is not there, what was flushed is.
    server.kill();
    pool.check();
    let server = pool.serve();
    let mut client = pool.client("disk", 4);
    gemelo(&["pool", "grow", &pool.path().to_string_lossy(), "--capacity", "32m"]);
    for number in 0..6 {
        assert!(read(&mut client, number * CHUNK as u64, CHUNK) == bytes(9000 + number, CHUNK));
    }
    for number in 8..chunks {
        assert!(read(&mut client, number * CHUNK as u64, CHUNK) == content(number));
    }
    for number in 0..200 {
        assert!(
            write(
                &mut client,
                (chunks + 10 + number) * CHUNK as u64,
                &bytes(20_000 + number, CHUNK)
            )
            .is_none()
        );
    }
    assert!(done(&mut client, Submission::Flush).is_none());
    drop(client);
    server.stop();
    pool.check();
}

/// A file system in memory that is smaller than the pool on it.
struct Small(PathBuf);

impl Small {
    fn mount(directory: PathBuf, size_bytes: u64) -> Self {
        std::fs::create_dir_all(&directory).unwrap();
        run(tool("mount")
            .unwrap()
            .args(["-t", "tmpfs", "-o", &format!("size={size_bytes}"), "tmpfs"])
            .arg(&directory));
        Self(directory)
    }

    fn resize(&self, size_bytes: u64) {
        run(tool("mount")
            .unwrap()
            .args(["-o", &format!("remount,size={size_bytes}")])
            .arg(&self.0));
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_file_system_full_below_the_pool_is_no_space_and_recovers_when_it_grows() {
    if !can_mount() || !all_there(&["mount", "umount"]) {
        return;
    }
    let directory = tempfile::Builder::new().prefix("gemelo-").tempdir().unwrap();
    let below = Small::mount(directory.path().join("small"), 16 * MIB);
    let options = PoolOptions { data: Some(below.path().join("data")), ..small(256 * MIB) };
    let pool = TestPool::new(&options, &[("disk", 64 * MIB, DedupMode::Inline)]);
    let server = pool.serve();
    let mut client = pool.client("disk", 4);
    let chunks = fill(&mut client, 1024);
    assert!(chunks > 200, "{chunks} chunks of 64 KiB fit into 16 MiB");
    goes_on_without_space(&mut client, chunks);
    below.resize(32 * MIB);
    for number in 0..150 {
        write_in_time(
            &mut client,
            (chunks + 10 + number) * CHUNK as u64,
            &bytes(20_000 + number, CHUNK),
        );
    }
    assert!(done(&mut client, Submission::Flush).is_none());
    server.kill();
    let server = pool.serve();
    let mut client = pool.client("disk", 4);
    for number in 0..150 {
        let offset = (chunks + 10 + number) * CHUNK as u64;
        assert!(read(&mut client, offset, CHUNK) == bytes(20_000 + number, CHUNK));
    }
    for number in 2..chunks {
        assert!(read(&mut client, number * CHUNK as u64, CHUNK) == content(number));
    }
    drop(client);
    server.stop();
    pool.check();
}

/// The pool fills up below a file system: its programs hear of it, it stays whole, and it can be
/// written again.
#[test]
fn a_file_system_on_a_full_pool_stays_whole_and_recovers() {
    if !can_mount() || !all_there(&["nbdfuse", "losetup", "mount", "umount", "mkfs.ext4", "e2fsck"])
    {
        return;
    }
    let pool = TestPool::new(&small(48 * MIB), &[("disk", 256 * MIB, DedupMode::Inline)]);
    let server = pool.serve();
    let disk = Attached::new(&pool, "disk");
    run(tool("mkfs.ext4").unwrap().args(["-q", "-F"]).arg(disk.device()));
    let mounted = Mounted::new(disk.device(), pool.file("mnt"), "rw,errors=continue");
    let kept = bytes(1, 8 << 20);
    std::fs::write(mounted.path().join("kept"), &kept).unwrap();
    std::fs::File::open(mounted.path().join("kept")).unwrap().sync_all().unwrap();
    // More than the pool has; somebody who syncs hears of it.
    let mut refused = false;
    for number in 0..12 {
        let path = mounted.path().join(format!("big-{number}"));
        let written = std::fs::write(&path, bytes(100 + number, 8 << 20));
        let synced = written.and_then(|()| std::fs::File::open(&path)?.sync_all());
        refused |= synced.is_err();
    }
    assert!(refused, "96 MiB of unique data are not in a pool of 48");
    mounted.abandon();
    disk.detach();
    server.stop();
    pool.check();

    pool.change(|open| open.grow(512 * MIB).unwrap());
    let server = pool.serve();
    let disk = Attached::new(&pool, "disk");
    // 0 or 1: clean, or repaired.
    let repaired = tool("e2fsck").unwrap().args(["-f", "-y"]).arg(disk.device()).output().unwrap();
    assert!(repaired.status.code().is_some_and(|code| code <= 1), "{repaired:?}");
    run(tool("e2fsck").unwrap().args(["-f", "-n"]).arg(disk.device()));
    let mounted = Mounted::new(disk.device(), pool.file("mnt"), "rw");
    assert!(std::fs::read(mounted.path().join("kept")).unwrap() == kept);
    for number in 0..8 {
        let path = mounted.path().join(format!("again-{number}"));
        std::fs::write(&path, bytes(200 + number, 8 << 20)).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
    }
    mounted.unmount();
    run(tool("e2fsck").unwrap().args(["-f", "-n"]).arg(disk.device()));
    disk.detach();
    server.stop();
    pool.check();
}
