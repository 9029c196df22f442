//! Damaged pools, and commands about them: what heals, what a check promises, files that are cut
//! off, lost, or deleted under a server, and volumes that go away while commands look at them.

use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, flip_first, noise};
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const BLOCK: usize = 4096;
const POLICIES: [&str; 4] = ["compact", "inram", "dtb", "cbt"];

fn import(pool: &TestPool, name: &str, mode: &str, content: &[u8]) {
    let source = pool.file("source");
    fs::write(&source, content).unwrap();
    done(&["volume", "import", &source, &pool.volume(name), "--dedup", mode]);
}

fn check_json(pool: &TestPool, options: &[&str]) -> serde_json::Value {
    let path = pool.path();
    let ran = gemelo(&[&["pool", "check", &path, "--data", "--json", "-"], options].concat());
    serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()["result"].clone()
}

#[test]
fn what_has_another_copy_is_told_with_its_command_and_a_repair_heals_it() {
    for policy in POLICIES {
        for repairs in [true, false] {
            let pool = TestPool::new(&["--policy", policy]);
            let content = noise(7, BLOCK);
            import(&pool, "in", "inline", &content.repeat(8));
            import(&pool, "no", "off", &content);
            flip_first(&pool, &content);
            let Ran { status, out, err } = gemelo(&["pool", "check", &pool.path(), "--data"]);
            assert_eq!((status, err.as_str()), (4, ""), "{policy}: {out}");
            let scrub = format!("'gemelo pool scrub {}'", pool.path());
            assert!(out.contains("block 0 of 'in'"), "{out}");
            assert!(out.contains(": another copy is whole\n"), "{out}");
            assert!(
                out.ends_with(&format!("{scrub} heals 1 content from other copies\n")),
                "{out}"
            );
            let told = check_json(&pool, &[]);
            assert_eq!(told["problems"][0]["can_be_healed"], true, "{told}");
            assert_eq!(told["problems"][0]["loses_data"], false, "{told}");
            if repairs {
                let path = pool.path();
                let text = done(&["pool", "check", &path, "--data", "--repair", "--force"]);
                assert!(text.contains("repaired: 1 content healed from other copies"), "{text}");
            } else {
                let text = done(&["pool", "scrub", &pool.path()]);
                assert!(text.contains("1 healed from other copies"), "{text}");
            }
            pool.assert_clean();
            let out = pool.file("out");
            done(&["volume", "export", &pool.volume("in"), &out]);
            assert!(fs::read(out).unwrap() == content.repeat(8), "{policy}");
        }
    }
}

#[test]
fn a_served_pool_names_the_command_that_heals_it() {
    let pool = TestPool::new(&[]);
    let content = noise(7, BLOCK);
    import(&pool, "in", "inline", &content);
    import(&pool, "no", "off", &content);
    flip_first(&pool, &content);
    let served = pool.serve(&[]);
    let Ran { status, out, .. } = gemelo(&["pool", "check", &pool.path(), "--data"]);
    assert_eq!(status, 4, "{out}");
    let scrub = format!("'gemelo pool scrub {}'", pool.path());
    assert!(out.contains(&format!("{scrub} heals it from other copies while")), "{out}");
    let warnings = pool.stat("/warnings").to_string();
    assert!(warnings.contains("'gemelo pool scrub' heals those"), "{warnings}");
    // The server looks for new damage once a second.
    std::thread::sleep(Duration::from_millis(2500));
    done(&["pool", "scrub", &pool.path()]);
    assert_eq!(pool.stat("/warnings"), serde_json::json!([]), "they hold no longer");
    let (status, err) = served.stop();
    assert_eq!(status, 0, "{err}");
    assert!(err.contains("'gemelo pool scrub' heals it"), "{err}");
    pool.assert_clean();
}

