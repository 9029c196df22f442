//! The rights of the user of the guide, after the commands of the guide: a take-over needs no more
//! of them, and none can be left out.

use super::contents::{assert_written, write};
use super::host::{Host, LEASE};
use rustix::process::Signal;

const DOMAIN: &str = "rados:vms/prod";
const FENCES: &str = "profile rbd";
const READS_CLUSTER: &str = "allow r";

pub(crate) fn run(host: &Host<'_>) {
    a_take_over_needs_no_more(host);
    other_namespaces_are_closed(host);
    each_right_is_needed(host);
}

fn member(user: &str) -> String {
    format!("{DOMAIN}/one:id={user}")
}

/// The user of the guide fences the process of a killed server, and may end that fence.
fn a_take_over_needs_no_more(host: &Host<'_>) {
    host.done(&["volume", "create", &format!("{DOMAIN}/one/disk:id=gemelo"), "--size", "16m"]);
    let mut server = host.serve(&member("gemelo"), "least", &["--lease", LEASE]);
    server.wait_until_it_serves();
    write(&*server.volume(), 0..500, 1);
    let standby = host.serve(&member("gemelo"), "next", &["--lease", LEASE, "--standby"]);
    server.signal(Signal::KILL);
    assert_written(&*standby.volume(), 0..500, 1);
    let fences = host.ceph(&["osd", "blocklist", "ls"]);
    let mut fenced = fences.lines().filter_map(|line| line.split_whitespace().next());
    // The fence by which a server tests its right is of a reserved address.
    let fenced = fenced.find(|address| !address.starts_with("192.0.2.")).unwrap();
    host.ceph(&["--id", "gemelo", "osd", "blocklist", "rm", fenced]);
    standby.end();
    host.done(&["domain", "check", &format!("{DOMAIN}:id=gemelo")]);
}

/// Returns what a command prints that is refused because of a right.
fn refused(host: &Host<'_>, words: &[&str]) -> String {
    let ran = host.run(words);
    assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{words:?}: {}", ran.err);
    ran.err
}

fn other_namespaces_are_closed(host: &Host<'_>) {
    let other = "rados:vms/other:id=gemelo";
    let text = refused(host, &["domain", "create", other, "--data-pool", "vms-data"]);
    assert!(text.contains("the Ceph user may not") && text.contains("'allow rwx'"), "{text}");
}

/// Users that lack one right each cannot serve the member, and change nothing.
fn each_right_is_needed(host: &Host<'_>) {
    let storage = |letters: &str| {
        let of_pool = |pool: &str| format!("allow {letters} pool={pool} namespace=prod");
        ["vms", "vms-data"].map(of_pool).join(", ")
    };
    let without_contents = "allow rwx pool=vms namespace=prod";
    for (user, cluster, storage, named) in [
        ("unfenced", READS_CLUSTER, storage("rwx"), "'profile rbd'"),
        ("reader", FENCES, storage("rx"), "'allow rwx'"),
        ("unlocked", FENCES, storage("rw"), "'allow rwx'"),
        ("contents", FENCES, without_contents.to_owned(), "'allow rwx'"),
    ] {
        let key = host.cluster_file(&format!("ceph.client.{user}.keyring"));
        let key = key.display().to_string();
        let client = format!("client.{user}");
        let rights = ["mon", cluster, "osd", &storage, "-o", &key];
        host.ceph(&[&["auth", "get-or-create", &client], &rights[..]].concat());
        let words = ["serve", &member(user), "--listen", "unix:x", "--lease", LEASE];
        let text = refused(host, &words);
        assert!(text.contains("the Ceph user may not") && text.contains(named), "{user}: {text}");
    }
    let mut server = host.serve(&member("gemelo"), "least", &["--lease", LEASE]);
    server.wait_until_it_serves();
    assert_written(&*server.volume(), 0..500, 1);
    server.end();
}
