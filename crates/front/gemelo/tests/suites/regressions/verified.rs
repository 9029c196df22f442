//! `gemelo volume verify` finds each difference, reads and moves little, and says what fails.

use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, noise, refused};
use serde_json::Value;
use std::fs;

const BLOCK: usize = 4096;

fn import(pool: &TestPool, name: &str, bytes: &[u8]) {
    let raw = pool.file("raw");
    fs::write(&raw, bytes).unwrap();
    done(&["volume", "import", &raw, &pool.volume(name), "--force"]);
}

/// Compares, and returns the exit status and the result.
fn verify(one: &str, other: &str, more: &[&str]) -> (i32, Value) {
    let Ran { status, out, err } =
        gemelo(&[&["volume", "verify", one, other, "--json", "-"], more].concat());
    assert_eq!(err, "", "{one} {other}");
    (status, serde_json::from_str::<Value>(&out).unwrap()["result"].take())
}

#[test]
fn each_differing_range_is_told_and_holes_are_zeros() {
    // More parts than one question has, most of them holes.
    let mut image = noise(1, 3 << 20);
    image.resize(300 << 20, 0);
    let mut changed = image.clone();
    for (from, length) in [(0, 1), (BLOCK - 1, BLOCK), (290 << 20, 9)] {
        changed[from..from + length].fill(7);
    }
    let one = TestPool::new(&[]);
    let other = TestPool::new(&["--block-size", "16k", "--compression", "lz4"]);
    for is_served in [false, true] {
        let servers = is_served.then(|| [one.serve(&[]), other.serve(&[])]);
        import(&one, "v", &image);
        import(&other, "v", &image);
        let program = env!("CARGO_BIN_EXE_gemelo");
        let connect = ["--connect", "sh -c", "--program", program];
        let far = format!("host:{}", other.volume("v"));
        let (status, equal) = verify(&one.volume("v"), &far, &connect);
        assert_eq!((status, &equal["is_equal"]), (0, &Value::Bool(true)), "{equal}");
        assert_eq!(equal["compared_bytes"], 300 << 20);
        import(&other, "v", &changed);
        let (status, unequal) = verify(&one.volume("v"), &other.volume("v"), &[]);
        let range = |from: usize, blocks: usize| serde_json::json!({"offset_bytes": from, "length_bytes": blocks * BLOCK});
        assert_eq!(status, 1);
        assert_eq!(unequal["ranges"], serde_json::json!([range(0, 2), range(290 << 20, 1)]));
        assert_eq!(unequal["unequal_bytes"], 3 * BLOCK);
        let Ran { status, out, .. } =
            gemelo(&["volume", "verify", &one.volume("v"), &other.volume("v")]);
        assert!(status == 1 && out.contains("not equal: 12.00 KiB differ in 2 ranges"), "{out}");
        for server in servers.into_iter().flatten() {
            assert_eq!(server.stop(), (0, String::new()));
        }
    }
}

#[test]
fn lengths_count_and_what_is_equal_since_a_snapshot_is_not_read() {
    let (one, other) = (TestPool::new(&[]), TestPool::new(&[]));
    let image = noise(2, 5 << 20);
    import(&one, "v", &image);
    done(&["volume", "snapshot", &one.volume("v"), "s"]);
    done(&["volume", "copy", &one.volume("s"), &other.volume("its copy")]);
    done(&["volume", "clone", &other.volume("its copy"), "w"]);
    let since = ["--since", "s"];
    let (status, equal) = verify(&one.volume("v"), &other.volume("w"), &since);
    assert_eq!((status, &equal["compared_bytes"]), (0, &Value::from(0)), "{equal}");
    let mut changed = image;
    changed[3 << 20] ^= 1;
    import(&one, "v", &changed);
    let (status, unequal) = verify(&one.volume("v"), &other.volume("w"), &since);
    assert_eq!((status, &unequal["compared_bytes"]), (1, &Value::from(1 << 20)), "{unequal}");
    let (status, again) = verify(&other.volume("w"), &one.volume("v"), &["--since", "its copy"]);
    assert_eq!((status, &again["ranges"]), (1, &unequal["ranges"]));
    // Bytes beyond the end of one of both are zeros, and the lengths differ.
    done(&["volume", "resize", &other.volume("w"), "--size", "6m"]);
    import(&one, "v", &noise(2, 5 << 20));
    let (status, unequal) = verify(&one.volume("v"), &other.volume("w"), &[]);
    assert_eq!((status, &unequal["ranges"]), (1, &serde_json::json!([])), "{unequal}");
    let (status, unequal) = verify(&one.volume("v"), &other.volume("w"), &since);
    assert_eq!((status, &unequal["is_equal"]), (1, &Value::Bool(false)));
}

#[test]
fn what_cannot_be_compared_is_refused_in_words() {
    let pool = TestPool::new(&[]);
    import(&pool, "v", &noise(3, BLOCK));
    let v = pool.volume("v");
    let Ran { status, err, .. } = gemelo(&["volume", "verify", &v, &pool.volume("none")]);
    assert!(status == 2 && err.contains("there is no volume 'none'"), "{status}: {err}");
    let Ran { status, err, .. } = gemelo(&["volume", "verify", &v, &v, "--since", "none"]);
    assert!(status == 2 && err.contains("has no snapshot 'none'"), "{status}: {err}");
    assert!(refused(&["volume", "verify", &v, &v, "--connect", "sh -c"]).contains("HOST:POOL"));
    assert!(refused(&["volume", "verify", &v, "nothing"]).contains("nothing"));
    let far = format!("host:{v}");
    let Ran { status, err, .. } = gemelo(&["volume", "verify", &v, &far, "--connect", "false"]);
    assert!(status == 1 && err.contains("host host: exit status: 1"), "{status}: {err}");
}
