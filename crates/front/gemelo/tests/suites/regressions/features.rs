//! Pools with a feature that this program does not know, one of each field.

use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, noise, refused};
use gemelo_base::{Silent, StopFlag};
use gemelo_disk::{Disk, DiskAccess, FileDisk};
use gemelo_format::{Features, Superblock, read_superblock};
use gemelo_place::PoolDisks;
use gemelo_volume::{LossChoice, RepairOptions, repair_outlook_within, repair_within};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// A pool with a volume `v` of this content, and these unknown features.
fn pool_with(unknown: Features, content: &[u8]) -> TestPool {
    let pool = TestPool::new(&[]);
    let source = pool.file("source");
    fs::write(&source, content).unwrap();
    done(&["volume", "import", &source, &pool.volume("v")]);
    {
        let path = PathBuf::from(pool.path()).join("metadata");
        let disk = FileDisk::open(&path, DiskAccess::Exclusive).unwrap();
        let superblock = read_superblock(&disk, &mut Vec::new()).unwrap();
        let page = Superblock { unknown, ..superblock }.encode();
        Superblock::offsets().iter().for_each(|at| disk.write_at(*at, page.as_slice()).unwrap());
    }
    pool
}

fn files(pool: &TestPool) -> [Vec<u8>; 2] {
    ["data", "metadata"].map(|name| fs::read(format!("{}/{name}", pool.path())).unwrap())
}

/// Commands that change a pool.
fn writers(pool: &TestPool) -> Vec<Vec<String>> {
    let (path, v, new) = (pool.path(), pool.volume("v"), pool.volume("new"));
    let source = pool.file("source");
    let commands: [&[&str]; 8] = [
        &["volume", "create", &new, "--size", "1m"],
        &["volume", "import", &source, &new],
        &["volume", "snapshot", &v, "new"],
        &["volume", "rm", &v, "--force"],
        &["volume", "set", &v, "--dedup", "off"],
        &["pool", "grow", &path, "--capacity", "128m"],
        &["pool", "gc", &path],
        &["pool", "rm", &path, "--force"],
    ];
    commands.map(|words| words.iter().map(|word| (*word).to_owned()).collect()).to_vec()
}

#[test]
fn an_unknown_incompatible_feature_refuses_the_pool_by_its_number() {
    let features = Features { incompatible: 1 << 5, ..Features::NONE };
    let pool = pool_with(features, &noise(1, 8192));
    let before = files(&pool);
    let path = pool.path();
    let mut commands = writers(&pool);
    for words in [["pool", "stat"], ["pool", "check"], ["volume", "ls"]] {
        commands.push(words.map(str::to_owned).into_iter().chain([path.clone()]).collect());
    }
    for words in commands {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = refused(&words);
        assert!(said.contains("the incompatible feature 5"), "{words:?}: {said}");
        assert!(said.contains("does not know"), "{words:?}: {said}");
    }
    assert!(files(&pool) == before, "the pool stays as it is");
}

#[test]
fn a_pool_with_an_unknown_read_compatible_feature_is_read_and_never_changed() {
    let features = Features { read_compatible: 1 << 3, ..Features::NONE };
    let content = noise(1, 8192);
    let pool = pool_with(features, &content);
    let before = files(&pool);
    let path = pool.path();
    let warned = "the read-compatible feature 3, which this version of gemelo does not know";
    done(&["pool", "check", &path, "--data"]);
    assert!(done(&["volume", "ls", &path]).contains('v'));
    let Ran { status, err, .. } = gemelo(&["pool", "stat", &path]);
    assert!(status == 0 && err.contains(warned), "{status}: {err}");
    let out = pool.file("out");
    done(&["volume", "export", &pool.volume("v"), &out]);
    assert!(fs::read(&out).unwrap() == content);
    for words in writers(&pool) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Ran { status, err, .. } = gemelo(&words);
        assert_ne!(status, 0, "{words:?}");
        assert!(err.contains("read-compatible") || err.contains("read-only"), "{words:?}: {err}");
    }
    let status = gemelo(&["pool", "status", &path]);
    assert!(status.out.contains("read-only for a feature"), "{}", status.out);
    assert!(!status.out.contains("--repair"), "{}", status.out);
    let served = pool.serve(&[]);
    let _ = fs::remove_file(&out);
    let Ran { status, err, .. } = gemelo(&["volume", "export", &pool.volume("v"), &out]);
    assert!(status == 0, "{err}");
    assert!(fs::read(&out).unwrap() == content);
    let said = refused(&["volume", "create", &pool.volume("new"), "--size", "1m"]);
    assert!(said.contains("read-compatible feature 3"), "{said}");
    let (status, err) = served.stop();
    assert!(status == 0 && err.contains(warned) && !err.contains("--repair"), "{status}: {err}");
    assert!(files(&pool) == before, "the pool stays as it is");
    // A repair that would have something to do.
    lose_first_superblock(&path);
    let before = files(&pool);
    let said = refused(&["pool", "check", &path, "--repair", "--force"]);
    assert!(said.contains("read-compatible feature 3"), "{said}");
    assert!(files(&pool) == before, "the pool stays as it is");
}

fn lose_first_superblock(pool: &str) {
    let metadata = format!("{pool}/metadata");
    let mut bytes = fs::read(&metadata).unwrap();
    let page = Superblock::offsets()[0] as usize;
    bytes[page..page + 4096].fill(0);
    fs::write(&metadata, bytes).unwrap();
}

#[test]
fn an_unknown_compatible_feature_changes_nothing_and_is_kept() {
    let features = Features { compatible: 1 << 63, ..Features::NONE };
    let content = noise(1, 8192);
    let pool = pool_with(features, &content);
    let path = pool.path();
    done(&["volume", "import", &pool.file("source"), &pool.volume("new")]);
    // A repair writes the superblock again.
    lose_first_superblock(&path);
    done(&["pool", "check", &path, "--repair", "--force"]);
    pool.assert_clean();
    let disk = FileDisk::open(&PathBuf::from(path).join("metadata"), DiskAccess::Shared).unwrap();
    assert_eq!(read_superblock(&disk, &mut Vec::new()).unwrap().unknown, features);
    let mut damage = Vec::new();
    read_superblock(&disk, &mut damage).unwrap();
    assert_eq!(damage, Vec::<String>::new());
}

/// The command asks both steps of a repair, so that each hides the other.
#[test]
fn each_step_of_a_repair_refuses_an_unknown_read_compatible_feature() {
    let features = Features { read_compatible: 1 << 3, ..Features::NONE };
    let pool = pool_with(features, &noise(1, 8192));
    let before = files(&pool);
    let open = |name: &str| -> Arc<dyn Disk> {
        let path = PathBuf::from(pool.path()).join(name);
        Arc::new(FileDisk::open(&path, DiskAccess::Exclusive).unwrap())
    };
    let disks = PoolDisks::new(open("data"), open("metadata"));
    let (memory, stop) = (16 << 20, StopFlag::new());
    let options = RepairOptions { data: true, choice: LossChoice::Skip };
    let refusals = [
        repair_within(memory, &disks, options, &Silent, &stop).err(),
        repair_outlook_within(memory, &disks, true, &Silent, &stop).err(),
    ];
    for refusal in refusals {
        let said = refusal.unwrap().to_string();
        assert!(said.contains("the read-compatible feature 3"), "{said}");
    }
    drop(disks);
    assert!(files(&pool) == before, "the pool stays as it is");
}
