//! Tests of `gemelo volume` on idle and on served pools. The same commands must give the same
//! results.

use crate::common::{gemelo, gemelo_reading};
use crate::served::{TestPool, done, noise, refused, sparse_file};
use std::fs;
use std::process::{Command, Stdio};

/// Runs a test on an idle pool and on a served one; afterwards the pool has to be whole.
fn idle_and_served(test: impl Fn(&TestPool)) {
    for is_served in [false, true] {
        let pool = TestPool::new(&[]);
        let served = is_served.then(|| pool.serve(&[]));
        test(&pool);
        if let Some(served) = served {
            let (status, said) = served.stop();
            assert_eq!((status, said.as_str()), (0, ""));
        }
        pool.assert_clean();
    }
}

#[test]
fn volumes_are_made_listed_renamed_resized_set_and_removed() {
    idle_and_served(|pool| {
        let volume = pool.volume("a");
        done(&["volume", "create", &volume, "--size", "20m", "--dedup", "off"]);
        assert!(
            refused(&["volume", "create", &volume, "--size", "20m"])
                .contains("a volume 'a' exists already")
        );
        assert!(
            refused(&["volume", "create", &pool.volume("b"), "--size", "1000"])
                .contains("block size")
        );
        let list = done(&["volume", "ls", &pool.path()]);
        assert!(
            list.lines().nth(1).unwrap().contains("20.00 MiB") && list.contains("off"),
            "{list}"
        );
        done(&["volume", "set", &volume, "--dedup", "inline"]);
        assert_eq!(pool.stat("/volumes/0/mode"), "inline");
        done(&["volume", "resize", &volume, "--size", "30m"]);
        assert!(refused(&["volume", "resize", &volume, "--size", "10m"]).contains("--force"));
        done(&["volume", "resize", &volume, "--size", "10m", "--force"]);
        assert_eq!(pool.stat("/volumes/0/size_bytes"), 10 << 20);
        done(&["volume", "rename", &volume, "b"]);
        assert!(refused(&["volume", "rm", &volume]).contains("there is no volume 'a'"));
        let text = done(&["volume", "stat", &pool.volume("b")]);
        assert!(text.contains("10.00 MiB"), "{text}");
        done(&["volume", "rm", &pool.volume("b")]);
        assert_eq!(pool.stat("/pool/volumes"), 0);
    });
}

#[test]
fn an_export_is_for_its_owner_alone_unless_the_file_was_there() {
    use std::os::unix::fs::PermissionsExt;
    let pool = TestPool::new(&[]);
    let (raw, back) = (pool.file("raw"), pool.file("back"));
    fs::write(&raw, noise(1, 5000)).unwrap();
    done(&["volume", "import", &raw, &pool.volume("a")]);
    let mode = || fs::metadata(&back).unwrap().permissions().mode() & 0o777;
    done(&["volume", "export", &pool.volume("a"), &back]);
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&back, fs::Permissions::from_mode(0o640)).unwrap();
    done(&["volume", "export", &pool.volume("a"), &back, "--force"]);
    assert_eq!(mode(), 0o640);
}

#[test]
fn damage_that_an_export_finds_is_healed_by_the_next_write_of_the_content() {
    use std::os::unix::fs::FileExt;
    let pool = TestPool::new(&[]);
    let (raw, back) = (pool.file("raw"), pool.file("back"));
    fs::write(&raw, noise(3, 64 * 4096)).unwrap();
    done(&["volume", "import", &raw, &pool.volume("a")]);
    let data = fs::OpenOptions::new().write(true).open(format!("{}/data", pool.path())).unwrap();
    data.write_all_at(b"damage", 20 * 4096).unwrap();
    let exported = gemelo(&["volume", "export", &pool.volume("a"), &back]);
    assert_eq!(exported.status, 4, "{}", exported.err);
    done(&["volume", "import", &raw, &pool.volume("b")]);
    for volume in ["a", "b"] {
        done(&["volume", "export", &pool.volume(volume), &back, "--force"]);
        assert_eq!(fs::read(&back).unwrap(), fs::read(&raw).unwrap(), "{volume}");
    }
}

#[test]
fn what_is_imported_comes_out_the_same_and_holes_stay_holes() {
    use std::os::unix::fs::MetadataExt;
    idle_and_served(|pool| {
        let (raw, back) = (pool.file("raw"), pool.file("back"));
        let parts =
            [(0, noise(1, 5000)), (12 << 20, noise(2, 3 << 20)), ((19 << 20) - 7, noise(3, 7))];
        let borrowed: Vec<(u64, &[u8])> =
            parts.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect();
        sparse_file(&raw, 20 << 20, &borrowed);
        let said = done(&["volume", "import", &raw, &pool.volume("a")]);
        assert!(said.contains("20.00 MiB imported"), "{said}");
        // 2 blocks, 768, and 1 at the end of the third part.
        assert_eq!(pool.stat("/pool/logical_blocks"), 2 + 768 + 1);
        done(&["volume", "export", &pool.volume("a"), &back]);
        assert!(fs::read(&raw).unwrap() == fs::read(&back).unwrap(), "the volume is not the file");
        assert!(fs::metadata(&back).unwrap().blocks() * 512 <= 4 << 20);
        assert!(refused(&["volume", "export", &pool.volume("a"), &back]).contains("--force"));

        // Replacing clears what was there; the volume keeps its size.
        assert!(refused(&["volume", "import", &raw, &pool.volume("a")]).contains("--force"));
        fs::write(&raw, noise(4, 4096)).unwrap();
        done(&["volume", "import", &raw, &pool.volume("a"), "--force"]);
        assert_eq!(pool.stat("/pool/logical_blocks"), 1);
        done(&["volume", "export", &pool.volume("a"), &back, "--force"]);
        let bytes = fs::read(&back).unwrap();
        assert!(
            bytes.len() == 20 << 20
                && bytes[..4096] == noise(4, 4096)
                && bytes[4096..].iter().all(|b| *b == 0)
        );
    });
}

