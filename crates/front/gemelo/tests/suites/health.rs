//! The health of a pool: `gemelo pool status` and its exit status, the column of `gemelo pool ls`,
//! the metric, and the events of a server.

use crate::common::{Ran, gemelo};
use crate::serve::metrics;
use crate::served::{TestPool, done, flip_first, noise, refused};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const BLOCK: usize = 4096;

fn status(pool: &TestPool) -> (i32, Vec<String>) {
    let Ran { status, out, .. } = gemelo(&["pool", "status", &pool.path()]);
    (status, out.lines().map(|line| line[8..].to_owned()).collect())
}

fn import(pool: &TestPool, name: &str, bytes: Vec<u8>) {
    fs::write(pool.file("raw"), bytes).unwrap();
    done(&["volume", "import", &pool.file("raw"), &pool.volume(name)]);
}

/// A program that appends each event to a file.
fn on_event(pool: &TestPool) -> (String, String) {
    let (program, told) = (pool.file("on-event"), pool.file("told"));
    fs::write(&program, format!("#!/bin/sh\necho \"$1\" >>{told}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program, told)
}

/// Waits until so many events were told of.
fn seen(told: &str, count: usize) {
    while fs::read_to_string(told).unwrap_or_default().lines().count() < count {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_pool_that_needs_nobody_is_good_in_five_lines() {
    let pool = TestPool::new(&[]);
    let (ended, lines) = status(&pool);
    assert_eq!((ended, lines.len()), (0, 5), "{lines:?}");
    assert_eq!((&*lines[1], &*lines[4]), ("good", "nothing"));
    assert!(lines[0].ends_with(", idle") && lines[2].starts_with("not known"), "{lines:?}");
    let listed = done(&["pool", "ls", &pool.path()]);
    assert!(listed.lines().nth(1).unwrap().ends_with("  good"), "{listed}");
    let json = gemelo(&["pool", "status", &pool.path(), "--json", "-"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["result"]["state"], "good");
}

#[test]
fn space_that_gets_low_is_an_event_a_state_and_an_exit_status() {
    let pool = TestPool::new(&[]);
    let (program, told) = on_event(&pool);
    let options = ["--warn-used", "10", "--on-event", &program, "--metrics", "127.0.0.1:0"];
    let served = pool.serve(&options);
    assert_eq!(status(&pool).0, 0);
    assert!(metrics(&served).contains("\ngemelo_pool_health 0\n"));
    import(&pool, "a", noise(5, 8 << 20));
    let (ended, lines) = status(&pool);
    assert_eq!((ended, &*lines[1]), (5, "full soon: space"));
    assert!(lines[2].ends_with('Z') && lines[4].contains("grow the pool"), "{lines:?}");
    assert!(metrics(&served).contains("\ngemelo_pool_health 1\n"));
    let listed = done(&["pool", "ls", &pool.path()]);
    assert!(listed.contains("full soon: space"), "{listed}");
    assert_eq!(pool.stat("/warnings").as_array().map(Vec::len), Some(1));
    seen(&told, 1);
    done(&["volume", "rm", &pool.volume("a"), "--force"]);
    done(&["pool", "gc", &pool.path()]);
    assert_eq!(pool.stat("/warnings"), serde_json::json!([]), "it holds no longer");
    assert_eq!(status(&pool).0, 0);
    let (ended, said) = served.stop();
    assert_eq!(ended, 0);
    assert!(said.contains("remove volumes [full-10]"), "{said}");
    assert_eq!(fs::read_to_string(told).unwrap(), "full-10\n");
}

#[test]
fn damage_that_is_found_and_healed_is_told_both_times() {
    let pool = TestPool::new(&[]);
    let (program, told) = on_event(&pool);
    let content = noise(7, BLOCK);
    import(&pool, "a", content.clone());
    flip_first(&pool, &content);
    let served = pool.serve(&["--on-event", &program]);
    assert_eq!(gemelo(&["pool", "scrub", &pool.path()]).status, 4);
    let (ended, lines) = status(&pool);
    assert_eq!((ended, &*lines[1]), (4, "damaged: contents"));
    assert!(lines[4].contains("gemelo pool scrub"), "{lines:?}");
    seen(&told, 1);
    // The content is written again by an import.
    import(&pool, "b", content);
    assert_eq!(status(&pool).0, 0);
    seen(&told, 2);
    assert_eq!(fs::read_to_string(&told).unwrap(), "damage-found\nhealed\n");
    let (ended, said) = served.stop();
    assert_eq!(ended, 0);
    assert!(said.contains("[damage-found]") && said.contains("[healed]"), "{said}");
}

#[test]
fn a_pool_that_has_stopped_says_so_with_what_to_do() {
    let pool = TestPool::new(&[]);
    let served = pool.serve(&[]);
    fs::remove_file(pool.file("pool/metadata")).unwrap();
    while status(&pool).0 == 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (ended, lines) = status(&pool);
    assert_eq!((ended, &*lines[1]), (1, "read-only: stopped"), "{lines:?}");
    assert!(lines[4].contains("nbdcopy"), "{lines:?}");
    let (_, said) = served.stop();
    assert!(said.contains("[read-only]"), "{said}");
}

#[test]
fn a_program_for_events_that_cannot_run_is_refused_before_the_pool_is_opened() {
    let pool = TestPool::new(&[]);
    let serve = ["serve", &pool.path(), "--on-event"];
    assert!(refused(&[&serve[..], &["relative"]].concat()).contains("absolute path"));
    assert!(refused(&[&serve[..], &[&pool.file("none")]].concat()).contains("No such file"));
}
