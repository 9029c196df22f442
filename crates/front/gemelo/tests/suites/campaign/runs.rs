//! The runs of a campaign on targets that need root, and the monitor. The tests of the crate
//! `campaign` have failures, repetitions and resumption.

use super::{Place, can_mount, figure, json, leftovers};
use std::fs;

/// Every kind of target that needs root, each with two small loads.
const MOUNTED: &str = r#"
[campaign]
name = "x"
repetitions = 1
warm-up-runs = 0
[[target]]
name = "loop-{fs}"
matrix = { fs = ["ext4", "xfs", "btrfs"] }
loop = { file-system = "{fs}", size = "400m" }
[[target]]
name = "duperemove"
loop = { file-system = "xfs", size = "400m", settle = "duperemove" }
[[target]]
name = "volume-{fs}"
matrix = { fs = ["ext4", "xfs", "btrfs"] }
volume = { access = "{fs}", size = "400m" }
[[target]]
name = "zfs-{dedup}"
matrix = { dedup = [true, false] }
zfs = { size = "200m", dedup = "{dedup}", properties = ["recordsize=4k"] }
[[workload]]
name = "write"
bench = { file-size = "4m", distribution = "all-duplicates", sync = "fsync", fsync-every = 1000 }
[[workload]]
name = "tar"
targets = ["loop-*", "zfs-*"]
tar = { tree = "tree" }
[[workload]]
name = "fio"
targets = ["duperemove", "volume-*"]
fio = { rw = "randwrite", bs = "4k", size = "1m", end_fsync = 1 }
"#;

#[test]
fn mounted_targets_are_made_loaded_settled_and_given_back() {
    if !can_mount() {
        return;
    }
    let place = Place::with(MOUNTED);
    fs::create_dir_all(place.path("tree/below")).unwrap();
    fs::write(place.path("tree/below/file"), "text").unwrap();
    let ran = place.run(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(leftovers(&place), [""; 0]);
    let campaign = json(&place.out().join("campaign.json"));
    let left_out: Vec<_> = ["targets", "workloads"]
        .iter()
        .flat_map(|kind| campaign[kind].as_array().unwrap())
        .filter(|member| !member["left_out"].is_null())
        .map(|member| member["left_out"].as_str().unwrap())
        .collect();
    if !left_out.is_empty() {
        gemelo_tools::missing(&left_out.join(", "));
    }
    let space = |target: &str| {
        let records = place.records();
        let of_target = |record: &&serde_json::Value| {
            record["target"] == target && record["workload"] == "write"
        };
        records.iter().find(of_target).and_then(|record| figure(record, "space/data_bytes"))
    };
    // One content takes the space of one block where blocks are shared.
    // `duperemove` leaves about half of the copies of an extent.
    let of_all = |share: f64| share * f64::from(4 << 20);
    assert!(space("loop-ext4").unwrap() >= of_all(1.0));
    for (target, share) in [("duperemove", 0.75), ("volume-ext4", 0.4), ("zfs-true", 0.4)] {
        if let Some(bytes) = space(target) {
            assert!(bytes < of_all(share), "{target}: {bytes}");
        }
    }
}

#[test]
fn the_monitor_sees_the_target_and_costs_little() {
    let place = Place::with(
        "[campaign]\nname = 'x'\nrepetitions = 1\n\
         [[target]]\nname = 'v'\nvolume = { size = '64m', access = 'nbd' }\n\
         [[workload]]\nname = 'w'\nprepare = [{ idle = '10ms' }, { drop-caches = true }]\n\
         bench = { time = '2500ms', pattern = 'uniform' }\n",
    );
    let ran = place.run(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let record = place.records().remove(0);
    let average = |name: &str| {
        let figures = record["monitor"]["figures"].as_array().unwrap().iter();
        figures
            .clone()
            .find(|figure| figure["name"] == name)
            .map(|figure| figure["value"].as_f64().unwrap())
    };
    // The server works for the load all the time.
    assert!(average("target/cpu_share").unwrap() > 0.05);
    assert!(average("target/memory_bytes").unwrap() > 1e6);
    assert!(average("system/cpu_share").unwrap() > 0.05);
    let series = record["monitor"]["series"].as_array().unwrap();
    let own = series.iter().find(|series| series["name"] == "monitor/cpu_share").unwrap();
    assert!(own["points"].as_array().unwrap().len() >= 3);
    // The promise is 1 % of a core; a busy machine may account a tick of another process to it.
    assert!(average("monitor/cpu_share").unwrap() < 0.05);
    let phases: Vec<_> =
        record["phases"].as_array().unwrap().iter().map(|phase| &phase["name"]).collect();
    assert_eq!(phases, ["make", "space", "idle", "drop-caches", "measure", "space", "give-back"]);
}
