//! Servers whose background failed without a word, or filled the file system.

use crate::common::{Ran, gemelo};
use crate::served::{Served, TestPool, done, noise};
use gemelo_disk::{Disk, DiskAccess, FileDisk};
use gemelo_format::{PAGE_BYTES, Slot, read_superblock};
use gemelo_nbd::client::{Client, Submission};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

const BLOCK: u64 = 4096;
/// Blocks of the volume.
const BLOCKS: u64 = 8192;

/// A pool whose index does not fit in a small cache, and the places of its pages on the metadata
/// disk.
fn pool_with_pages(policy: &str) -> (TestPool, Vec<[u64; 2]>) {
    let pool = TestPool::new(&["--policy", policy]);
    std::fs::write(pool.file("raw"), noise(5, (BLOCKS * BLOCK) as usize)).unwrap();
    done(&["volume", "import", &pool.file("raw"), &pool.volume("v")]);
    let disk = metadata_of(&pool);
    let regions = read_superblock(&disk, &mut Vec::new()).unwrap().regions();
    let length = disk.len().unwrap();
    let slots = (1..).map(|number| regions.slot(Slot::new(number).unwrap()));
    let slots = slots.take_while(|pair| pair[1] + PAGE_BYTES as u64 <= length);
    let mut page = vec![0; PAGE_BYTES];
    let mut is_used = |pair: &[u64; 2]| {
        disk.read_at(pair[0], &mut page).unwrap();
        // Pages of fingerprints are full, and look like noise.
        page.iter().filter(|byte| **byte == 0).count() < 64
    };
    let used = slots.filter(|pair| is_used(pair)).collect();
    (pool, used)
}

fn metadata_of(pool: &TestPool) -> FileDisk {
    FileDisk::open(&Path::new(&pool.path()).join("metadata"), DiskAccess::Exclusive).unwrap()
}

fn metadata_bytes(pool: &TestPool) -> u64 {
    std::fs::metadata(Path::new(&pool.path()).join("metadata")).unwrap().len()
}

fn flip(pool: &TestPool, pair: [u64; 2]) {
    let disk = metadata_of(pool);
    let mut byte = [0];
    for at in pair.map(|at| at + 100) {
        disk.read_at(at, &mut byte).unwrap();
        disk.write_at(at, &[!byte[0]]).unwrap();
    }
}

fn serve(pool: &TestPool) -> Served {
    pool.serve(&["--metadata-cache", "1m", "--metrics", "127.0.0.1:0"])
}

fn metrics(served: &Served) -> String {
    let address = served.said[1].strip_prefix("metrics at http://").unwrap();
    let mut stream = TcpStream::connect(address.split('/').next().unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Overwrites the volume from its beginning until writes fail. Returns the number that failed.
fn failed_writes(pool: &TestPool) -> usize {
    let uri = pool.uri("v").parse().unwrap();
    let mut client = Client::connect(&uri, 8, Duration::from_secs(20)).unwrap();
    let mut write = |block: u64| {
        let data = noise(1_000_000 + block, BLOCK as usize);
        let submission = Submission::Write { offset: block * BLOCK, data: &data, durable: false };
        !client.run(submission, |done| done.error).unwrap().is_none()
    };
    (0..BLOCKS).map(|number| number * 37 % BLOCKS).filter(|block| write(*block)).take(20).count()
}

/// A damaged page of fingerprints (both copies): a server without any request took 350 MB a second
/// of its file system for checkpoints that failed, and neither it nor `pool stat` said a word while
/// all writes failed. `volume create` and `snapshot` succeeded.
#[test]
fn a_damaged_page_makes_a_server_refuse_changes_and_say_so_once() {
    for policy in ["dtb", "compact"] {
        let (pool, used) = pool_with_pages(policy);
        assert!(!used.is_empty(), "{policy}");
        flip(&pool, used[used.len() / 2]);
        let served = serve(&pool);
        let before = metadata_bytes(&pool);
        assert!(failed_writes(&pool) > 0, "{policy}");
        std::thread::sleep(Duration::from_secs(3));
        // The reserve grows once by as much as the last changes may need.
        let bytes = metadata_bytes(&pool);
        assert!(bytes <= before + (16 << 20), "{policy}: {before} bytes became {bytes}");
        assert_eq!(pool.stat("/read_only"), true, "{policy}");
        let reason = pool.stat("/pool/stopped").to_string();
        assert!(reason.contains("its metadata is damaged (the page in slot"), "{reason}");
        assert!(pool.stat("/damage/0").to_string().contains("the page in slot"), "{policy}");
        let page = metrics(&served);
        for line in ["gemelo_pool_stopped 1", "gemelo_pool_read_only 1", "gemelo_pool_damages 1"] {
            assert!(page.lines().any(|found| found == line), "{policy}: {line} in {page}");
        }
        for words in [
            vec!["volume", "create", &pool.volume("new"), "--size", "1m"],
            vec!["volume", "snapshot", &pool.volume("v"), &pool.volume("new")],
        ] {
            let Ran { status, err, .. } = gemelo(&words);
            assert!(status != 0 && err.contains("damaged"), "{policy} {words:?}: {status} {err}");
        }
        let (status, said) = served.stop();
        let told = said.matches("the pool stopped taking changes because its metadata").count();
        assert!(told >= 1, "{policy}: {said}");
        for event in ["[read-only]", "[damage-found]"] {
            assert_eq!(said.matches(event).count(), 1, "{policy}: {said}");
        }
        assert!(said.lines().count() < 10, "{policy}: {said}");
        assert_ne!(status, 0, "{policy}: what could not be written is told at the end: {said}");
        // The advice of the reason: it ends the failure.
        assert!(reason.contains("repair it with 'gemelo pool check --repair'"), "{reason}");
        done(&["pool", "check", &pool.path(), "--repair", "--force"]);
        let served = serve(&pool);
        assert_eq!(failed_writes(&pool), 0, "{policy}");
        assert!(metrics(&served).contains("\ngemelo_pool_read_only 0\n"), "{policy}");
        assert_eq!(served.stop(), (0, String::new()), "{policy}");
    }
}

/// All tasks are in the figures and the metrics of a server that works.
#[test]
fn a_server_that_works_has_no_task_that_fails() {
    let pool = TestPool::new(&[]);
    let served = serve(&pool);
    let tasks = pool.stat("/tasks");
    let names: Vec<&str> =
        tasks.as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    for name in ["checkpoint", "commit", "finder", "collector", "requests", "scrub"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let page = metrics(&served);
    assert!(page.contains("\ngemelo_pool_task_failing{task=\"checkpoint\"} 0\n"), "{page}");
    assert!(!page.contains("_failing{task=\"requests\"} 1"), "{page}");
    assert_eq!(served.stop(), (0, String::new()));
}