#[test]
fn streams_come_in_and_go_out() {
    idle_and_served(|pool| {
        let text = "twin ".repeat(2_000_000);
        let volume = pool.volume("a");
        let ran = gemelo_reading(&text, &["volume", "import", "-", &volume]);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""));
        let size_bytes = text.len().div_ceil(4096) * 4096;
        assert_eq!(pool.stat("/volumes/0/size_bytes"), size_bytes);
        let out = Command::new(env!("CARGO_BIN_EXE_gemelo"))
            .args(["volume", "export", &volume, "-"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(out.stdout == text.as_bytes());
        let ran =
            gemelo_reading(&text, &["volume", "import", "-", &pool.volume("b"), "--size", "1m"]);
        assert_eq!(ran.status, 1, "{}", ran.err);
        assert!(ran.err.contains("more to read than the volume's 1048576 bytes"), "{}", ran.err);
        assert_eq!(pool.stat("/pool/volumes"), 1, "half a volume is none");
    });
}

#[test]
fn copies_share_all_blocks_and_part_when_written() {
    idle_and_served(|pool| {
        fs::write(pool.file("raw"), noise(6, 1 << 20)).unwrap();
        done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
        done(&["volume", "snapshot", &pool.volume("a"), "before"]);
        done(&["volume", "clone", &pool.volume("before"), "other"]);
        assert_eq!(pool.stat("/pool/logical_blocks"), 768);
        assert_eq!(pool.stat("/pool/physical_blocks"), 256);
        fs::write(pool.file("new"), noise(7, 1 << 20)).unwrap();
        done(&["volume", "import", &pool.file("new"), &pool.volume("other"), "--force"]);
        assert_eq!(pool.stat("/pool/physical_blocks"), 512);
        let words = ["volume", "import", &pool.file("new"), &pool.volume("before"), "--force"];
        assert!(refused(&words).contains("is a snapshot, which takes no writes"));
        done(&["volume", "export", &pool.volume("before"), &pool.file("back")]);
        assert!(fs::read(pool.file("back")).unwrap() == noise(6, 1 << 20));
        assert!(refused(&["volume", "snapshot", &pool.volume("a"), "before"]).contains("already"));
        assert!(
            refused(&["volume", "rm", &pool.volume("before")]).contains("holds data: use --force")
        );
        done(&["volume", "rm", &pool.volume("before"), "--force"]);
    });
}

#[test]
fn what_cannot_be_is_refused_and_makes_no_volume() {
    idle_and_served(|pool| {
        fs::write(pool.file("empty"), "").unwrap();
        fs::write(pool.file("raw"), noise(8, 10_000)).unwrap();
        let (raw, volume) = (pool.file("raw"), pool.volume("a"));
        for (words, what) in [
            (&["import", &pool.file("missing"), &volume][..], "missing"),
            (&["import", &pool.file("empty"), &volume], "is empty"),
            (&["import", &pool.path(), &volume], "/pool: "),
            (&["import", &raw, &volume, "--size", "4k"], "more than the 4096 of the volume"),
            (&["import", &raw, "novolume"], "invalid volume 'novolume'"),
            (&["export", &volume, &pool.file("back")], "there is no volume 'a'"),
            (&["export", &volume, "/no/such/directory/back"], "/no/such/directory"),
            (&["create", &pool.volume("a\u{7}"), "--size", "1m"], "control characters"),
            (&["stat", &volume], "there is no volume 'a'"),
            (&["set", &volume, "--dedup", "inline"], "there is no volume 'a'"),
            (&["resize", &volume, "--size", "1m"], "there is no volume 'a'"),
        ] {
            let message = refused(&[&["volume"], words].concat());
            assert!(message.contains(what), "{words:?}: {message}");
        }
        assert_eq!(pool.stat("/pool/volumes"), 0);
        assert!(!fs::exists(pool.file("back")).unwrap());
    });
}

#[test]
fn pipes_and_character_devices_are_streams_and_stay_what_they_are() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::FileTypeExt;
    let pool = TestPool::new(&[]);
    let pipe = pool.file("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&pipe, noise(1, 3_000_000)).unwrap());
        done(&["volume", "import", &pipe, &pool.volume("a")]);
    });
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| fs::read(&pipe).unwrap());
        done(&["volume", "export", &pool.volume("a"), &pipe]);
        reader.join().unwrap()
    });
    assert!(read == noise(1, 3_000_000));
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    done(&["volume", "export", &pool.volume("a"), "/dev/null", "--force"]);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