/// A check says that a repair helps if and only if the repair does, and no message leaves out what
/// was expected where.
#[test]
fn a_check_of_cut_off_files_promises_only_what_a_repair_does() {
    for policy in POLICIES {
        let made = TestPool::new(&["--policy", policy]);
        import(&made, "a", "inline", &noise(3, 40 * BLOCK));
        import(&made, "b", "off", &noise(3, 40 * BLOCK));
        let [data, metadata] =
            ["data", "metadata"].map(|name| fs::read(made.file(&format!("pool/{name}"))).unwrap());
        let mut cuts = Vec::new();
        for eighth in 0..8 {
            cuts.push(("metadata", metadata.len() * eighth / 8));
            cuts.push(("data", data.len().min(100 * BLOCK) * eighth / 8));
        }
        cuts.extend([
            ("metadata", 4096),
            ("metadata", 12_288),
            ("metadata", 40_000),
            ("data", 100),
        ]);
        for (name, length) in cuts {
            let what = format!("{policy}, '{name}' cut to {length} bytes");
            fs::write(made.file("pool/data"), &data).unwrap();
            fs::write(made.file("pool/metadata"), &metadata).unwrap();
            let file =
                File::options().write(true).open(made.file(&format!("pool/{name}"))).unwrap();
            file.set_len(length as u64).unwrap();
            let checked = gemelo(&["pool", "check", &made.path(), "--data"]);
            let text = checked.out + &checked.err;
            assert!(!text.contains("fill whole buffer"), "{what}: {text}");
            // The other file tells that there is a pool.
            assert!([0, 4].contains(&checked.status), "{what}: {}: {text}", checked.status);
            let repaired =
                gemelo(&["pool", "check", &made.path(), "--data", "--repair", "--force"]);
            let told = repaired.out + &repaired.err;
            assert!(!told.contains("fill whole buffer"), "{what}: {told}");
            let is_repaired = told.contains("repaired: ");
            let promises = text.contains("--repair") || text.contains("pool scrub");
            assert_eq!(promises, is_repaired, "{what}: {text}\nand then\n{told}");
            if is_repaired {
                let again = gemelo(&["pool", "check", &made.path(), "--data"]);
                assert_eq!(again.status, 0, "{what}: {}", again.out);
            }
        }
    }
}

#[test]
fn the_memory_of_a_check_is_not_ignored() {
    let pool = TestPool::new(&[]);
    let checked_with = |memory: &str| gemelo(&["pool", "check", &pool.path(), "--memory", memory]);
    for memory in ["0", "1023k"] {
        let Ran { status, err, .. } = checked_with(memory);
        assert_eq!(status, 2, "{memory}: {err}");
        assert!(err.contains("--memory must be at least 1m"), "{err}");
    }
    assert_eq!(checked_with("1m").status, 0);
    let _server = pool.serve(&[]);
    let Ran { status, err, .. } = checked_with("1m");
    assert_ne!(status, 0);
    assert!(err.contains("--memory is for an idle pool"), "{err}");
    assert_eq!(gemelo(&["pool", "check", &pool.path()]).status, 0);
}

#[test]
fn a_pool_that_has_lost_a_file_is_damaged_and_says_which() {
    for (name, other) in [("data", "metadata"), ("metadata", "data")] {
        let pool = TestPool::new(&[]);
        import(&pool, "a", "inline", &noise(3, 4 * BLOCK));
        fs::remove_file(pool.file(&format!("pool/{name}"))).unwrap();
        let listen = format!("unix:{}", pool.file("socket"));
        for words in [
            vec!["pool", "check"],
            vec!["pool", "check", "--repair", "--force"],
            vec!["pool", "stat"],
            vec!["pool", "scrub"],
            vec!["volume", "ls"],
            vec!["serve", "--listen", &listen],
        ] {
            let path = pool.path();
            let Ran { status, err, .. } = gemelo(&[&words[..], &[&path]].concat());
            assert_eq!(status, 4, "{words:?}: {err}");
            assert!(err.contains(&format!("has lost '{path}/{name}': '{path}/{other}'")), "{err}");
        }
        // A directory with a file of that name is not a pool.
        fs::write(pool.file(&format!("pool/{other}")), "no pool").unwrap();
        let Ran { status, err, .. } = gemelo(&["pool", "check", &pool.path()]);
        assert_eq!(status, 2, "{err}");
        assert!(err.contains("not a pool"), "{err}");
    }
}

fn execute(device: &dyn BlockDevice, operation: Operation<'_>) -> Result<(), DeviceError> {
    let mut batch = [Request { operation, outcome: Ok(()) }];
    device.execute(&mut batch);
    let [request] = batch;
    request.outcome
}

fn connect(pool: &TestPool, volume: &str) -> Arc<dyn BlockDevice> {
    let stream = UnixStream::connect(pool.file("socket")).unwrap();
    gemelo_nbd::client::connect_device(stream, volume).unwrap()
}

