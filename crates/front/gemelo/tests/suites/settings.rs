//! Tests of the settings of pools and volumes: `pool set` and `get`, `volume set` and `get`, and
//! the snapshots by schedule.

use crate::common::{Ran, gemelo};
use crate::served::{Served, TestPool, done, flip_first, noise, refused};
use gemelo_nbd::client::{Client, Submission};
use gemelo_nbd::wire::ErrorCode;
use gemelo_serve::{SETTINGS, Setting};
use gemelo_tools::wait_until;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, UNIX_EPOCH};

const PATIENCE: Duration = Duration::from_secs(20);

/// What `get` shows of a setting: the value, its source, and the value of the next opening.
fn shown(words: &[&str], name: &str) -> (String, String, Option<String>) {
    let json = done(&[words, &[name, "--json", "-"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    let found = &json["result"]["settings"][0];
    assert_eq!(found["name"], name);
    let text = |key: &str| found[key].as_str().map(str::to_owned);
    (text("value").unwrap(), text("source").unwrap(), text("next"))
}

fn of_pool(pool: &TestPool, name: &str) -> (String, String, Option<String>) {
    shown(&["pool", "get", &pool.path()], name)
}

fn of_volume(pool: &TestPool, volume: &str, name: &str) -> (String, String, Option<String>) {
    shown(&["volume", "get", &pool.volume(volume)], name)
}

fn is(value: &str, source: &str) -> (String, String, Option<String>) {
    (value.to_owned(), source.to_owned(), None)
}

fn set(pool: &TestPool, words: &[&str]) -> String {
    done(&[&["pool", "set", &pool.path()], words].concat())
}

fn set_volume(pool: &TestPool, volume: &str, words: &[&str]) -> String {
    done(&[&["volume", "set", &pool.volume(volume)], words].concat())
}

fn with_volume(options: &[&str], name: &str) -> TestPool {
    let pool = TestPool::new(options);
    done(&["volume", "create", &pool.volume(name), "--size", "8m"]);
    pool
}

fn client(pool: &TestPool, volume: &str) -> Client {
    Client::connect(&pool.uri(volume).parse().unwrap(), 8, PATIENCE).unwrap()
}

fn write(client: &mut Client, offset: u64, data: &[u8]) {
    let written = Submission::Write { offset, data, durable: true };
    assert!(client.run(written, |done| done.error).unwrap().is_none());
}

fn read(client: &mut Client) -> ErrorCode {
    client.run(Submission::Read { offset: 0, length: 4096 }, |done| done.error).unwrap()
}

#[test]
fn get_says_which_value_is_in_effect_and_why() {
    let pool = with_volume(&["--cache", "16m", "--finder-cpu", "30"], "a");
    assert_eq!(of_pool(&pool, "cache"), is("16m", "pool"));
    assert_eq!(of_pool(&pool, "finder-cpu"), is("30%", "pool"));
    assert_eq!(of_pool(&pool, "finder-delay"), is("5s", "built-in"));
    assert_eq!(of_volume(&pool, "a", "finder-delay"), is("5s", "built-in"));
    assert_eq!(of_volume(&pool, "a", "dedup"), is("inline", "volume"));
    let served = pool.serve(&["--finder-rate", "1m"]);
    assert_eq!(of_pool(&pool, "finder-rate"), is("1m", "command-line"));
    let said = set(&pool, &["--finder-delay", "10s", "--cache", "8m", "--finder-rate", "2m"]);
    assert!(said.contains("cache is in effect when the server is started again"), "{said}");
    assert_eq!(of_pool(&pool, "finder-rate"), is("1m", "command-line"));
    assert_eq!(of_pool(&pool, "finder-delay"), is("10s", "pool"));
    assert_eq!(of_volume(&pool, "a", "finder-delay"), is("10s", "pool"));
    let (value, source, next) = of_pool(&pool, "cache");
    assert_eq!((&*value, &*source, next.as_deref()), ("16m", "pool", Some("8m")));
    set_volume(&pool, "a", &["--finder-delay", "1h", "--dedup", "offline"]);
    assert_eq!(of_volume(&pool, "a", "finder-delay"), is("1h", "volume"));
    assert_eq!(of_volume(&pool, "a", "dedup"), is("offline", "volume"));
    assert_eq!(served.stop().0, 0);
    for (name, value) in [("cache", "8m"), ("finder-rate", "2m")] {
        assert_eq!(of_pool(&pool, name), is(value, "pool"));
    }
    set(&pool, &["--cache", "default"]);
    assert_eq!(of_pool(&pool, "cache").1, "built-in");
    assert_eq!(of_volume(&pool, "a", "finder-delay"), is("1h", "volume"));
    pool.assert_clean();
}

#[test]
fn nonsense_changes_nothing() {
    let pool = with_volume(&[], "a");
    let (path, volume) = (pool.path(), pool.volume("a"));
    for (words, part) in [
        (&["pool", "set", &path, "--cache", "much"][..], "'much' is not a size"),
        (&["pool", "set", &path, "--cache", "8000p"], "this process may have"),
        (&["pool", "set", &path], "nothing to set"),
        (&["pool", "set", &path, "--every", "1h"], "--every"),
        (&["volume", "set", &volume, "--every", "5s"], "less than 1m"),
        (&["volume", "set", &volume, "--keep", "24x"], "24h 7d 4w"),
        (&["volume", "set", &volume, "--cache", "1m"], "--cache"),
        (&["volume", "set", &volume, "--finder-delay", "1s", "--compression", "lz4"], "compress"),
        (&["volume", "set", &volume, "--iops", "5", "--compression", "lz4"], "compress"),
        (&["volume", "set", &volume, "--iops", "5", "--reserve", "9m"], "has 8 MiB"),
        (&["volume", "get", &volume, "cache"], "no setting of a volume is called 'cache'"),
        (&["volume", "get", &pool.volume("b")], "no volume"),
        (&["pool", "set", &path, "finder-delay=1s"], "here: --finder-delay 1s"),
    ] {
        let said = refused(words);
        assert!(said.contains(part), "{words:?}: {said}");
    }
    assert_eq!(of_volume(&pool, "a", "iops"), is("no limit", "built-in"));
    assert!(!fs::exists(pool.file("pool/settings.toml")).unwrap());
    let served = pool.serve(&["--read-only"]);
    assert!(gemelo(&["pool", "set", &path, "--finder-delay", "1s"]).status != 0);
    assert_eq!(served.stop().0, 0);
    assert!(!fs::exists(pool.file("pool/settings.toml")).unwrap());
}

/// Waits until the pool stores so many blocks.
fn await_physical(pool: &TestPool, blocks: u64) {
    wait_until("the pool stores so many blocks", || pool.stat("/pool/physical_blocks") == blocks);
}

#[test]
fn the_finder_follows_the_settings_of_the_pool_and_of_a_volume_while_served() {
    let pool = TestPool::new(&["--finder-delay", "1h"]);
    for name in ["a", "b"] {
        let create = ["volume", "create", &pool.volume(name), "--size", "8m", "--dedup", "offline"];
        done(&create);
    }
    let served = pool.serve(&[]);
    let twice = [noise(1, 65536), noise(1, 65536)].concat();
    write(&mut client(&pool, "a"), 0, &twice);
    write(&mut client(&pool, "b"), 0, &twice);
    assert_eq!(pool.stat("/pool/physical_blocks"), 64);
    // The volume alone, and then all.
    set_volume(&pool, "b", &["--finder-delay", "0s", "--finder-max-delay", "0s"]);
    await_physical(&pool, 48);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(pool.stat("/pool/physical_blocks"), 48);
    set(&pool, &["--finder-delay", "0s", "--finder-max-delay", "0s"]);
    await_physical(&pool, 16);
    assert_eq!(served.stop().0, 0);
    pool.assert_clean();
}

#[test]
fn fingerprints_are_remembered_where_that_is_wanted() {
    let pool = TestPool::new(&["--finder-delay", "1h"]);
    for name in ["a", "b"] {
        let create = ["volume", "create", &pool.volume(name), "--size", "8m", "--dedup", "offline"];
        done(&create);
    }
    set_volume(&pool, "a", &["--finder-remember", "off"]);
    let served = pool.serve(&[]);
    let figure =
        |name: &str| pool.stat(&format!("/pool/finder/remembered/{name}")).as_u64().unwrap();
    let remembered = || figure("taken") + figure("skipped");
    write(&mut client(&pool, "a"), 0, &noise(1, 65536));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(remembered(), 0);
    write(&mut client(&pool, "b"), 0, &noise(2, 65536));
    wait_until("fingerprints are remembered", || remembered() > 0);
    assert_eq!(served.stop().0, 0);
}

#[test]
fn checks_of_reads_are_switched_while_served() {
    let pool = with_volume(&["--cache", "0"], "a");
    let content = noise(3, 4096);
    let served = pool.serve(&[]);
    write(&mut client(&pool, "a"), 0, &content);
    assert_eq!(served.stop().0, 0);
    flip_first(&pool, &content);
    let served = pool.serve(&["--collect-rate", "0"]);
    set(&pool, &["--verify-reads", "off"]);
    assert!(read(&mut client(&pool, "a")).is_none());
    set(&pool, &["--verify-reads", "on"]);
    assert!(!read(&mut client(&pool, "a")).is_none());
    served.stop();
}

/// A refused creation once took the schedule of the volume that has the name.
#[test]
fn a_volume_keeps_its_settings_when_another_one_of_its_name_is_refused() {
    let pool = with_volume(&[], "a");
    for is_served in [false, true] {
        let served = is_served.then(|| pool.serve(&[]));
        let volume = pool.volume("a");
        set_volume(&pool, "a", &["--every", "1000d", "--finder-delay", "1h", "--iops", "7"]);
        fs::write(pool.file("raw"), noise(1, 4096)).unwrap();
        for words in [
            &["create", &volume, "--size", "8m"][..],
            &["import", &pool.file("raw"), &volume],
            &["snapshot", &volume, "a"],
            &["clone", &volume, "a"],
            &["rename", &volume, "a"],
        ] {
            refused(&[&["volume"], words].concat());
            for (name, value) in [("every", "1000d"), ("finder-delay", "1h"), ("iops", "7")] {
                assert_eq!(of_volume(&pool, "a", name), is(value, "volume"), "{words:?}");
            }
        }
        if let Some(served) = served {
            assert_eq!(served.stop().0, 0);
        }
    }
}

#[test]
fn settings_go_with_their_volume() {
    let pool = with_volume(&[], "a");
    set_volume(&pool, "a", &["--finder-delay", "1h"]);
    done(&["volume", "rename", &pool.volume("a"), "b"]);
    assert_eq!(of_volume(&pool, "b", "finder-delay"), is("1h", "volume"));
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    assert_eq!(of_volume(&pool, "a", "finder-delay"), is("5s", "built-in"));
    assert!(refused(&["volume", "rename", &pool.volume("b"), "a"]).contains("exists"));
    assert_eq!(of_volume(&pool, "b", "finder-delay"), is("1h", "volume"));
    assert_eq!(of_volume(&pool, "a", "finder-delay"), is("5s", "built-in"));
    done(&["volume", "rm", &pool.volume("b")]);
    done(&["volume", "clone", &pool.volume("a"), "b"]);
    assert_eq!(of_volume(&pool, "b", "finder-delay"), is("5s", "built-in"));
    // As a crash between the two steps of a renaming leaves it.
    fs::write(pool.file("pool/settings.toml"), "[volume.c]\nfinder-delay = \"1h\"\n").unwrap();
    done(&["volume", "create", &pool.volume("c"), "--size", "8m"]);
    assert_eq!(of_volume(&pool, "c", "finder-delay"), is("5s", "built-in"));
    fs::write(pool.file("pool/settings.toml"), "[volume.d]\nfinder-delay = \"1h\"\n").unwrap();
    let other = with_volume(&[], "e");
    done(&["volume", "snapshot", &other.volume("e"), "e-1"]);
    done(&["volume", "copy", &other.volume("e-1"), &pool.volume("d")]);
    assert_eq!(of_volume(&pool, "d", "finder-delay"), is("5s", "built-in"));
}

/// The names of the snapshots of the schedule of a volume.
fn scheduled(pool: &TestPool, volume: &str) -> Vec<String> {
    let listed = done(&["volume", "ls", &pool.path()]);
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let prefix = format!("{volume}@");
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(&prefix)).map(str::to_owned).collect();
    names.sort();
    names
}

/// Has the schedule believe that all of its snapshots were made so many seconds earlier.
fn age(pool: &TestPool, seconds: i64) {
    let path = pool.file("pool/schedule.json");
    let mut list: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for one in list.as_object_mut().unwrap().values_mut().flat_map(|v| v.as_array_mut().unwrap()) {
        let made = one["made_utc_s"].as_i64().unwrap();
        one["made_utc_s"] = (made - seconds).into();
    }
    fs::write(path, list.to_string()).unwrap();
}

/// Waits until snapshots of the schedule have other names than those until now: names have seconds.
fn await_next_second() {
    let second = || UNIX_EPOCH.elapsed().unwrap().as_secs();
    let begun = second();
    wait_until("the next second", || second() > begun);
}

fn tick(pool: &TestPool) -> String {
    await_next_second();
    done(&["pool", "tick", &pool.path()])
}

#[test]
fn the_schedule_makes_snapshots_and_removes_its_own_alone() {
    let pool = with_volume(&[], "web");
    assert_eq!(tick(&pool), format!("{}: nothing was due\n", pool.path()));
    set_volume(&pool, "web", &["--every", "1h", "--keep", "2h"]);
    let said = tick(&pool);
    assert!(said.contains("web@20") && said.ends_with("Z: snapshot made by schedule\n"), "{said}");
    assert!(tick(&pool).ends_with("nothing was due\n"));
    // A snapshot of the user with such a name, one that the user renamed, and a clone of one.
    let mine = "web@2020-01-01T000000Z";
    done(&["volume", "snapshot", &pool.volume("web"), mine]);
    let first = scheduled(&pool, "web").pop().unwrap();
    done(&["volume", "clone", &pool.volume(&first), "clone"]);
    age(&pool, 3600);
    tick(&pool);
    let second = scheduled(&pool, "web").pop().unwrap();
    done(&["volume", "rename", &pool.volume(&second), "kept"]);
    for _ in 0..3 {
        age(&pool, 3600);
        tick(&pool);
    }
    let left = scheduled(&pool, "web");
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left.contains(&mine.to_owned()) && !left.contains(&first), "{left:?}");
    for name in ["kept", "clone"] {
        done(&["volume", "stat", &pool.volume(name)]);
    }
    pool.assert_clean();
}

#[test]
fn a_clock_that_jumps_removes_nothing() {
    let pool = with_volume(&[], "web");
    set_volume(&pool, "web", &["--every", "1h", "--keep", "24h"]);
    for _ in 0..3 {
        tick(&pool);
        age(&pool, 3600);
    }
    // Ten years ahead, and back: one more each time, and none fewer.
    for (jump, expected) in [(87_600 * 3600, 4), (-2 * 87_600 * 3600, 5), (87_600 * 3600, 6)] {
        age(&pool, jump);
        tick(&pool);
        assert_eq!(scheduled(&pool, "web").len(), expected);
    }
    assert!(gemelo(&["pool", "check", &pool.path()]).status == 0);
}

#[test]
fn a_held_snapshot_of_the_schedule_stays_until_it_is_released() {
    let pool = with_volume(&[], "web");
    set_volume(&pool, "web", &["--every", "1h", "--keep", "1"]);
    tick(&pool);
    let first = scheduled(&pool, "web").remove(0);
    let said = refused(&["volume", "set", &pool.volume(&first), "--every", "1h"]);
    assert!(said.contains("is a snapshot and does not change"), "{said}");
    done(&["volume", "hold", &pool.volume(&first)]);
    age(&pool, 3600);
    await_next_second();
    let Ran { status, err, .. } = gemelo(&["pool", "tick", &pool.path()]);
    assert_eq!(status, 0, "{err}");
    assert!(err.contains(&first) && err.contains("is held (keep)"), "{err}");
    assert_eq!(scheduled(&pool, "web").len(), 2);
    done(&["volume", "release", &pool.volume(&first)]);
    tick(&pool);
    assert_eq!(scheduled(&pool, "web").len(), 1);
    assert!(!scheduled(&pool, "web").contains(&first));
}

#[test]
fn a_server_makes_the_snapshots_itself_and_a_used_one_stays() {
    let pool = with_volume(&[], "web");
    let served = pool.serve(&[]);
    set_volume(&pool, "web", &["--every", "1h", "--keep", "1"]);
    wait_until("the server makes a snapshot", || !scheduled(&pool, "web").is_empty());
    let first = scheduled(&pool, "web").remove(0);
    let (status, said) = served.stop();
    assert!(status == 0 && said.contains(&format!("{first}: snapshot made by schedule")), "{said}");
    age(&pool, 3600);
    // While the server starts, nobody uses it yet, so the next one is not due at once.
    set_volume(&pool, "web", &["--every", "default"]);
    let served: Served = pool.serve(&[]);
    let user = client(&pool, &first);
    set_volume(&pool, "web", &["--every", "1h"]);
    wait_until("the server makes a snapshot", || scheduled(&pool, "web").len() == 2);
    let Ran { status, err, .. } = gemelo(&["pool", "tick", &pool.path()]);
    assert_eq!(status, 0, "{err}");
    assert!(err.contains(&first) && err.contains("it is in use"), "{err}");
    assert_eq!(scheduled(&pool, "web").len(), 2);
    drop(user);
    wait_until("the snapshot that nobody uses goes", || scheduled(&pool, "web").len() == 1);
    assert!(!scheduled(&pool, "web").contains(&first));
    served.stop();
}

#[test]
fn help_get_and_the_schema_have_the_settings_of_the_table() {
    let pool = with_volume(&[], "a");
    let of_pools: fn(&Setting) -> bool = Setting::is_of_pools;
    for (of, place, belongs) in
        [("pool", pool.path(), of_pools), ("volume", pool.volume("a"), Setting::is_of_volumes)]
    {
        let help = done(&[of, "set", "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
        let got = done(&[of, "get", &place]);
        let mut got = got.lines().filter_map(|line| line.split_whitespace().next());
        for Setting { name, kind, about, default, .. } in SETTINGS.iter().filter(|one| belongs(one))
        {
            let option = format!("--{name} <{}> {about}", kind.value_name());
            assert!(help.contains(&option), "{option} in {help}");
            assert!(help.contains(&format!("[default: {default}")), "{name}");
            assert_eq!(got.next(), Some(*name));
        }
        assert_eq!(got.next(), None);
    }
    let schema: Value = serde_json::from_str(&done(&["schema", "settings"])).unwrap();
    let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    assert_eq!(schema["$defs"]["SettingReport"]["properties"]["name"]["enum"], json!(names));
    // A server takes those of pools, and its help has only what is chosen for a server.
    let help = done(&["serve", "--help"]);
    let options: Vec<&str> = help.lines().filter(|line| line.starts_with("      --")).collect();
    assert!(options.len() <= 23, "{options:?}");
    for setting in SETTINGS.iter().filter(|setting| setting.is_of_pools()) {
        assert!(!help.contains(&format!("--{} <", setting.name)), "{}", setting.name);
    }
}

/// Each of these was chosen otherwise when the server was started.
#[test]
fn settings_of_the_pool_that_apply_at_once_are_in_effect_while_served() {
    let pool = TestPool::new(&["--commit-interval", "1h", "--warn-used", "90"]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    let served = pool.serve(&[]);
    let content = noise(4, 1 << 20);
    let mut one = client(&pool, "a");
    let written = Submission::Write { offset: 0, data: &content, durable: false };
    assert!(one.run(written, |done| done.error).unwrap().is_none());
    set(&pool, &["--commit-interval", "100ms"]);
    // What no client flushes is durable after that time.
    std::thread::sleep(Duration::from_secs(1));
    served.kill();
    let back = pool.file("back");
    done(&["volume", "export", &pool.volume("a"), &back]);
    assert!(fs::read(back).unwrap().starts_with(&content));

    let served = pool.serve(&[]);
    assert_eq!(pool.stat("/health/state"), "good");
    set(&pool, &["--warn-used", "1"]);
    assert_eq!(pool.stat("/health/reason"), "space");
    set(&pool, &["--scrub-interval", "1d"]);
    wait_until("a pool that was never scrubbed is due at once", || {
        !pool.stat("/scrub/last").is_null()
    });
    assert_eq!(served.stop().0, 0);
    pool.assert_clean();
}

#[test]
fn the_page_has_the_table_of_the_program() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/pools.md");
    let page = fs::read_to_string(path).unwrap();
    let (_, rest) = page.split_once("see the test of this page -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- end of settings -->").unwrap();
    let expected = gemelo::settings::documented();
    if table != expected {
        fs::write("/tmp/gemelo-settings.md", &expected).unwrap();
    }
    assert_eq!(table, expected, "put /tmp/gemelo-settings.md there");
}
