//! One result of several hosts.

use super::*;
use crate::common::gemelo;
use crate::schema::{misfits, schema_of};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that several hosts write together, and one host alone. Under other patterns each host has
/// places of its own.
const LOAD: [&str; 9] = [
    "bench",
    "--file-size",
    "256k",
    "--keep",
    "--run-id",
    "7",
    "--pattern",
    "sequential",
    "--target",
];

#[test]
fn hosts_write_what_one_host_with_as_many_processes_writes() {
    let place = Place::new();
    let [one, many, result] = ["one", "many", "result.json"].map(|name| place.text(name));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&many).unwrap();
    let alone = gemelo(&[&LOAD[..], &[&one, "--processes", "6"]].concat());
    assert_eq!(alone.status, 0, "{}", alone.err);
    let hosts = place.reach("x,y,z");
    let together = [&LOAD[..], &[&many, "--processes", "2", "--json", &result]].concat();
    let together = gemelo(&words(&together, &hosts));
    assert_eq!(together.status, 0, "{}", together.err);
    for number in 0..6 {
        let file = format!("gemelo-{number:04}.data");
        let [alone, together] = [&one, &many].map(|of| std::fs::read(format!("{of}/{file}")));
        assert_eq!(alone.unwrap(), together.unwrap(), "{file}");
    }
    // The text names the hosts, and the slowest of them.
    for told in ["sequential writes", "6 processes", "host", "x  ", "the slowest host is "] {
        assert!(together.out.contains(told), "{told}: {}", together.out);
    }
    let file = read(Path::new(&result));
    assert_eq!(misfits(&schema_of("gemelo.bench/1"), &file), Vec::<String>::new());
    check_sums(&file);
    check_report(&result, &["x", "y", "z"]);
    check_verified(&place, &many, &result, &hosts);
}

