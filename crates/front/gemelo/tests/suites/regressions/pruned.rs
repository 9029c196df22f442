//! Old copies go by the rule of schedules: those of one volume, and not what is held.

use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, noise, refused};
use std::fs;

fn import(pool: &TestPool, name: &str, bytes: &[u8]) {
    let raw = pool.file("raw");
    fs::write(&raw, bytes).unwrap();
    done(&["volume", "import", &raw, &pool.volume(name), "--force"]);
}

fn names(pool: &TestPool) -> Vec<String> {
    let volumes = pool.stat("/volumes");
    let name = |volume: &serde_json::Value| volume["name"].as_str().unwrap().to_owned();
    volumes.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn copies_of_earlier_snapshots_go_and_held_and_other_ones_stay() {
    for is_served in [false, true] {
        let (from, to) = (TestPool::new(&[]), TestPool::new(&[]));
        let servers = is_served.then(|| [from.serve(&[]), to.serve(&[])]);
        let program = env!("CARGO_BIN_EXE_gemelo");
        let copy = |name: &str, keep: &[&str]| {
            let there = format!("host:{}", to.volume(name));
            let connect = ["--connect", "sh -c", "--program", program];
            let words = ["volume", "copy", &from.volume(name), &there];
            let Ran { status, out, err } = gemelo(&[&words[..], &connect[..], keep].concat());
            assert_eq!(status, 0, "{err}");
            out + &err
        };
        for (volume, number) in [("v", 0), ("v", 1), ("v", 2), ("v", 3), ("w", 0)] {
            import(&from, volume, &[noise(99, 1 << 16), noise(number, 1 << 14)].concat());
            let name = format!("{volume}{number}");
            done(&["volume", "snapshot", &from.volume(volume), &name]);
        }
        ["v0", "v1", "w0"].into_iter().for_each(|name| drop(copy(name, &[])));
        done(&["volume", "snapshot", &to.volume("v1"), "own"]);
        done(&["volume", "clone", &to.volume("v1"), "clone"]);
        done(&["volume", "hold", &to.volume("v0")]);
        let said = copy("v2", &["--keep", "1"]);
        assert!(said.contains("v0 stays: snapshot 'v0' is held"), "{said}");
        assert_eq!(names(&to), ["clone", "own", "v0", "v2", "w0"], "held, of others, or no copies");
        done(&["volume", "release", &to.volume("v0")]);
        // The sender has no earlier snapshots any more, and still only what is new goes.
        done(&["volume", "rm", "--force", &from.volume("v0")]);
        let said = copy("v3", &["--keep", "2,1d"]);
        assert!(said.contains("differs from v2"), "{said}");
        assert_eq!(names(&to), ["clone", "own", "v2", "v3", "w0"]);
        // A copy of a copy is one of the same volume.
        let third = TestPool::new(&[]);
        for name in ["v2", "v3"] {
            done(&["volume", "copy", &to.volume(name), &third.volume(name)]);
        }
        let removed = done(&["volume", "prune", &third.volume("v3"), "--keep", "1"]);
        assert_eq!(removed, format!("{}: removed\n", third.volume("v2")));
        done(&["volume", "prune", &to.volume("v2"), "--keep", "1"]);
        assert_eq!(names(&to), ["clone", "own", "v2", "v3", "w0"], "the named copy stays");
        let error = refused(&["volume", "prune", &to.volume("own"), "--keep", "1"]);
        assert!(error.contains("'own' is no copy of a snapshot of a volume"), "{error}");
        assert!(refused(&["volume", "prune", &to.volume("v3"), "--keep", "x"]).contains("counts"));
        for server in servers.into_iter().flatten() {
            assert_eq!(server.stop(), (0, String::new()));
        }
        to.assert_clean();
    }
}
