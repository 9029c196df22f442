//! Replays on several hosts.

use super::*;
use crate::common::gemelo;
use crate::schema::{misfits, schema_of};
use std::collections::BTreeSet;
use std::fs;

const BLOCK: usize = 4096;

/// A trace of FIU that writes blocks one after another; each content is written twice.
fn hashed(blocks: u64, first: u64) -> String {
    let line = |at: u64| format!("{at} 7 p {} 8 W 6 0 {:032x}\n", at * 8, first + at / 2);
    (1..=blocks).map(line).collect()
}

/// A log of fio that writes blocks one after another. It says nothing of contents.
fn unhashed(blocks: u64) -> String {
    let line = |at: u64| format!("data write {} {BLOCK}\n", at * BLOCK as u64);
    let lines: String = (0..blocks).map(line).collect();
    format!("fio version 2 iolog\ndata add\ndata open\n{lines}data close\n")
}

fn contents(path: &Path) -> BTreeSet<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    bytes.chunks(BLOCK).filter(|block| block.iter().any(|byte| *byte != 0)).map(Vec::from).collect()
}

#[test]
fn each_host_replays_its_trace_onto_its_target_and_one_result_has_the_sums() {
    let place = Place::new();
    fs::write(place.path("x.trace"), hashed(64, 1)).unwrap();
    fs::write(place.path("y.trace"), hashed(32, 17)).unwrap();
    let result = place.text("result.json");
    let [trace, target, alone] =
        ["{host}.trace", "{index}.data", "alone"].map(|name| place.text(name));
    let replay =
        ["replay", &trace, "--target", &target, "--keep", "--speed", "max", "--json", &result];
    let ran = gemelo(&words(&replay, &place.reach("x,y")));
    assert_eq!(ran.status, 0, "{}", ran.err);
    for (index, host) in ["x", "y"].into_iter().enumerate() {
        let trace = place.text(&format!("{host}.trace"));
        let words = ["replay", &trace, "--target", &alone, "--keep", "--speed", "max", "--force"];
        assert_eq!(gemelo(&words).status, 0);
        let there = fs::read(place.path(&format!("{index}.data"))).unwrap();
        assert_eq!(there, fs::read(&alone).unwrap(), "host {host}");
    }
    let file = read(Path::new(&result));
    assert_eq!(misfits(&schema_of("gemelo.replay/1"), &file), Vec::<String>::new());
    let writes = |file: &Value| file["result"]["writes"]["operations"].as_u64().unwrap();
    let hosts = file["hosts"].as_array().unwrap();
    let of_hosts: Vec<u64> = hosts.iter().map(|host| writes(&host["file"])).collect();
    assert_eq!((of_hosts.len(), writes(&file)), (2, of_hosts.iter().sum()));
    assert_eq!(file["result"]["records"], 96);
    let seconds = file["result"]["seconds"].as_array().unwrap();
    let in_seconds = |second: &Value| second["writes"]["operations"].as_u64().unwrap();
    assert_eq!(seconds.iter().map(in_seconds).sum::<u64>(), writes(&file));
    check_report(&result, &["x", "y"]);
    assert_eq!(file["input"]["traces"][0], trace.as_str());
    assert!(hosts.iter().all(|host| host["start_delays_ns"].as_array().unwrap().len() == 1));
    for told in ["96 records", "x  ", "y  ", "the slowest host is "] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
}

#[test]
fn contents_that_a_trace_does_not_state_differ_between_hosts_as_far_as_they_are_unique() {
    let place = Place::new();
    fs::write(place.path("trace"), unhashed(64)).unwrap();
    let [trace, target] = ["trace", "{index}.data"].map(|name| place.text(name));
    for (distribution, common) in [("unique", 0), ("all-duplicates", 1)] {
        let replay = [
            &["replay", &trace, "--target", &target, "--keep", "--force", "--speed", "max"][..],
            &["--distribution", distribution],
        ]
        .concat();
        let ran = gemelo(&words(&replay, &place.reach("x,y")));
        assert_eq!(ran.status, 0, "{}", ran.err);
        let [one, other] = ["0.data", "1.data"].map(|name| contents(&place.path(name)));
        assert_eq!(one.intersection(&other).count(), common, "{distribution}");
        assert_eq!(one.len(), other.len());
    }
}

#[test]
fn one_target_for_all_hosts_is_refused_unless_each_has_its_own_of_that_name() {
    let place = Place::new();
    fs::write(place.path("trace"), hashed(8, 1)).unwrap();
    let [trace, target] = ["trace", "data"].map(|name| place.text(name));
    let replay = ["replay", &trace, "--target", &target, "--speed", "max"];
    let refused = gemelo(&words(&replay, &place.reach("x,y")));
    assert_eq!(refused.status, 2, "{}", refused.err);
    assert!(refused.err.contains("--own-targets") && !place.path("data").exists());
    let own = words(&[&replay[..], &["--own-targets"]].concat(), &place.reach("x"));
    let ran = gemelo(&own);
    assert_eq!(ran.status, 0, "{}", ran.err);
}

#[test]
fn a_host_without_its_trace_refuses_and_nobody_begins() {
    let place = Place::new();
    fs::write(place.path("x.trace"), hashed(8, 1)).unwrap();
    let [trace, target] = ["{host}.trace", "{index}.data"].map(|name| place.text(name));
    let replay = ["replay", &trace, "--target", &target, "--speed", "max", "--keep"];
    let ran = gemelo(&words(&replay, &place.reach("x,y")));
    assert_eq!(ran.status, 2, "{}", ran.err);
    assert!(ran.err.contains("y.trace"), "{}", ran.err);
    assert!(!place.path("0.data").exists() && !place.path("1.data").exists());
}