/// Kills an import of standard input after the pool has taken some of it.
fn kill_an_import(pool: &TestPool, name: &str) {
    use std::io::Write;
    let mut import = Command::new(env!("CARGO_BIN_EXE_gemelo"))
        .args(["volume", "import", "-", &pool.volume(name)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The last of these is taken from the pipe after the first was handed to the pool.
    import.stdin.as_mut().unwrap().write_all(&noise(1, 20 << 20)).unwrap();
    import.kill().unwrap();
    import.wait().unwrap();
}

#[test]
fn a_killed_import_leaves_no_volume_that_looks_whole() {
    let pool = TestPool::new(&[]);
    let names = |pool: &TestPool| -> Vec<String> {
        let list = done(&["volume", "ls", &pool.path()]);
        list.lines()
            .skip(1)
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    fs::write(pool.file("raw"), noise(2, 1 << 20)).unwrap();
    kill_an_import(&pool, "a");
    assert_eq!(names(&pool), ["a.importing"]);
    // Nobody else can have an idle pool: what lies there is left over.
    let ran = gemelo_reading("", &["volume", "import", &pool.file("raw"), &pool.volume("a")]);
    assert!(
        ran.status == 0 && ran.err.contains("left by an import that was killed"),
        "{}",
        ran.err
    );
    assert_eq!(names(&pool), ["a"]);

    let served = pool.serve(&[]);
    kill_an_import(&pool, "b");
    let words = ["volume", "import", &pool.file("raw"), &pool.volume("b")];
    let said = refused(&words);
    let remove = format!("gemelo volume rm --force {}", pool.volume("b.importing"));
    assert!(said.contains(&remove), "{said}");
    done(&["volume", "rm", "--force", &pool.volume("b.importing")]);
    done(&words);
    assert_eq!(names(&pool), ["a", "b"]);
    served.stop();
    pool.assert_clean();
    let long = "n".repeat(246);
    let said = refused(&["volume", "import", &pool.file("raw"), &pool.volume(&long)]);
    assert!(said.contains("246 bytes, an import takes 245"), "{said}");
}

#[test]
fn a_salvage_has_all_but_the_bad_blocks_and_says_which_they_are() {
    let pool = TestPool::new(&[]);
    let (raw, back, volume) = (pool.file("raw"), pool.file("back"), pool.volume("a"));
    let mut bytes = noise(3, 6 << 20);
    fs::write(&raw, &bytes).unwrap();
    done(&["volume", "import", &raw, &volume]);
    let data = pool.file("pool/data");
    let mut stored = fs::read(&data).unwrap();
    for block in [7, 8, 1100] {
        let content = &bytes[block * 4096..][..4096];
        let at =
            (0..stored.len()).step_by(512).find(|at| stored[*at..].starts_with(content)).unwrap();
        stored[at + 100] ^= 1;
        bytes[block * 4096..][..4096].fill(0);
    }
    fs::write(&data, &stored).unwrap();
    for is_served in [false, true] {
        let served = is_served.then(|| pool.serve(&[]));
        let ran = gemelo_reading("", &["volume", "export", &volume, &back]);
        // Over NBD a damaged block is an I/O error like any other.
        assert_eq!(ran.status, if is_served { 1 } else { 4 });
        // Two threads copy: either may come upon its bad block first.
        let is_named = ["byte 28672", "byte 4505600"].iter().any(|place| ran.err.contains(place));
        assert!(is_named && ran.err.contains("--salvage"), "{}", ran.err);
        assert!(!fs::exists(&back).unwrap());
        let json = pool.file("bad.json");
        let words = ["volume", "export", &volume, &back, "--salvage", "--json", &json];
        let ran = gemelo_reading("", &words);
        assert_eq!(ran.status, 1, "{}", ran.err);
        assert!(ran.out.contains("12.00 KiB of") && ran.out.contains("in 2 ranges"), "{}", ran.out);
        assert!(ran.out.contains("8,192 bytes at byte 28672:"), "{}", ran.out);
        assert!(fs::read(&back).unwrap() == bytes, "not the volume with zeros for what is bad");
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let ranges = json.pointer("/result/bad/ranges").unwrap();
        assert_eq!(
            (&ranges[0]["length_bytes"], &ranges[1]["offset_bytes"]),
            (&8192.into(), &4_505_600.into())
        );
        // A stream gets the same, and the list goes where it does no harm.
        let stream = Command::new(env!("CARGO_BIN_EXE_gemelo"))
            .args(["volume", "export", "--salvage", &volume, "-"])
            .output()
            .unwrap();
        assert!(stream.status.code() == Some(1) && stream.stdout == bytes);
        assert!(String::from_utf8_lossy(&stream.stderr).contains("12.00 KiB of"));
        if let Some(served) = served {
            served.stop();
        }
        fs::remove_file(&back).unwrap();
        fs::remove_file(pool.file("bad.json")).unwrap();
    }
}