/// The merged figures are the sums of those of the hosts, and its histogram theirs bucket by
/// bucket.
fn check_sums(file: &Value) {
    let hosts = file["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 3);
    let writes = |result: &Value| result["total"]["writes"].clone();
    let counts = |result: &Value| -> Vec<[u64; 2]> {
        serde_json::from_value(writes(result)["latency"]["histogram"]["counts"].clone()).unwrap()
    };
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    let mut operations = 0;
    for host in hosts {
        let result = &host["file"]["result"][0];
        operations += writes(result)["operations"].as_u64().unwrap();
        for [latency_ns, count] in counts(result) {
            *buckets.entry(latency_ns).or_default() += count;
        }
        assert!(host["round_trip_ns"].as_u64().unwrap() > 0);
        assert_eq!(host["start_delays_ns"].as_array().unwrap().len(), 1);
    }
    let merged = &file["result"][0];
    assert_eq!(operations, 6 * 64);
    assert_eq!(writes(merged)["operations"], operations);
    assert_eq!(counts(merged), buckets.into_iter().map(|(at, n)| [at, n]).collect::<Vec<_>>());
    let second = |interval: &Value| interval["writes"]["operations"].as_u64().unwrap_or(0);
    let intervals = merged["intervals"].as_array().unwrap();
    assert_eq!(intervals.iter().map(second).sum::<u64>(), operations);
    let numbers: BTreeSet<u64> = merged["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|process| process["process"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..6).collect());
    let written = &merged["written"];
    assert_eq!((&written["blocks"], &merged["ended"]), (&operations.into(), &"bytes".into()));
}

/// The data are checked by all hosts, by one for all of them, and a damaged block is found.
fn check_verified(place: &Place, target: &str, result: &str, hosts: &[String]) {
    let by_all = || gemelo(&words(&["verify", result], hosts));
    let by_one = || gemelo(&["verify", result]);
    for ran in [by_all(), by_one()] {
        assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
        assert!(ran.out.contains("all as written"), "{}", ran.out);
    }
    assert!(by_all().out.contains("the slowest host is "));
    let fewer = gemelo(&words(&["verify", result], &place.reach("x,y")));
    assert_eq!(fewer.status, 2, "{}", fewer.err);
    // The last host wrote this file.
    let path = format!("{target}/gemelo-0005.data");
    let mut bytes = std::fs::read(&path).unwrap();
    let written = bytes.iter().position(|byte| *byte != 0).unwrap();
    bytes[written + 100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    for ran in [by_all(), by_one()] {
        assert_eq!(ran.status, 1, "{}{}", ran.out, ran.err);
        assert!(ran.out.contains("1 WRONG"), "{}", ran.out);
    }
}

#[test]
fn each_host_has_the_target_that_its_name_and_number_give() {
    let place = Place::new();
    for host in ["x-0", "y-1", "x-2"] {
        std::fs::create_dir(place.path(host)).unwrap();
    }
    let target = place.text("{host}-{index}");
    let load = ["bench", "--file-size", "64k", "--keep", "--target", &target];
    let ran = gemelo(&words(&load, &place.reach("x,y,x")));
    assert_eq!(ran.status, 0, "{}", ran.err);
    let data = |host: &str| std::fs::read(place.path(host).join("gemelo-0000.data")).unwrap();
    assert_ne!(data("x-0"), data("x-2"), "each entry writes a part of its own");
    assert_eq!(data("y-1").len(), 64 << 10);
}

#[test]
fn private_contents_are_on_one_host_and_shared_ones_on_several() {
    let place = Place::new();
    for (share, are_common) in [("0", true), ("100", false)] {
        for host in ["x", "y"] {
            std::fs::create_dir_all(place.path(share).join(host)).unwrap();
        }
        let target = format!("{}/{{host}}", place.text(share));
        let load = ["bench", "--file-size", "2m", "--keep", "--target", &target];
        let more = ["--private-share", share, "--distribution", "personal"];
        let ran = gemelo(&words(&[&load[..], &more].concat(), &place.reach("x,y")));
        assert_eq!(ran.status, 0, "{}", ran.err);
        let blocks = |host: &str| -> BTreeSet<Vec<u8>> {
            let data = std::fs::read(place.path(share).join(host).join("gemelo-0000.data"));
            data.unwrap().chunks(4096).map(<[u8]>::to_vec).collect()
        };
        let (one, other) = (blocks("x"), blocks("y"));
        assert_eq!(!one.is_disjoint(&other), are_common, "{share} % private");
        assert!(one.len() < 512, "contents have duplicates on their host");
    }
    let refused = gemelo(&["bench", "--target", "null:", "--private-share", "5"]);
    assert_eq!(refused.status, 2);
    assert!(refused.err.contains("--private-share has no effect"), "{}", refused.err);
}

#[test]
fn the_loads_of_the_suite_start_together_one_by_one() {
    let place = Place::new();
    std::fs::create_dir(place.path("data")).unwrap();
    let (data, json) = (place.text("data"), place.text("suite.json"));
    let load = ["suite", "--file-size", "64k", "--target", &data, "--json", &json];
    let ran = gemelo(&words(&load, &place.reach("x,y")));
    assert_eq!(ran.status, 0, "{}", ran.err);
    let file = read(Path::new(&json));
    assert_eq!(file["result"].as_array().unwrap().len(), 8);
    for host in file["hosts"].as_array().unwrap() {
        assert_eq!(host["start_delays_ns"].as_array().unwrap().len(), 8);
    }
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "files are removed");
}

#[test]
fn sixty_four_hosts_have_one_result() {
    let place = Place::new();
    let hosts: Vec<String> = (0..64).map(|number| format!("h{number}")).collect();
    std::fs::write(place.path("hosts"), format!("# all\n{}\n", hosts.join("\n"))).unwrap();
    let json = place.text("result.json");
    let load = ["bench", "--target", "null:", "--file-size", "64k", "--json", &json];
    let more = ["--host-timeout", "120s"];
    let reach = place.reach_by(&format!("@{}", place.text("hosts")), "sh -c");
    let ran = gemelo(&words(&[&load[..], &more].concat(), &reach));
    assert_eq!(ran.status, 0, "{}", ran.err);
    let file = read(Path::new(&json));
    assert_eq!(file["result"][0]["total"]["writes"]["operations"], 64 * 16);
    let names = file["hosts"].as_array().unwrap().iter().map(|host| host["host"].clone());
    assert_eq!(names.collect::<Vec<_>>(), hosts);
}

#[test]
fn the_program_is_brought_along_and_leaves_nothing() {
    let place = Place::new();
    std::fs::create_dir(place.path("there")).unwrap();
    let connect = format!("env TMPDIR={} sh -c", place.text("there"));
    let load = ["bench", "--target", "null:", "--file-size", "64k", "--copy", "--hosts", "x,y"];
    let ran = gemelo(&[&load[..], &["--connect", &connect]].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(std::fs::read_dir(place.path("there")).unwrap().count(), 0);
}
