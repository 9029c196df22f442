//! Members of domains on a Ceph cluster.
//!
//! Each test has a cluster of its own. The tests connect again themselves after a fail-over, except
//! where QEMU does it.

mod clock;
mod coded;
mod contents;
mod copying;
mod guide;
pub(crate) mod host;
mod rights;
mod sharing;
mod storm;
mod takeover;

use crate::ceph::Ceph;
use crate::common::gemelo;
use host::Host;

#[test]
fn a_member_of_a_domain_on_ceph_is_served_by_one_host_at_a_time() {
    let Some(ceph) = Ceph::start() else { return };
    takeover::run(&Host::new(&ceph));
}

#[test]
fn two_members_store_equal_contents_once_and_lose_none() {
    let Some(ceph) = Ceph::start() else { return };
    sharing::run(&Host::new(&ceph));
}

#[test]
fn snapshots_reach_members_and_leave_them_compressed_or_plain() {
    let Some(ceph) = Ceph::start() else { return };
    copying::run(&Host::new(&ceph));
}

#[test]
fn contents_in_an_erasure_coded_pool_survive_slow_servers_and_a_fail_over_under_qemu() {
    let Some(ceph) = Ceph::start() else { return };
    coded::run(&Host::new(&ceph));
}

#[test]
fn the_commands_of_the_guide_run_as_they_are_printed_and_their_rights_are_the_least() {
    let Some(ceph) = Ceph::start() else { return };
    let host = Host::new(&ceph);
    guide::run(&host);
    rights::run(&host);
}

#[test]
fn steps_of_the_clock_neither_end_a_lease_nor_prolong_it() {
    if !clock::has_faketime() {
        return;
    }
    let Some(ceph) = Ceph::start() else { return };
    clock::run(&Host::new(&ceph));
}

#[test]
fn four_members_keep_every_flushed_block_over_random_faults() {
    let Some(ceph) = Ceph::start() else { return };
    storm::run(&Host::new(&ceph));
}

#[test]
fn a_cluster_that_cannot_be_reached_and_a_wrong_name_are_named() {
    let refused = |words: &[&str]| {
        let ran = gemelo(words);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{words:?}: {}", ran.err);
        ran.err
    };
    let text = refused(&["pool", "stat", "rados:pool/namespace"]);
    assert!(text.contains("rados:POOL/NAMESPACE/MEMBER"), "{text}");
    for command in ["ls", "stat"] {
        let text = refused(&["pool", command, "rados:pool/namespace"]);
        assert!(text.contains("'gemelo domain ls rados:pool/namespace'"), "{text}");
    }
    let text = refused(&["volume", "ls", "rados:"]);
    assert!(text.contains("rados:POOL/NAMESPACE/MEMBER"), "{text}");
    let text = refused(&["domain", "ls", "somewhere"]);
    assert!(text.contains("rados:POOL/NAMESPACE"), "{text}");
    let text = refused(&["pool", "stat", "rados:a/b/c:conf=/nowhere/ceph.conf"]);
    assert!(text.contains("/nowhere/ceph.conf") || text.contains("librados2"), "{text}");
    let text = refused(&["serve", "pool", "--lease", "5s", "--listen", "unix:x"]);
    assert!(text.contains("--lease"), "{text}");
}
