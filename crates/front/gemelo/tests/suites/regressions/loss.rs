//! Members of a domain that lost one of their objects.
//!
//! `gemelo-place` has the whole matrix of objects, keys and faults (`tests/losses`), on the
//! simulated store. Here the program meets the worst of them on Ceph.

use crate::ceph::Ceph;
use crate::members::host::Host;
use gemelo_base::random::mix_pair;
use std::process::Command;

const NAMESPACE: &str = "lost";
const DOMAIN: &str = "rados:gemelo/lost";
const PAGE: &str = "ledger.00000001.0000";
const BYTES: usize = 1 << 20;

/// Contents that begin with this number.
fn image(host: &Host<'_>, name: &str, first: u64) -> String {
    let words = first..first + BYTES as u64 / 8;
    let bytes: Vec<u8> = words.flat_map(|word| mix_pair(7, word).to_le_bytes()).collect();
    let path = host.file(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn rados(host: &Host<'_>, words: &[&str]) {
    let mut command = Command::new("rados");
    host.set_up(&mut command);
    let words = [&["--pool", "gemelo", "--namespace", NAMESPACE], words].concat();
    let output = command.args(&words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

fn done(host: &Host<'_>, words: &[&str]) {
    let ran = host.run(words);
    assert_eq!(ran.status, 0, "{words:?}: {}{}", ran.out, ran.err);
}

/// Makes a member that has published an image.
fn member(host: &Host<'_>, name: &str, image: &str) -> String {
    let member = format!("{DOMAIN}/{name}");
    done(host, &["-q", "pool", "create", &member, "--capacity", "64m"]);
    done(host, &["-q", "volume", "create", &format!("{member}/v"), "--size", "1m"]);
    done(host, &["-q", "volume", "import", "--force", image, &format!("{member}/v")]);
    done(host, &["-q", "pool", "dedup", &member]);
    member
}

/// A page of the ledger of `one` is removed, which lends all of its contents to `two`. Idle
/// serving, searching, scrubbing and collecting destroyed them then: 1,024 of 1,024 blocks.
#[test]
fn one_lost_page_of_a_ledger_destroys_nothing() {
    let Some(ceph) = Ceph::start() else { return };
    let host = Host::new(&ceph);
    done(&host, &["-q", "domain", "create", DOMAIN, "--shards", "1"]);
    let image = image(&host, "image", 1);
    let members = ["one", "two"].map(|name| member(&host, name, &image));
    let [one, two] = members.each_ref().map(String::as_str);
    assert_eq!(host.run(&["domain", "check", DOMAIN]).status, 0);
    rados(&host, &["rm", PAGE]);

    let check = host.run(&["domain", "check", DOMAIN]);
    assert_eq!(check.status, 4);
    assert!(check.out.contains(PAGE), "{}", check.out);
    let new = self::image(&host, "new", 1 << 40);
    let volume = format!("{one}/v");
    for words in [
        &["pool", "dedup", one][..],
        &["pool", "scrub", one],
        &["pool", "gc", one],
        &["volume", "import", "--force", &new, &volume],
        &["pool", "rm", "--force", one],
        &["pool", "create", "--force", "--capacity", "64m", one],
        &["serve", one, "--lease", "5s", "--listen", "unix:never"],
    ] {
        let refused = host.run(words);
        assert_ne!(refused.status, 0, "{words:?}");
        let is_told = refused.err.contains("domain check --repair")
            || refused.err.contains("other members use");
        assert!(is_told, "{words:?}: {}", refused.err);
    }
    let same = |when: &str| {
        for member in [one, two] {
            let out = host.file("out").to_str().unwrap().to_owned();
            done(&host, &["-q", "volume", "export", "--force", &format!("{member}/v"), &out]);
            assert!(std::fs::read(&out).unwrap() == std::fs::read(&image).unwrap(), "{when}");
        }
    };
    same("before the repair");

    let repaired = host.json(&["domain", "check", "--repair", DOMAIN]);
    assert_eq!(repaired["result"]["rewritten_ledgers"], 1);
    same("after the repair");
    for member in [one, two] {
        done(&host, &["-q", "pool", "dedup", member]);
        done(&host, &["-q", "pool", "gc", member]);
        assert_eq!(host.run(&["pool", "scrub", member]).status, 0);
    }
    same("after everything");
    assert_eq!(host.run(&["domain", "check", DOMAIN]).status, 0);
}

/// `pool rm --force` refused to destroy a member that lends contents, and `pool create --force` did
/// not.
#[test]
fn a_member_that_lends_contents_is_not_replaced() {
    let Some(ceph) = Ceph::start() else { return };
    let host = Host::new(&ceph);
    done(&host, &["-q", "domain", "create", DOMAIN, "--shards", "1"]);
    let image = image(&host, "image", 1);
    let members = ["one", "two"].map(|name| member(&host, name, &image));
    let [one, two] = members.each_ref().map(String::as_str);
    let create = ["pool", "create", "--force", "--capacity", "64m"];
    let refused = host.run(&[&create[..], &[one]].concat());
    assert_ne!(refused.status, 0);
    assert!(refused.err.contains("other members use 256 contents"), "{}", refused.err);
    // One that only borrows is.
    assert_eq!(host.run(&[&create[..], &[two]].concat()).status, 0);
    let out = host.file("out").to_str().unwrap().to_owned();
    done(&host, &["-q", "volume", "export", &format!("{one}/v"), &out]);
    assert!(std::fs::read(&out).unwrap() == std::fs::read(&image).unwrap());

    // A lost object of a member does not look like a pool that was never created.
    rados(&host, &["rm", "member.00000001"]);
    let lost = host.run(&["pool", "stat", one]).err;
    assert!(lost.contains("'member.00000001'") && lost.contains("Create no pool"), "{lost}");
    assert_eq!(host.run(&["domain", "check", DOMAIN]).status, 4);
}
