//! The health of a pool: `gemelo pool status` and its exit status, the column of `gemelo pool ls`,
//! the metric, and the events of a server.

use crate::common::{Ran, gemelo};
use crate::serve::metrics;
use crate::served::{TestPool, done, flip_first, noise, refused};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

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
    with_commands(pool, "")
}

/// A program that appends each event to a file, and does this afterwards.
fn with_commands(pool: &TestPool, commands: &str) -> (String, String) {
    let (program, told) = (pool.file("on-event"), pool.file("told"));
    fs::write(&program, format!("#!/bin/sh\necho \"$1\" >>{told}\n{commands}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program, told)
}

/// Waits until so many events were told of.
fn seen(told: &str, count: usize) {
    gemelo_tools::wait_until("the events are told", || {
        fs::read_to_string(told).unwrap_or_default().lines().count() >= count
    });
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

/// The server looks at the space each second. Each rise above the threshold was an event.
#[test]
fn use_that_goes_up_and_down_around_a_threshold_is_one_event() {
    let pool = TestPool::new(&[]);
    let (program, told) = on_event(&pool);
    let served = pool.serve(&["--warn-used", "10", "--on-event", &program]);
    import(&pool, "a", noise(5, 6_600_000));
    for round in 0..2 {
        import(&pool, "b", noise(6 + round, 300_000));
        seen(&told, 1);
        done(&["volume", "rm", &pool.volume("b"), "--force"]);
        done(&["pool", "gc", &pool.path()]);
        assert_eq!(status(&pool).0, 0);
        std::thread::sleep(Duration::from_millis(1500));
    }
    import(&pool, "b", noise(9, 300_000));
    assert_eq!(served.stop().0, 0);
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

/// What was found before anybody was served once was in the log without an identifier, and no
/// command was told of it.
#[test]
fn a_pool_that_is_damaged_when_it_is_opened_has_events_as_well() {
    let pool = TestPool::new(&[]);
    let (program, told) = on_event(&pool);
    import(&pool, "a", noise(3, 1 << 20));
    let data = fs::File::options().write(true).open(pool.file("pool/data")).unwrap();
    data.set_len(40_000).unwrap();
    let served = pool.serve(&["--on-event", &program]);
    let (ended, lines) = status(&pool);
    assert_eq!((ended, &*lines[1]), (4, "damaged: metadata"), "{lines:?}");
    assert!(lines[0].ends_with("read-only because it is damaged"), "{lines:?}");
    let listed = done(&["pool", "ls", &pool.path()]);
    assert!(listed.lines().nth(1).unwrap().ends_with("  damaged: metadata"), "{listed}");
    seen(&told, 3);
    let (ended, said) = served.stop();
    assert_eq!(ended, 0);
    assert_eq!(said.matches(" [damage-found]\n").count(), 2, "{said}");
    assert_eq!(said.matches("pool check --repair` [read-only]\n").count(), 1, "{said}");
    let told = fs::read_to_string(told).unwrap();
    assert_eq!(told, "damage-found\ndamage-found\nread-only\n");
}

#[test]
fn a_task_that_fails_degrades_the_pool_until_it_works_again() {
    let pool = TestPool::new(&[]);
    let (program, told) = on_event(&pool);
    // The names of its snapshots would be too long.
    let volume = pool.volume(&"n".repeat(240));
    done(&["volume", "create", &volume, "--size", "1m"]);
    let served = pool.serve(&["--on-event", &program, "--metrics", "127.0.0.1:0"]);
    done(&["volume", "set", &volume, "--every", "1h"]);
    seen(&told, 1);
    let (ended, lines) = status(&pool);
    assert_eq!((ended, lines.len(), &*lines[1]), (1, 5, "degraded: snapshots"), "{lines:?}");
    assert!(lines[4].starts_with("mend the cause, and it works again by itself: "), "{lines:?}");
    assert!(metrics(&served).contains("\ngemelo_pool_health 2\n"));
    let listed = done(&["pool", "ls", &pool.path()]);
    assert!(listed.lines().nth(1).unwrap().ends_with("  degraded: snapshots"), "{listed}");
    done(&["volume", "set", &volume, "--every", "default"]);
    seen(&told, 2);
    assert_eq!(status(&pool).0, 0);
    assert_eq!(served.stop().0, 0);
    assert_eq!(fs::read_to_string(told).unwrap(), "task-fails\ntask-works\n");
}

#[test]
fn a_command_for_events_that_hangs_keeps_nobody_from_the_pool() {
    let pool = TestPool::new(&[]);
    let hangs = pool.file("hangs");
    let commands = format!("[ $1 = full-20 ] && exit\necho $$ >{hangs}\nexec sleep 60");
    let (program, told) = with_commands(&pool, &commands);
    let mut served = pool.serve(&["--warn-used", "10,20", "--on-event", &program]);
    import(&pool, "a", noise(5, 8 << 20));
    seen(&told, 1);
    import(&pool, "b", noise(6, 8 << 20));
    let process = Pid::from_raw(served.process_id() as i32).unwrap();
    kill_process(process, Signal::TERM).unwrap();
    gemelo_tools::wait_until("the pool is idle", || {
        status(&pool).1.first().is_some_and(|line| line.ends_with(", idle"))
    });
    let hanging: i32 = fs::read_to_string(hangs).unwrap().trim().parse().unwrap();
    assert!(Path::new(&format!("/proc/{hanging}")).exists(), "the pool waited for it");
    kill_process(Pid::from_raw(hanging).unwrap(), Signal::KILL).unwrap();
    let (ended, said) = served.wait();
    assert_eq!(ended, 0);
    assert!(said.contains("[full-10]") && said.contains("[full-20]"), "{said}");
}

#[test]
fn a_pool_that_has_stopped_says_so_with_what_to_do() {
    let pool = TestPool::new(&[]);
    let served = pool.serve(&[]);
    fs::remove_file(pool.file("pool/metadata")).unwrap();
    gemelo_tools::wait_until("the pool stops", || status(&pool).0 != 0);
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

/// It was not listed at all, as if there were none.
#[test]
fn a_pool_that_has_lost_a_disk_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (pool, blocks) = (path("pool"), path("blocks"));
    done(&["pool", "create", &pool, "--capacity", "64m", "--data", &blocks]);
    fs::rename(&blocks, path("elsewhere")).unwrap();
    for listed in [directory.path().to_str().unwrap(), &pool] {
        let Ran { status, out, err } = gemelo(&["pool", "ls", listed]);
        assert_eq!(status, 1, "{out}{err}");
        assert!(out.lines().nth(1).unwrap().trim_end().ends_with("unusable"), "{out}");
        assert!(err.contains(&blocks), "{err}");
    }
    // One name alone may be the disk of a pool elsewhere, so only who names the pool sees it.
    fs::remove_file(format!("{pool}/data")).unwrap();
    let Ran { status, out, err } = gemelo(&["pool", "ls", &pool]);
    assert_eq!(status, 1, "{out}{err}");
    assert!(out.contains("unusable") && err.contains("the pool has lost"), "{out}{err}");
    assert_eq!(done(&["pool", "ls", directory.path().to_str().unwrap()]).lines().count(), 1);
}
