//! An export has the length that was imported, also after snapshots, copies and rollbacks.

use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, noise};
use gemelo_tools::{all_there, tool};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

/// No multiple of any block.
const LENGTH: usize = 1_000_001;

fn exported(pool: &TestPool, name: &str) -> Vec<u8> {
    let back = pool.file("back");
    done(&["volume", "export", &pool.volume(name), &back, "--force"]);
    fs::read(&back).unwrap()
}

fn padding(pool: &TestPool, name: &str) -> u64 {
    let text = done(&["volume", "stat", &pool.volume(name), "--json", "-"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["result"]["padding_bytes"].as_u64().unwrap()
}

fn import(pool: &TestPool, name: &str, bytes: &[u8], options: &[&str]) {
    let raw = pool.file("raw");
    fs::write(&raw, bytes).unwrap();
    done(&[&["volume", "import", &raw, &pool.volume(name)], options].concat());
}

#[test]
fn an_export_has_the_imported_length_through_snapshots_copies_and_rollbacks() {
    let image = noise(1, LENGTH);
    let there = TestPool::new(&["--block-size", "8k"]);
    for is_served in [false, true] {
        let pool = TestPool::new(&[]);
        let server = is_served.then(|| pool.serve(&[]));
        import(&pool, "v", &image, &[]);
        assert!(exported(&pool, "v") == image);
        assert_eq!(padding(&pool, "v"), 4095 - (LENGTH as u64 - 1) % 4096);
        let stat = done(&["volume", "stat", &pool.volume("v")]);
        assert!(stat.contains("1,000,001 bytes"), "{stat}");
        done(&["volume", "snapshot", &pool.volume("v"), "s"]);
        done(&["volume", "clone", &pool.volume("s"), "c"]);
        done(&["volume", "resize", &pool.volume("c"), "--size", "2m"]);
        assert_eq!((padding(&pool, "c"), exported(&pool, "c").len()), (0, 2 << 20));
        import(&pool, "v", &image[..LENGTH - 7], &["--force"]);
        assert!(exported(&pool, "v") == image[..LENGTH - 7], "another length in the same block");
        done(&["volume", "snapshot", &pool.volume("v"), "t"]);
        import(&pool, "v", b"short", &["--force"]);
        assert_eq!(exported(&pool, "v").len(), 1_003_520, "it keeps its size");
        done(&["volume", "rollback", &pool.volume("v"), "s"]);
        for name in ["v", "s"] {
            assert!(exported(&pool, name) == image, "{name}");
        }
        if !is_served {
            // Blocks of 8 KiB: 1,003,520 bytes are no multiple of them.
            let Ran { err, .. } =
                gemelo(&["volume", "copy", &pool.volume("s"), &there.volume("s")]);
            assert!(err.contains("give a multiple of the pool's block size"), "{err}");
        }
        let other = TestPool::new(&["--block-size", "512"]);
        done(&["volume", "copy", &pool.volume("s"), &other.volume("s")]);
        assert!(exported(&other, "s") == image);
        let said = done(&["volume", "copy", &pool.volume("t"), &other.volume("t")]);
        assert!(said.contains("differs from"), "{said}");
        assert!(exported(&other, "t") == image[..LENGTH - 7]);
        if let Some(server) = server {
            assert_eq!(server.stop(), (0, String::new()));
        }
        assert!(exported(&pool, "s") == image);
        pool.assert_clean();
        other.assert_clean();
    }
}

#[test]
fn a_stream_has_its_length_and_given_sizes_have_theirs() {
    let pool = TestPool::new(&[]);
    let raw = pool.file("raw");
    fs::write(&raw, noise(2, 5000)).unwrap();
    let words =
        format!("{} volume import - {} < {raw}", env!("CARGO_BIN_EXE_gemelo"), pool.volume("v"));
    assert!(std::process::Command::new("sh").args(["-c", &words]).status().unwrap().success());
    assert!(exported(&pool, "v") == noise(2, 5000));
    done(&["volume", "import", &raw, &pool.volume("w"), "--size", "8k"]);
    assert_eq!((padding(&pool, "w"), exported(&pool, "w").len()), (0, 8192));
    assert!(!done(&["volume", "export", &pool.volume("v"), "-"]).is_empty());
}

/// A guest may write behind what was imported, such as a second partition table.
#[test]
fn data_behind_the_imported_length_is_exported() {
    if !all_there(&["qemu-io"]) {
        return;
    }
    let pool = TestPool::new(&[]);
    import(&pool, "v", &noise(3, 5000), &[]);
    let server = pool.serve(&[]);
    let mut command = tool("qemu-io").unwrap();
    command.args(["-f", "raw", &pool.uri("v"), "-c", "write -P 7 8191 1"]);
    assert!(command.output().unwrap().status.success());
    let back = pool.file("back");
    let Ran { status, err, .. } = gemelo(&["volume", "export", &pool.volume("v"), &back]);
    assert_eq!(status, 0, "{err}");
    assert!(err.contains("5000 bytes were imported, and there is data behind them"), "{err}");
    let bytes = fs::read(&back).unwrap();
    assert!(bytes.len() == 8192 && bytes[..5000] == noise(3, 5000) && bytes[8191] == 7);
    assert_eq!(server.stop(), (0, String::new()));
}

#[test]
fn a_virtual_size_that_is_no_multiple_of_a_block_comes_back() {
    if !all_there(&["qemu-img", "qemu-nbd"]) {
        return;
    }
    let pool = TestPool::new(&[]);
    let (raw, image) = (pool.file("raw"), pool.file("image"));
    fs::write(&raw, noise(4, 3 * 512)).unwrap();
    OpenOptions::new().write(true).open(&raw).unwrap().write_all_at(b"end", 20_000_253).unwrap();
    let convert = ["convert", "-f", "raw", "-O", "qcow2", &raw, &image];
    assert!(tool("qemu-img").unwrap().args(convert).status().unwrap().success());
    done(&["volume", "import", &image, &pool.volume("v"), "--format", "qcow2"]);
    assert!(exported(&pool, "v") == fs::read(&raw).unwrap());
    let again = pool.file("again");
    done(&["volume", "export", &pool.volume("v"), &again, "--format", "qcow2"]);
    let back = pool.file("raw again");
    let convert = ["convert", "-f", "qcow2", "-O", "raw", &again, &back];
    assert!(tool("qemu-img").unwrap().args(convert).status().unwrap().success());
    assert!(fs::read(&back).unwrap() == fs::read(&raw).unwrap());
}
