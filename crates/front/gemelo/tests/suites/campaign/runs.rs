//! The runs of a campaign: failures, repetitions, resuming, the monitor.

use super::{Place, can_mount, figure, json, leftovers};
use std::fs;

#[test]
fn a_failing_run_loses_no_other_and_resuming_repeats_it_alone() {
    let place = Place::with(
        "[campaign]\nname = 'x'\nrepetitions = 2\n\
         [[target]]\nname = 'a'\ndirectory = {}\n[[target]]\nname = 'b'\ndirectory = {}\n\
         [[workload]]\nname = 'good'\ncommand = 'echo x/y_bytes=$SEED'\n\
         [[workload]]\nname = 'bad'\ncommand = 'test -e $RESULTS/../../../mended || { echo broken >&2; exit 7; }'\n",
    );
    let ran = place.run(&[]);
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("failed: 'sh' ended with exit status: 7: broken"), "{}", ran.err);
    let outcomes = |kind: &str| {
        place.records().iter().filter(|record| record["outcome"]["kind"] == kind).count()
    };
    assert_eq!((outcomes("done"), outcomes("failed")), (4, 4));
    let good: Vec<_> =
        place.records().iter().filter_map(|record| figure(record, "x/y_bytes")).collect();
    // Both targets get the seed of the repetition.
    assert_eq!(good, [1.0, 1.0, 2.0, 2.0]);
    let first = |place: &Place| {
        let records = place.records();
        records.into_iter().find(|record| record["workload"] == "good").unwrap()
    };
    let before = first(&place);
    fs::write(place.path("mended"), "").unwrap();
    let ran = place.run(&["--resume"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!((outcomes("done"), outcomes("failed")), (8, 0));
    assert_eq!(first(&place), before, "a complete run was repeated");
}

#[test]
fn a_campaign_is_not_overwritten_and_another_plan_does_not_go_on_with_it() {
    let plan = "[campaign]\nname = 'x'\nrepetitions = 1\n[[target]]\nname = 'a'\ndirectory = {}\n\
        [[workload]]\nname = 'w'\ncommand = 'true'\n";
    let place = Place::with(plan);
    let ran = place.run(&["--resume"]);
    assert_eq!((ran.status, ran.err.contains("has no campaign")), (2, true), "{}", ran.err);
    assert_eq!(place.run(&[]).status, 0);
    let ran = place.run(&[]);
    assert_eq!((ran.status, ran.err.contains("already has a campaign")), (2, true), "{}", ran.err);
    fs::write(place.plan(), plan.replace("'true'", "'exit 0'")).unwrap();
    let ran = place.run(&["--resume"]);
    assert_eq!((ran.status, ran.err.contains("another plan")), (2, true), "{}", ran.err);
}

/// Two targets, one with twice the time of the other, and two that differ by chance.
#[test]
fn repetitions_go_on_while_a_comparison_is_undecided_and_end_at_the_limit() {
    let place = Place::with(
        "[campaign]\nname = 'x'\nrepetitions = 3\nmax-repetitions = 6\n\
         [[target]]\nname = 'a'\ndirectory = {}\n[[target]]\nname = 'b'\ndirectory = {}\n\
         [[workload]]\nname = 'noisy'\nmain-figure = 'x/y_ns'\n\
         command = 'case $RESULTS in *-b-r*) echo x/y_ns=$((100 + SEED % 2 * 100)) ;; *) echo x/y_ns=100 ;; esac'\n\
         [[workload]]\nname = 'clear'\nmain-figure = 'x/y_ns'\n\
         command = 'case $RESULTS in *-b-r*) echo x/y_ns=$((200 + SEED)) ;; *) echo x/y_ns=$((100 + SEED)) ;; esac'\n",
    );
    let ran = place.run(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let count = |workload: &str| {
        place.records().iter().filter(|record| record["workload"] == workload).count()
    };
    assert_eq!((count("noisy"), count("clear")), (12, 6));
    assert_eq!(json(&place.out().join("campaign.json"))["runs"].as_array().unwrap().len(), 18);
}

/// 48 runs that fail one by one on a full disk say nothing: the campaign ends with the cause.
#[test]
fn a_campaign_without_space_says_so_before_it_starts_and_ends_when_a_disk_is_full() {
    let plan = |size: &str, command: &str| {
        format!(
            "[campaign]\nname = 'x'\nrepetitions = 9\n[[target]]\nname = 'a'\ndirectory = {{}}\n\
             [[workload]]\nname = 'w'\ndata = '{size}'\ncommand = '{command}'\n"
        )
    };
    let place = Place::with(&plan("9000t", "true"));
    let ran = place.run(&[]);
    assert_eq!(ran.status, 5, "{}", ran.err);
    assert!(ran.err.contains("the plan needs 8.79 PiB for one target"), "{}", ran.err);
    assert!(!place.out().exists(), "nothing was touched");
    let place = Place::with(&plan("1m", "echo No space left on device >&2; exit 1"));
    let ran = place.run(&[]);
    assert_eq!(ran.status, 5, "{}", ran.err);
    assert!(ran.err.contains("a disk is full: run 0001-w-a-r0"), "{}", ran.err);
    assert_eq!(leftovers(&place), [""; 0]);
}

/// Every kind of target that needs root, each with a small load.
const MOUNTED: &str = r#"
[campaign]
name = "x"
repetitions = 1
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
tar = { tree = "tree" }
[[workload]]
name = "fio"
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