/// Writes after the files were deleted would be lost, so none is acknowledged. What is there
/// can be read until the server ends.
#[test]
fn a_pool_that_is_deleted_under_its_server_takes_no_more_writes() {
    for deletes_all in [true, false] {
        let pool = TestPool::new(&[]);
        let content = noise(3, 64 * BLOCK);
        import(&pool, "a", "inline", &content);
        let served = pool.serve(&[]);
        let device = connect(&pool, "a");
        let write = || {
            let data = &noise(9, BLOCK)[..];
            let durability = Durability::Immediate;
            execute(&*device, Operation::Write { offset: 0, data, durability })
        };
        let again = || {
            let data = &content[..BLOCK];
            let durability = Durability::Immediate;
            execute(&*device, Operation::Write { offset: 0, data, durability })
        };
        write().unwrap();
        again().unwrap();
        if deletes_all {
            fs::remove_dir_all(pool.path()).unwrap();
        } else {
            fs::remove_file(pool.file("pool/data")).unwrap();
        }
        gemelo_tools::wait_until("writes fail", || again().is_err());
        assert!(execute(&*device, Operation::Flush).is_err(), "nothing is called durable");
        // A client that comes now reads everything.
        let mut bytes = vec![0; content.len()];
        execute(&*connect(&pool, "a"), Operation::Read { offset: 0, buffer: &mut bytes }).unwrap();
        assert!(bytes == content);
        if !deletes_all {
            let warnings = pool.stat("/warnings").to_string();
            assert!(warnings.contains("data store was deleted"), "{warnings}");
        }
        let (status, err) = served.stop();
        assert_eq!(status, 1, "{err}");
        assert_eq!(err.matches("data store was deleted").count(), 2, "{err}");
        assert!(err.contains("can be read through this server until it ends"), "{err}");
        assert_eq!(err.contains("was deleted or moved"), deletes_all, "{err}");
    }
}

/// A pool that is moved keeps its files, and everything that is written.
#[test]
fn a_pool_that_is_moved_under_its_server_goes_on() {
    let pool = TestPool::new(&[]);
    import(&pool, "a", "inline", &noise(3, BLOCK));
    let served = pool.serve(&[]);
    fs::rename(pool.path(), pool.file("moved")).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    let device = connect(&pool, "a");
    let data = &noise(9, BLOCK)[..];
    let durability = Durability::Immediate;
    execute(&*device, Operation::Write { offset: 0, data, durability }).unwrap();
    let (status, err) = served.stop();
    assert!(err.contains("was deleted or moved"), "{err}");
    assert_eq!(status, 0, "{err}");
    let out = pool.file("out");
    done(&["volume", "export", &format!("{}/a", pool.file("moved")), &out]);
    assert!(fs::read(out).unwrap() == data);
}

#[test]
fn volumes_that_come_and_go_are_no_damage_for_commands_on_a_served_pool() {
    for policy in POLICIES {
        let pool = TestPool::new(&["--policy", policy]);
        import(&pool, "a", "offline", &noise(3, 2000 * BLOCK));
        let served = pool.serve(&[]);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let comes_and_goes = scope.spawn(|| {
                let mut rounds = 0;
                let (volume, copy) = (pool.volume("a"), pool.volume("copy"));
                while !stop.load(Ordering::Relaxed) {
                    done(&["volume", "snapshot", &volume, "copy"]);
                    done(&["volume", "resize", &volume, "--size", "6m", "--force"]);
                    done(&["volume", "rm", &copy, "--force"]);
                    done(&["volume", "resize", &volume, "--size", "8m"]);
                    rounds += 1;
                }
                rounds
            });
            let path = pool.path();
            for _ in 0..4 {
                for words in [
                    ["pool", "check", &path, "--data"].as_slice(),
                    &["pool", "scrub", &path],
                    &["pool", "dedup", &path],
                    &["pool", "dedup", &path, "--estimate"],
                    &["pool", "defrag", &path],
                    &["pool", "stat", &path, "--space"],
                    &["volume", "ls", &path],
                ] {
                    let Ran { status, out, err } = gemelo(words);
                    assert_eq!(status, 0, "{policy}: {words:?}: {out}{err}");
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(comes_and_goes.join().unwrap() > 0, "{policy}");
        });
        let (status, err) = served.stop();
        assert_eq!(status, 0, "{err}");
        pool.assert_clean();
    }
}
