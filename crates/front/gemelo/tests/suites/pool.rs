//! Tests of `gemelo pool` on idle and on served pools: creation, output, refusals, checks and
//! repairs.

use crate::common::gemelo;
use crate::served::{TestPool, done, in_use, noise, refused, sparse_file};
use gemelo_base::SystemClock;
use gemelo_volume::{Pool, Tuning};
use std::fs;
use std::path::Path;
use std::sync::Arc;

#[test]
fn a_pool_is_made_as_asked_and_never_over_another() {
    let pool = TestPool::new(&[
        "--block-size",
        "8k",
        "--fingerprint",
        "xxh3+compare",
        "--commit-interval",
        "1s",
    ]);
    assert_eq!(pool.stat("/pool/block_bytes"), 8192);
    assert_eq!(pool.stat("/pool/fingerprint"), "xxh3-compare");
    assert_eq!(pool.stat("/pool/capacity_blocks"), (64 << 20) / 8192 - 2);
    assert_eq!(
        fs::read_to_string(pool.file("pool/settings.toml")).unwrap(),
        "# 'gemelo pool set' and 'gemelo volume set' write this file.\ncommit-interval = \"1s\"\n"
    );
    let before = fs::read(pool.file("pool/metadata")).unwrap();
    assert!(refused(&["pool", "create", &pool.path()]).contains("exists already"));
    assert_eq!(fs::read(pool.file("pool/metadata")).unwrap(), before);
}

