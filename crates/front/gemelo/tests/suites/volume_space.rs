//! Tests of `--space`, and of the origin and creation time of volumes, on idle and on served pools.

use crate::served::{TestPool, done, noise, refused};
use serde_json::{Value, json};
use std::fs;

const MIB: usize = 1 << 20;

/// A pool of three volumes of 1 MiB each. `a` shares nothing, `b` shares a quarter with `s`, and
/// `s` is a snapshot of an earlier `a`.
fn pool() -> TestPool {
    let pool = TestPool::new(&[]);
    let (first, second) = (noise(1, MIB), noise(2, MIB));
    let raw = pool.file("raw");
    fs::write(&raw, &first).unwrap();
    done(&["volume", "import", &raw, &pool.volume("a")]);
    done(&["volume", "snapshot", &pool.volume("a"), "s"]);
    fs::write(&raw, [&first[..MIB / 4], &second[MIB / 4..]].concat()).unwrap();
    done(&["volume", "import", &raw, &pool.volume("b")]);
    fs::write(&raw, noise(3, MIB)).unwrap();
    done(&["volume", "import", &raw, &pool.volume("a"), "--force"]);
    pool
}

fn result(words: &[&str]) -> Value {
    let text = done(&[words, &["--json", "-"]].concat());
    serde_json::from_str::<Value>(&text).unwrap()["result"].take()
}

/// Returns the text of a command with one space between two words.
fn words(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn idle_and_served(test: impl Fn(&TestPool)) {
    let pool = pool();
    test(&pool);
    let served = pool.serve(&[]);
    test(&pool);
    assert_eq!(served.stop(), (0, String::new()));
}

#[test]
fn exclusive_and_shared_space_of_each_volume_are_exact() {
    idle_and_served(|pool| {
        let list = result(&["volume", "ls", &pool.path(), "--space"])["volumes"].take();
        for (at, (name, exclusive, shared)) in
            [("a", MIB, 0), ("b", MIB / 4 * 3, MIB / 4), ("s", MIB / 4 * 3, MIB / 4)]
                .into_iter()
                .enumerate()
        {
            let one = result(&["volume", "stat", &pool.volume(name), "--space"]);
            for found in [&list[at], &one] {
                assert_eq!(found["name"], name);
                assert_eq!(found["exclusive_bytes"], exclusive, "{name}");
                assert_eq!(found["shared_bytes"], shared, "{name}");
            }
        }
        let text = done(&["volume", "stat", &pool.volume("b"), "--space"]);
        let text = words(&text);
        assert!(text.contains(&"exclusive 768.00 KiB".to_owned()), "{text:?}");
        assert!(text.contains(&"shared 256.00 KiB".to_owned()), "{text:?}");
        let text = words(&done(&["volume", "ls", &pool.path(), "--space"]));
        assert!(text[0].starts_with("volume size mapped exclusive shared dedup"), "{text:?}");
        assert!(text[2].contains("1.00 MiB 768.00 KiB 256.00 KiB inline"), "{text:?}");
        let words = ["volume", "stat", &pool.volume("c"), "--space"];
        assert!(refused(&words).contains("there is no volume 'c'"));
    });
}

#[test]
fn the_dedup_ratio_is_told_with_and_without_snapshots() {
    idle_and_served(|pool| {
        let found = result(&["pool", "stat", &pool.path(), "--space"]);
        let expected = json!({
            "logical_blocks": 768,
            "physical_blocks": 704,
            "used_blocks": 704,
            "logical_blocks_without_snapshots": 512,
            "physical_blocks_without_snapshots": 512,
            "used_blocks_without_snapshots": 512,
            "dedup_ratio": 768.0 / 704.0,
            "dedup_ratio_without_snapshots": 1.0,
        });
        assert_eq!(found["space"], expected);
        let text = done(&["pool", "stat", &pool.path(), "--space"]);
        let line =
            "dedup ratio without snapshots 1.0000, 768.00 KiB in blocks that only snapshots hold";
        assert!(text.lines().any(|found| found == line), "{text}");
    });
}

#[test]
fn removing_a_volume_frees_its_exclusive_space() {
    idle_and_served(|pool| {
        // The second run finds the snapshot of the first one gone, and removes a clone instead.
        let name = if pool.stat("/pool/volumes") == 3 { "s" } else { "b" };
        let exclusive = result(&["volume", "stat", &pool.volume(name), "--space"]);
        let exclusive = exclusive["exclusive_bytes"].as_u64().unwrap() / 4096;
        let before = pool.stat("/pool/physical_blocks").as_u64().unwrap();
        done(&["volume", "rm", &pool.volume(name), "--force"]);
        let after = pool.stat("/pool/physical_blocks").as_u64().unwrap();
        assert!(exclusive > 0 && before - after == exclusive, "{before} {after} {exclusive}");
    });
}

#[test]
fn maps_are_walked_only_on_demand() {
    let pool = pool();
    let one = result(&["volume", "stat", &pool.volume("a")]);
    assert_eq!((&one["exclusive_bytes"], &one["shared_bytes"]), (&Value::Null, &Value::Null));
    let list = result(&["volume", "ls", &pool.path()]);
    assert_eq!(list[0]["exclusive_bytes"], Value::Null);
    assert_eq!(pool.stat("/space"), Value::Null);
    assert!(!done(&["volume", "ls", &pool.path()]).contains("exclusive"));
}

#[test]
fn origin_and_creation_time_are_told() {
    idle_and_served(|pool| {
        if pool.stat("/pool/volumes") == 3 {
            done(&["volume", "clone", &pool.volume("s"), "c"]);
            done(&["volume", "create", &pool.volume("e"), "--size", "1m"]);
        }
        let list = done(&["volume", "ls", &pool.path()]);
        let json = result(&["volume", "ls", &pool.path()])["volumes"].take();
        let origins = ["import", "import", "clone of s", "empty", "snapshot of a"];
        for (at, (name, origin)) in ["a", "b", "c", "e", "s"].into_iter().zip(origins).enumerate() {
            let stat = done(&["volume", "stat", &pool.volume(name)]);
            let line = words(&stat).into_iter().find(|line| line.starts_with("origin ")).unwrap();
            assert_eq!(line, format!("origin {origin}"));
            let row = list.lines().nth(at + 1).unwrap();
            assert!(row.starts_with(name) && row.contains(origin), "{row}");
            let created = row.split_whitespace().last().unwrap();
            assert!(created.starts_with("20") && created.ends_with('Z'), "{row}");
            assert!(words(&stat).contains(&format!("created {created}")), "{stat}");
            assert!(json[at]["created_s"].as_u64().unwrap() > 1_700_000_000);
        }
        assert_eq!(json[2]["origin"]["name"], "s");
    });
}
