//! Scans of the data of several hosts.

use super::*;
use crate::common::gemelo;
use crate::schema::{misfits, schema_of};
use gemelo_tools::has_tool;

/// Two hosts whose data have duplicates within them and across them.
fn data() -> Place {
    let place = Place::new();
    for (host, numbers) in [("x", [1u8, 1, 2, 3]), ("y", [1, 4, 4, 3])] {
        std::fs::create_dir(place.path(host)).unwrap();
        let blocks = numbers.map(|number| vec![number; 4096]).concat();
        std::fs::write(place.path(host).join("data"), blocks).unwrap();
    }
    place
}

#[test]
fn the_sets_of_hosts_are_brought_back_and_merged() {
    let place = data();
    let (each, save) = (place.text("{host}"), place.text("all.set"));
    let json = place.text("result.json");
    let scan = ["scan", &each, "--json", &json, "--save", &save];
    let ran = gemelo(&words(&scan, &place.reach("x,y")));
    assert_eq!(ran.status, 0, "{}", ran.err);
    for told in ["host", "x  ", "y  ", "the slowest host is "] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
    let hosts = read(Path::new(&json));
    for host in hosts["hosts"].as_array().unwrap() {
        assert_eq!(host["file"]["result"]["block_sizes"][0]["blocks"], 4);
    }
    check_report(&json, &["x", "y"]);
    assert_eq!(misfits(&schema_of("gemelo.scan/1"), &hosts), Vec::<String>::new());
    assert_eq!(hosts["input"]["paths"][1], format!("y:{}", place.text("y")));
    let [x, y] = ["x", "y"].map(|host| place.text(host));
    let alone: Value = serde_json::from_str(&gemelo(&["scan", &x, &y, "--json", "-"]).out).unwrap();
    for figure in ["blocks", "distinct", "unique", "duplicates"] {
        let of = |result: &Value| result["result"]["block_sizes"][0][figure].clone();
        assert_eq!(of(&hosts), of(&alone), "{figure}");
    }
    let merged = gemelo(&["scan", "merge", &save]);
    assert_eq!(merged.status, 0, "{}", merged.err);
    counted_by_duckdb(&save);
}

/// The distribution in the saved set by the query of the document.
fn counted_by_duckdb(set: &str) {
    if !has_tool("python3") {
        return;
    }
    let script = "import duckdb, sys\n\
        query = f\"SELECT copies - 1, count(*) FROM read_parquet('{sys.argv[1]}') \
        WHERE block_bytes = 4096 GROUP BY ALL ORDER BY ALL\"\n\
        print(duckdb.sql(query).fetchall())";
    let has_it = Command::new("python3").args(["-c", "import duckdb"]).output().unwrap();
    if !has_it.status.success() {
        eprintln!("not compared: python3 has no module duckdb, which no package installs");
        return;
    }
    let output = Command::new("python3").args(["-c", script, set]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    // One block of 2 alone; 3 on both hosts, 4 twice on one; 1 three times.
    assert_eq!(told.trim(), "[(0, 1), (1, 2), (2, 1)]");
}

#[test]
fn a_host_that_is_lost_during_the_scan_leaves_the_sets_of_the_others() {
    let place = data();
    let (each, json) = (place.text("{host}"), place.text("result.json"));
    let reach = place.reach_and_lose_the_second("x,y");
    let ran = gemelo(&words(&["scan", &each, "--json", &json], &reach));
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("host y: its connection ended"), "{}", ran.err);
    let hosts = ran.out.split_once("Hosts\n").unwrap().1;
    assert!(hosts.contains("x  ") && hosts.contains("no result"), "{hosts}");
    let file = read(Path::new(&json));
    assert_eq!(misfits(&schema_of("gemelo.scan/1"), &file), Vec::<String>::new());
    assert_eq!(file["result"]["block_sizes"][0]["blocks"], 4, "the blocks of x alone");
    assert!(file["hosts"][1]["file"].is_null() && file["hosts"][1]["failure"].is_string());
    assert!(file["warnings"].to_string().contains("host y: "), "{}", file["warnings"]);
}

#[test]
fn a_host_that_cannot_scan_keeps_all_from_beginning() {
    let place = data();
    let each = place.text("{host}");
    let script =
        format!("if [ {{index}} = 1 ]; then exec {PROGRAM} host --die; fi; exec {{command}}");
    let connect = format!("sh -c '{script}'");
    let refused = gemelo(&words(&["scan", &each], &place.reach_by("x,y", &connect)));
    assert_eq!(refused.status, 1, "{}", refused.err);
    std::fs::remove_dir_all(place.path("y")).unwrap();
    let ran = gemelo(&words(&["scan", &each], &place.reach("x,y")));
    assert_ne!(ran.status, 0);
    assert!(ran.err.contains("host y: "), "{}", ran.err);
    let estimate = gemelo(&words(&["scan", "--estimate", &each], &place.reach("x,y")));
    assert_eq!(estimate.status, 2, "{}", estimate.err);
}