#[test]
fn options_that_cannot_be_are_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool").to_str().unwrap().to_owned();
    for (options, what) in [
        (&["--block-size", "5000"][..], "power of two"),
        (&["--block-size", "8g"], "power of two"),
        (&["--capacity", "4k"], "capacity"),
        (&["--fingerprint", "md5"], "md5"),
        (&["--cache", "10e"], "of memory, less than cache 10.00 EiB"),
        (&["--capacity", "512t"], "larger blocks allow more"),
        (&["--policy", "cbt", "--max-capacity", "256t"], "or the policy compact, allow more"),
        (&["--backend", "log"], "--backend"),
        (&["--capacity", "2g", "--max-capacity", "1g"], "give at least the capacity, 2 GiB"),
        (&["--data", "/no/such/directory/data"], "/no/such/directory/data"),
    ] {
        let message = refused(&[&["pool", "create", &path], options].concat());
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn data_and_metadata_can_be_elsewhere_and_what_is_there_stays() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(file("meta")).unwrap();
    fs::write(file("precious"), "precious").unwrap();
    let (pool, other, precious) = (file("pool"), file("other"), file("precious"));
    refused(&["pool", "create", &other, "--data", &precious]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    let (data, metadata) = (file("data"), file("meta"));
    done(&["pool", "create", &pool, "--capacity", "16m", "--data", &data, "--metadata", &metadata]);
    done(&["volume", "create", &format!("{pool}/a"), "--size", "1m"]);
    assert_eq!(fs::metadata(&data).unwrap().len(), 16 << 20);
    assert!(fs::metadata(file("meta/metadata")).unwrap().len() > 0);
}

/// Such a pool keeps its index in memory alone, and only while it is served.
#[test]
fn a_pool_that_may_become_large_is_served_and_asked_as_others_are() {
    let pool = TestPool::new(&["--max-capacity", "256t"]);
    fs::write(pool.file("raw"), noise(3, 8192)).unwrap();
    done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
    let said = || done(&["pool", "stat", &pool.path()]);
    assert!(said().contains("known while the pool is served"), "{}", said());
    let served = pool.serve(&["--index-sample", "2"]);
    assert!(!said().contains("known while the pool is served"), "{}", said());
    assert_eq!(served.stop(), (0, String::new()));
    done(&["pool", "check", &pool.path(), "--data"]);
}

#[test]
fn a_sample_of_the_index_that_has_no_effect_is_told() {
    let pool = TestPool::new(&["--policy", "dtb"]);
    let (status, told) = pool.serve(&["--index-sample", "2"]).stop();
    assert!(status == 0 && told.contains("only one in memory can have a sample"), "{told}");
}

#[test]
fn stat_says_the_same_of_an_idle_and_of_a_served_pool() {
    let pool = TestPool::new(&[]);
    let twice = noise(1, 8192);
    sparse_file(
        &pool.file("raw"),
        1 << 20,
        &[(0, &twice), (65536, &twice), (131_072, &noise(2, 4096))],
    );
    done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
    for is_served in [false, true] {
        let served = is_served.then(|| pool.serve(&[]));
        assert_eq!(pool.stat("/pool/logical_blocks"), 5);
        assert_eq!(pool.stat("/pool/physical_blocks"), 3);
        assert_eq!(pool.stat("/dedup_ratio"), 5.0 / 3.0);
        assert_eq!(pool.stat("/volumes/0/name"), "a");
        assert_eq!(pool.stat("/volumes/0/mapped_blocks"), 5);
        let process = served.as_ref().map(crate::served::Served::process_id);
        let said = pool.stat("/server");
        assert_eq!(said["process_id"].as_u64(), process.map(u64::from), "{said}");
        let text = done(&["pool", "stat", &pool.path()]);
        assert!(text.contains("dedup ratio 1.6667"), "{text}");
    }
}

#[test]
fn an_offline_volume_is_deduplicated_by_hand_and_in_the_background() {
    let pool = TestPool::new(&[]);
    fs::write(pool.file("raw"), [noise(3, 1 << 20), noise(3, 1 << 20)].concat()).unwrap();
    for is_served in [false, true] {
        let name = pool.volume(if is_served { "b" } else { "a" });
        let served = is_served.then(|| pool.serve(&["--finder-delay", "1h"]));
        done(&["volume", "create", &name, "--size", "2m", "--dedup", "offline"]);
        done(&["volume", "import", &pool.file("raw"), &name, "--force"]);
        let copies = if is_served { 768 } else { 512 };
        assert_eq!(pool.stat("/pool/physical_blocks"), copies);
        let said = done(&["pool", "dedup", &pool.path()]);
        assert!(said.starts_with("512 blocks looked at"), "{said}");
        assert_eq!(pool.stat("/pool/physical_blocks"), 256);
        drop(served);
    }
    done(&["volume", "rm", &pool.volume("b"), "--force"]);
    let _served = pool.serve(&["--finder-delay", "0s"]);
    done(&["volume", "create", &pool.volume("c"), "--size", "2m", "--dedup", "offline"]);
    done(&["volume", "import", &pool.file("raw"), &pool.volume("c"), "--force"]);
    for _ in 0..400 {
        if pool.stat("/pool/physical_blocks") == 256 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("the background has not found the duplicates in ten seconds");
}

/// Writes each of 512 blocks of a volume once, so that neighbours are not written one after
/// another.
fn scatter(pool: &TestPool, volume: &str, seed: u64) {
    use gemelo_device::{BlockDevice, Durability, Operation, Request};
    let clock = Arc::new(SystemClock::new());
    // The arranger of the background would bring the blocks together.
    let tuning = Tuning { background: false, ..Tuning::default() };
    let open = Pool::open(Path::new(&pool.path()), tuning, clock).unwrap();
    let device = open.volume(volume).unwrap();
    for number in 0..512u64 {
        // 189 has no divisor in common with 512.
        let (offset, data) = (number * 189 % 512 * 4096, noise(seed + number, 4096));
        let operation = Operation::Write { offset, data: &data, durability: Durability::Flushed };
        let mut batch = [Request { operation, outcome: Ok(()) }];
        device.execute(&mut batch);
        assert!(batch[0].outcome.is_ok());
    }
    drop(device);
    open.close().unwrap();
}

#[test]
fn a_scattered_volume_is_stored_in_order_again() {
    let pool = TestPool::new(&["--layout-rate", "0"]);
    let settings = fs::read_to_string(pool.file("pool/settings.toml")).unwrap();
    assert!(settings.ends_with("\nlayout-rate = \"0\"\n"), "{settings}");
    for (name, is_served) in [("a", false), ("b", true)] {
        let volume = pool.volume(name);
        done(&["volume", "create", &volume, "--size", "2m"]);
        // The contents of the two are different, so no block is shared.
        scatter(&pool, name, if is_served { 1000 } else { 2000 });
        let served = is_served.then(|| pool.serve(&[]));
        let in_order = || {
            let said = done(&["volume", "stat", &volume]);
            let line = said.lines().find(|line| line.contains("stored in order")).unwrap();
            line.split("order").nth(1).unwrap().trim().to_owned()
        };
        assert_eq!(in_order(), "0.00 %");
        let said = done(&["pool", "defrag", &pool.path()]);
        assert!(said.contains(" 512 moved, 0 overwritten"), "{said}");
        assert_eq!(in_order(), "100.00 %");
        if is_served {
            assert!(done(&["pool", "stat", &pool.path()]).contains("512 blocks, 0 overtaken"));
        }
        drop(served);
    }
    pool.assert_clean();
}

#[test]
fn the_finder_is_paused_and_resumed_and_tells_what_it_would_save() {
    let pool = TestPool::new(&[]);
    fs::write(pool.file("raw"), [noise(3, 1 << 20), noise(3, 1 << 20)].concat()).unwrap();
    assert!(refused(&["pool", "dedup", &pool.path(), "--pause"]).contains("no process serves"));
    done(&["volume", "create", &pool.volume("a"), "--size", "2m", "--dedup", "offline"]);
    let _served = pool.serve(&["--finder-delay", "0s", "--finder-window", "00:00-24:00"]);
    let said = done(&["pool", "dedup", &pool.path(), "--pause"]);
    assert!(said.ends_with("the finder is paused\n"), "{said}");
    done(&["volume", "import", &pool.file("raw"), &pool.volume("a"), "--force"]);
    let said = done(&["pool", "dedup", &pool.path(), "--estimate"]);
    assert!(said.contains("512 blocks wait (2.00 MiB), 512 of them were read"), "{said}");
    assert!(said.contains("about 1.00 MiB, at 95 % between 1.00 MiB and 1.00 MiB"), "{said}");
    // The finder looks every 50 ms.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(pool.stat("/pool/finder/state"), "paused");
    assert_eq!(pool.stat("/pool/finder/backlog_blocks"), 512);
    assert_eq!(pool.stat("/pool/physical_blocks"), 512);
    let text = done(&["pool", "stat", &pool.path()]);
    assert!(text.contains("paused: 'gemelo pool dedup --resume' resumes it"), "{text}");
    assert!(text.contains("512 blocks, the oldest for"), "{text}");
    assert!(done(&["pool", "dedup", &pool.path(), "--resume"]).ends_with("is resumed\n"));
    for _ in 0..400 {
        if pool.stat("/pool/physical_blocks") == 256 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("the finder has not found the duplicates in ten seconds");
}

#[test]
fn freed_blocks_come_back_by_hand_and_the_file_shrinks() {
    use std::os::unix::fs::MetadataExt;
    let pool = TestPool::new(&[]);
    fs::write(pool.file("raw"), noise(3, 8 << 20)).unwrap();
    let stored = || fs::metadata(pool.file("pool/data")).unwrap().blocks() * 512;
    for is_served in [false, true] {
        let served = is_served.then(|| pool.serve(&["--collect-rate", "0"]));
        done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
        assert!(stored() >= 8 << 20);
        done(&["volume", "rm", &pool.volume("a"), "--force"]);
        let said = done(&["pool", "gc", &pool.path()]);
        assert!(said.contains("free blocks given back"), "{said}");
        assert!(stored() < 1 << 20, "{} bytes", stored());
        assert_eq!(pool.stat("/pool/physical_blocks"), 0);
        assert_eq!(pool.stat("/pool/pending_blocks"), 0);
        drop(served);
    }
}

#[test]
fn a_served_pool_gives_back_what_is_freed() {
    use std::os::unix::fs::MetadataExt;
    let pool = TestPool::new(&["--commit-interval", "50ms"]);
    let _served = pool.serve(&["--collect-rate", "200m"]);
    fs::write(pool.file("raw"), noise(9, 8 << 20)).unwrap();
    done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
    done(&["volume", "rm", &pool.volume("a"), "--force"]);
    let began = std::time::Instant::now();
    // The space that is reserved ahead of writes stays: one and a half steps of 2 MiB.
    while fs::metadata(pool.file("pool/data")).unwrap().blocks() * 512 > 4 << 20 {
        assert!(began.elapsed().as_secs() < 60, "nothing is given back");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(pool.stat("/pool/activity/discarded_blocks").as_u64().unwrap() >= 1800);
}

#[test]
fn every_backend_keeps_what_it_is_given() {
    for policy in ["compact", "inram", "dtb", "cbt"] {
        let pool = TestPool::new(&["--policy", policy, "--metadata-cache", "1m"]);
        fs::write(pool.file("raw"), noise(7, 2 << 20)).unwrap();
        done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
        let served = pool.serve(&[]);
        assert_eq!(pool.stat("/pool/policy"), policy);
        assert_eq!(pool.stat("/pool/physical_blocks"), 512);
        done(&["volume", "clone", &pool.volume("a"), "b"]);
        done(&["pool", "check", &pool.path(), "--data"]);
        drop(served);
        done(&["volume", "export", &pool.volume("b"), &pool.file("back")]);
        assert!(fs::read(pool.file("back")).unwrap() == noise(7, 2 << 20), "{policy}");
        pool.assert_clean();
    }
}

#[test]
fn a_full_pool_says_so_and_grows_while_it_is_served() {
    let pool = TestPool::new(&[]);
    let served = pool.serve(&[]);
    fs::write(pool.file("raw"), noise(4, 80 << 20)).unwrap();
    let full = gemelo(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
    assert_eq!(full.status, 5, "{}", full.err);
    assert!(full.err.contains("no space is left"), "{}", full.err);
    assert_eq!(pool.stat("/pool/volumes"), 0, "half a volume is none");
    assert!(refused(&["pool", "grow", &pool.path(), "--capacity", "1m"]).contains("shrink"));
    done(&["pool", "grow", &pool.path(), "--capacity", "96m"]);
    done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
    let warned = gemelo(&["pool", "stat", &pool.path()]);
    assert!(warned.err.contains("more than 80 % of the data store is in use"), "{}", warned.err);
    let (status, said) = served.stop();
    assert_eq!(status, 0, "{said}");
    // A look of the watcher during the first import finds more in use.
    assert!(said.contains(" % of the data store is in use"), "in the log too: {said}");
    pool.assert_clean();
}

#[test]
fn damage_is_found_idle_and_served_and_repaired_idle_only() {
    use std::os::unix::fs::FileExt;
    let pool = TestPool::new(&[]);
    fs::write(pool.file("raw"), noise(5, 1 << 20)).unwrap();
    done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
    pool.assert_clean();
    let data = fs::OpenOptions::new().write(true).open(pool.file("pool/data")).unwrap();
    data.write_all_at(b"damage", 20 * 4096).unwrap();

    let served = pool.serve(&[]);
    let metadata_only = gemelo(&["pool", "check", &pool.path()]);
    assert_eq!(metadata_only.status, 0, "{}{}", metadata_only.out, metadata_only.err);
    let found = gemelo(&["pool", "check", &pool.path(), "--data"]);
    assert_eq!(found.status, 4, "{}{}", found.out, found.err);
    assert!(
        found.out.contains("lost: the content of block 20 is damaged: block 19 of 'a'"),
        "{}",
        found.out
    );
    let known = gemelo(&["pool", "check", &pool.path()]);
    assert_eq!(known.status, 4, "{}{}", known.out, known.err);
    assert!(known.out.contains("found damaged before: 1 block; --data"), "{}", known.out);
    let busy = in_use(&["pool", "check", &pool.path(), "--repair"]);
    assert!(busy.contains("cannot be repaired"), "{busy}");
    assert_eq!(served.stop().0, 0);
    let known = gemelo(&["pool", "check", &pool.path()]);
    assert_eq!(known.status, 4, "marked in the metadata: {}{}", known.out, known.err);
    assert!(known.out.contains("found damaged before: 1 block; --data"), "{}", known.out);

    let found = gemelo(&["pool", "check", &pool.path(), "--data"]);
    assert_eq!(found.status, 4, "{}{}", found.out, found.err);
    assert!(found.out.contains("block 20 is damaged: block 19 of 'a'"), "{}", found.out);
    let asked = gemelo(&["pool", "check", &pool.path(), "--data", "--repair"]);
    assert_eq!(asked.status, 2, "nothing is given up without a word: {}{}", asked.out, asked.err);
    assert!(asked.err.contains("volume 'a': 1 block whose content is lost"), "{}", asked.err);
    assert!(asked.err.contains("use --force"), "{}", asked.err);
    let repaired = gemelo(&["pool", "check", &pool.path(), "--data", "--repair", "--force"]);
    assert_eq!(repaired.status, 4, "what is lost is told: {}{}", repaired.out, repaired.err);
    let read = gemelo(&["volume", "export", &pool.volume("a"), &pool.file("back")]);
    assert_eq!(read.status, 4, "{}", read.err);
    assert!(
        read.err.contains("read the volume at byte") && !fs::exists(pool.file("back")).unwrap(),
        "{}",
        read.err
    );
}

/// A pool whose volume 'a' was written in three steps of two commits each. The last commit of the
/// second step is damaged in both of its copies.
fn pool_with_lost_commit() -> TestPool {
    use gemelo_device::{BlockDevice, Durability, Operation, Request};
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "1m"]);
    let tuning = Tuning { background: false, ..Tuning::default() };
    let clock = Arc::new(SystemClock::new());
    let open = Pool::open(Path::new(&pool.path()), tuning, clock).unwrap();
    let volume = open.volume("a").unwrap();
    for step in 0..3 {
        for offset in [0, (1 + step) * 4096] {
            let data = noise(step, 4096);
            let operation =
                Operation::Write { offset, data: &data, durability: Durability::Immediate };
            let mut batch = [Request { operation, outcome: Ok(()) }];
            volume.execute(&mut batch);
            assert!(batch[0].outcome.is_ok());
        }
    }
    // Without being closed, so that the journal is needed.
    drop((volume, open));
    let file = pool.file("pool/metadata");
    let mut metadata = fs::read(&file).unwrap();
    let number = |page: &[u8]| u64::from_le_bytes(page[8..16].try_into().unwrap());
    let commits = || metadata.chunks(4096).filter(|page| page.starts_with(b"GEMELOJC"));
    let lost = commits().map(number).max().unwrap() - 2;
    for page in metadata.chunks_mut(4096).filter(|page| page.starts_with(b"GEMELOJC")) {
        if number(page) == lost {
            page[48] ^= 1;
        }
    }
    fs::write(&file, metadata).unwrap();
    pool
}

#[test]
fn a_lost_commit_is_skipped_or_rolled_back_as_asked() {
    let pool = pool_with_lost_commit();
    let looked = gemelo(&["pool", "check", &pool.path()]);
    assert_eq!(looked.status, 4, "{}{}", looked.out, looked.err);
    for part in
        ["--lost-commit skip", "--lost-commit roll-back", "1 lost commit, which by its length"]
    {
        assert!(looked.out.contains(part), "{}", looked.out);
    }
    assert!(looked.out.contains("volume 'a': up to 2 blocks written last"), "{}", looked.out);
    let told = gemelo(&["pool", "check", &pool.path(), "--json", "-"]);
    let told: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    let outlook = &told["result"]["repair_outlook"];
    assert_eq!(outlook["lost_history"]["commits"], 1, "{outlook}");
    assert!(outlook["lost_history"]["max_changes"].as_u64().unwrap() > 0, "{outlook}");
    assert_eq!(outlook["roll_back"]["costs"][0]["volume"], "a", "{outlook}");
    assert_eq!(outlook["roll_back"]["costs"][0]["undone_blocks"], 2, "{outlook}");
    assert_eq!(outlook["skip"]["costs"], serde_json::json!([]), "{outlook}");
    let asked = gemelo(&["pool", "check", &pool.path(), "--repair"]);
    assert_eq!(asked.status, 2, "{}{}", asked.out, asked.err);
    assert!(asked.err.contains("use --force"), "{}", asked.err);
    assert!(
        refused(&["pool", "check", &pool.path(), "--lost-commit", "skip"]).contains("--repair")
    );
    // The block that only the lost commit wrote, and the two that a later one wrote.
    for (options, newest) in [(&[][..], 2), (&["--lost-commit", "roll-back"], 1)] {
        let pool = pool_with_lost_commit();
        let path = pool.path();
        gemelo(&[&["pool", "check", &path, "--repair", "--force"], options].concat());
        pool.assert_clean();
        done(&["volume", "export", &pool.volume("a"), &pool.file("back")]);
        let back = fs::read(pool.file("back")).unwrap();
        assert!(back[..4096] == noise(newest, 4096), "{options:?}");
        let last = if newest == 2 { noise(2, 4096) } else { vec![0; 4096] };
        assert!(back[3 * 4096..4 * 4096] == last, "{options:?}");
    }
}

#[test]
fn pools_are_listed_with_who_serves_them() {
    let pool = TestPool::new(&[]);
    done(&["pool", "create", &pool.file("second"), "--capacity", "32m"]);
    fs::create_dir(pool.file("no pool")).unwrap();
    let served = pool.serve(&[]);
    let text = done(&["pool", "ls", pool.directory.path().to_str().unwrap()]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    let of =
        |name: &str| lines.iter().find(|line| line.contains(name)).copied().unwrap_or_default();
    assert!(of("/pool ").contains(&format!("served by process {}", served.process_id())), "{text}");
    assert!(of("/second ").contains("idle") && of("/second ").contains("32.00 MiB"), "{text}");
}

#[test]
fn settings_that_make_no_sense_are_named_and_no_health() {
    let pool = TestPool::new(&[]);
    let served = pool.serve(&[]);
    fs::write(pool.file("pool/settings.toml"), "cache = \"1m\"\ncommit-interval = \"soon\"\n")
        .unwrap();
    let check = |last: &str| {
        let ran = gemelo(&["pool", "check", &pool.path()]);
        assert_eq!((ran.status, ran.err.as_str()), (1, ""), "{}", ran.out);
        assert!(
            ran.out.starts_with("wrong: ") && ran.out.contains("settings.toml: line 2: "),
            "{}",
            ran.out
        );
        assert!(ran.out.ends_with(last), "{}", ran.out);
    };
    check("pages on disk are checked when nobody serves it\n");
    // The server has read them before.
    done(&["volume", "create", &pool.volume("a"), "--size", "1m"]);
    served.stop();
    check("the disks are what they should be, the settings are not\n");
    for words in [
        &["pool", "stat", &pool.path()][..],
        &["serve", &pool.path(), "--listen", "unix:/nowhere/s"],
    ] {
        let said = refused(words);
        assert!(said.contains("settings.toml: line 2: ") && said.contains("remove it"), "{said}");
    }
    fs::remove_file(pool.file("pool/settings.toml")).unwrap();
    pool.assert_clean();
}

#[test]
fn an_option_with_a_value_does_not_swallow_the_pool() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "1m"]);
    for (words, name) in [(["pool", "stat"], pool.path()), (["volume", "stat"], pool.volume("a"))] {
        let text = done(&[&words[..], &["--json", "-", &name]].concat());
        assert!(text.starts_with('{'), "{text}");
        let said = refused(&[&words[..], &["--json", &name]].concat());
        assert!(said.contains("required arguments were not provided"), "{said}");
    }
}
