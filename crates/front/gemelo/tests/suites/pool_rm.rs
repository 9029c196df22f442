//! Tests of `gemelo pool rm`: a pool is removed with everything that it created and nothing else,
//! also if the command is killed and repeated.

use crate::common::{Ran, gemelo};
use crate::support::{MIB, TestPool, small};
use gemelo_base::SystemClock;
use gemelo_format::DedupMode;
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

fn pool() -> TestPool {
    let volumes = [("a", MIB, DedupMode::Inline), ("b", 2 * MIB, DedupMode::Off)];
    TestPool::new(&small(64 * MIB), &volumes)
}

fn rm(pool: &Path, options: &[&str]) -> Ran {
    gemelo(&[&["pool", "rm", pool.to_str().unwrap()], options].concat())
}

fn names(directory: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

#[test]
fn a_pool_goes_with_its_volumes_which_are_named_and_only_with_yes() {
    let pool = pool();
    let asked = rm(&pool.path(), &[]);
    assert_eq!((asked.status, asked.out.as_str()), (2, ""), "{}", asked.err);
    for part in ["2 volumes", "volume a: 1.00 MiB", "volume b: 2.00 MiB", "use --force"] {
        assert!(asked.err.contains(part), "{part}: {}", asked.err);
    }
    pool.check();
    let ran = rm(&pool.path(), &["--force"]);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.contains("volume a: 1.00 MiB") && ran.out.contains(": removed"), "{}", ran.out);
    assert!(!pool.path().exists());
}

#[test]
fn files_of_others_stay_and_so_does_their_directory() {
    let pool = pool();
    fs::write(pool.path().join("notes.txt"), "mine").unwrap();
    fs::write(pool.path().join("settings.toml"), "cache = \"1m\"\n").unwrap();
    let ran = rm(&pool.path(), &["--force"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("the directory stays"), "{}", ran.out);
    assert_eq!(names(&pool.path()), ["notes.txt"]);
}

#[test]
fn a_disk_elsewhere_stays_and_is_no_pools_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let (path, data) = (directory.path().join("pool"), directory.path().join("elsewhere"));
    let options = PoolOptions { data: Some(data.clone()), ..small(64 * MIB) };
    Pool::create(&path, &options).unwrap();
    let length = fs::metadata(&data).unwrap().len();
    assert!(fs::read(&data).unwrap().starts_with(b"GEMELODS"));
    let ran = rm(&path, &["--force"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(
        ran.out.contains("wipe the header") && ran.out.contains("the file stays"),
        "{}",
        ran.out
    );
    assert!(!path.exists());
    let left = fs::read(&data).unwrap();
    assert_eq!(left.len() as u64, length);
    assert!(!left.windows(8).any(|part| part == b"GEMELODS"), "a header or its copy is left");
}

#[test]
fn no_link_is_followed_to_what_is_not_the_pools() {
    let pool = pool();
    let precious = pool.file("precious");
    fs::write(&precious, vec![7; 1 << 16]).unwrap();
    fs::remove_file(pool.path().join("data")).unwrap();
    for name in ["data", "settings.toml"] {
        symlink(&precious, pool.path().join(name)).unwrap();
    }
    let ran = rm(&pool.path(), &["--force"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(!pool.path().exists());
    assert_eq!(fs::read(&precious).unwrap(), vec![7; 1 << 16]);
}

#[test]
fn what_is_no_pool_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other");
    fs::create_dir(&other).unwrap();
    for (name, text) in [("data", "x"), ("metadata", "no superblock"), ("settings.toml", "")] {
        fs::write(other.join(name), text).unwrap();
    }
    for path in [directory.path().join("nothing"), directory.path().to_owned(), other.clone()] {
        let ran = rm(&path, &["--force"]);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.contains("not a pool"), "{}", ran.err);
    }
    assert_eq!(names(&other), ["data", "metadata", "settings.toml"]);
}

#[test]
fn a_pool_in_use_is_left_alone() {
    let pool = pool();
    let held = Pool::open(&pool.path(), Tuning::default(), Arc::new(SystemClock::new())).unwrap();
    assert_eq!(rm(&pool.path(), &["--force"]).status, 3);
    held.close().unwrap();
    let served = pool.serve();
    let ran = rm(&pool.path(), &["--force"]);
    assert!(ran.status == 3 && ran.err.contains("in use by process"), "{}", ran.err);
    served.stop();
    pool.check();
}

/// A kill leaves the mark, and of the names those that come after some step.
#[test]
fn what_a_kill_leaves_is_removed_by_the_same_command() {
    for gone in [&[][..], &["settings.toml"], &["data"], &["settings.toml", "data", "metadata"]] {
        let pool = pool();
        fs::write(pool.path().join("settings.toml"), "cache = \"1m\"\n").unwrap();
        fs::write(pool.path().join("removing"), "").unwrap();
        for name in gone {
            fs::remove_file(pool.path().join(name)).unwrap();
        }
        let ran = rm(&pool.path(), &["--force"]);
        assert_eq!(ran.status, 0, "{gone:?}: {}", ran.err);
        assert!(!pool.path().exists(), "{gone:?}");
    }
}

#[test]
fn a_pool_that_cannot_be_opened_can_be_removed() {
    let pool = pool();
    // The superblock stays, and both copies of both roots go.
    let path = pool.path().join("metadata");
    let mut metadata = fs::read(&path).unwrap();
    for page in metadata.chunks_mut(4096).filter(|page| page.starts_with(b"GEMELORT")) {
        page.fill(0xaa);
    }
    fs::write(&path, metadata).unwrap();
    let ran = rm(&pool.path(), &["--force"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("its volumes are unknown"), "{}", ran.out);
    assert!(!pool.path().exists());
}
