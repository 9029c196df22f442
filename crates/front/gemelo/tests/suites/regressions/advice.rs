//! The advice of messages about damaged and refused pools: who follows it, and that of the messages
//! that come then, has a pool that takes changes again, or has made room for a new one.

use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, flip_first, noise};
use gemelo_disk::{DiskAccess, FileDisk};
use gemelo_format::{PAGE_BYTES, Slot, read_superblock};
use std::fs;
use std::path::PathBuf;

const BLOCK: usize = 4096;

fn all(ran: &Ran) -> String {
    format!("{}{}", ran.out, ran.err)
}

/// Runs the command that a message names in quotes, with what the next message adds to it.
fn follow(text: &str, pool: &TestPool) -> String {
    let named = text.split(['\'', '`']).find_map(|part| {
        let command = part.strip_prefix("gemelo ").unwrap_or(part);
        command.starts_with("pool check").then(|| command.to_owned())
    });
    let path = pool.path();
    let named = named.unwrap_or_else(|| panic!("no command in {text}"));
    let mut words: Vec<&str> = named.split_whitespace().collect();
    if !words.contains(&path.as_str()) {
        words.insert(2, &path);
    }
    if text.contains("with --repair") || text.contains("--repair writes") {
        words.push("--repair");
    }
    let mut told = all(&gemelo(&words));
    if told.contains("use --force to give up what is lost") {
        words.push("--force");
        told = all(&gemelo(&words));
    }
    told
}

/// The pool takes changes, and no block of it is damaged.
fn assert_works(pool: &TestPool, what: &str) {
    pool.assert_clean();
    fs::write(pool.file("new"), noise(77, 64 * BLOCK)).unwrap();
    done(&["volume", "import", &pool.file("new"), &pool.volume("new")]);
    let served = pool.serve(&[]);
    assert_eq!(pool.stat("/read_only"), false, "{what}");
    assert_eq!(pool.stat("/damage"), serde_json::json!([]), "{what}");
    assert_eq!(served.stop(), (0, String::new()), "{what}");
    pool.assert_clean();
}

/// A pool with two volumes, of which one has a content that no other one has.
fn pool_of(policy: &str) -> (TestPool, Vec<u8>) {
    let pool = TestPool::new(&["--policy", policy]);
    let content = noise(7, BLOCK);
    for (name, bytes) in [("v", noise(5, 512 * BLOCK)), ("w", content.clone())] {
        fs::write(pool.file("raw"), bytes).unwrap();
        done(&["volume", "import", &pool.file("raw"), &pool.volume(name)]);
    }
    (pool, content)
}

/// A content is lost: scrubs and checks, with a server and without, lead to a repair.
#[test]
fn advice_about_a_lost_content_leads_to_a_pool_without_damage() {
    let asked: [(&str, bool, &[&str]); 3] =
        [("scrub", false, &[]), ("check", false, &["--data"]), ("check", true, &["--data"])];
    for (command, is_served, options) in asked {
        let what = format!("{command}, served {is_served}");
        let (pool, content) = pool_of("compact");
        flip_first(&pool, &content);
        let served = is_served.then(|| pool.serve(&[]));
        let path = pool.path();
        let ran = gemelo(&[&["pool", command, &path], options].concat());
        assert_eq!(ran.status, 4, "{what}: {}", all(&ran));
        if let Some(served) = served {
            served.stop();
        }
        let mut text = all(&ran);
        if command == "check" {
            // "run this again with --repair", or "--repair writes anew what can be".
            assert!(text.contains("--repair"), "{what}: {text}");
            text += &format!(" 'gemelo pool check {path} --data'");
            text = text.replace("'gemelo pool scrub", "'");
        }
        let told = follow(&text, &pool);
        assert!(told.contains("repaired"), "{what}: {told}");
        assert_works(&pool, &what);
    }
}

/// The places of the pages of the metadata that have something.
fn pages(pool: &TestPool) -> Vec<[u64; 2]> {
    let bytes = fs::read(pool.file("pool/metadata")).unwrap();
    let path = PathBuf::from(pool.file("pool/metadata"));
    let disk = FileDisk::open(&path, DiskAccess::Exclusive).unwrap();
    let regions = read_superblock(&disk, &mut Vec::new()).unwrap().regions();
    let slots = (1..).map(|number| regions.slot(Slot::new(number).unwrap()));
    let slots = slots.take_while(|pair| pair[1] as usize + PAGE_BYTES <= bytes.len());
    let has_something =
        |pair: &[u64; 2]| bytes[pair[0] as usize..][..PAGE_BYTES].iter().any(|byte| *byte != 0);
    slots.filter(has_something).collect()
}

/// One page of the metadata is damaged, each in turn: what `serve` says leads to a pool that works,
/// or says that there is nothing to be had.
#[test]
fn advice_about_a_damaged_page_leads_to_a_pool_that_works_or_to_a_new_one() {
    for policy in ["compact", "dtb"] {
        let (pool, _) = pool_of(policy);
        let file = PathBuf::from(pool.file("pool/metadata"));
        let (metadata, data) =
            (fs::read(&file).unwrap(), fs::read(pool.file("pool/data")).unwrap());
        let (mut read_only, mut refused) = (0, 0);
        for pair in pages(&pool) {
            let mut bytes = metadata.clone();
            pair.iter().for_each(|at| bytes[*at as usize + 100] ^= 0xFF);
            fs::write(&file, bytes).unwrap();
            fs::write(pool.file("pool/data"), &data).unwrap();
            let what = format!("{policy}, page at {}", pair[0]);
            let ran = gemelo(&["pool", "stat", &pool.path(), "--json", "-"]);
            let text = match ran.status {
                0 if pool.stat("/read_only") == true && read_only < 3 => {
                    read_only += 1;
                    let (_, said) = pool.serve(&[]).stop();
                    assert!(said.contains("served read-only: stop, and repair it"), "{said}");
                    said
                }
                4 if refused < 3 => {
                    refused += 1;
                    ran.err
                }
                _ => continue,
            };
            let mut told = follow(&text, &pool);
            if told.contains("--repair writes anew") {
                told = follow(&format!("{told} 'gemelo pool check'"), &pool);
            }
            if told.contains("cannot be repaired") {
                assert!(told.contains("restore its volumes from a backup"), "{what}: {told}");
                done(&["pool", "rm", &pool.path(), "--force"]);
                done(&["pool", "create", &pool.path(), "--capacity", "64m", "--policy", policy]);
            } else {
                assert!(told.contains("repaired"), "{what}: {text} {told}");
            }
            assert_works(&pool, &what);
        }
        assert!(read_only + refused > 0, "{policy}: every page was healed");
    }
}
