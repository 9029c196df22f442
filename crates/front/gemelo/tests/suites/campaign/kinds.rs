//! Kinds of targets that exist before the campaign, and rates that follow from the target.

use super::{Place, can_mount, figure, json, leftovers};
use crate::common::gemelo;
use std::fs::{self, File};
use std::process::{Child, Command};

/// A file as a block device.
struct LoopDevice(String);

impl LoopDevice {
    fn new(place: &Place) -> Self {
        let image = std::env::temp_dir().join(format!("gemelo-kinds-{}", std::process::id()));
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let out = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        fs::rename(&image, place.path("image")).unwrap();
        Self(String::from_utf8(out.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// A server of a new pool with one volume.
struct Server(Child);

impl Server {
    fn new(place: &Place) -> Self {
        let gemelo = |words: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
            command.args(words);
            command
        };
        let pool = place.path("pool");
        let pool = pool.to_str().unwrap();
        let volume = format!("{pool}/disk");
        for words in [
            &["pool", "create", pool, "--capacity", "64m"][..],
            &["volume", "create", &volume, "--size", "32m"],
        ] {
            assert!(gemelo(words).status().unwrap().success(), "{words:?}");
        }
        let socket = place.path("socket");
        let listen = format!("unix:{}", socket.display());
        let server = gemelo(&["serve", pool, "--listen", &listen]).spawn().unwrap();
        while !socket.exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Self(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn devices_and_exports_are_targets() {
    if !can_mount() {
        return;
    }
    let place = Place::with("");
    let (device, _server) = (LoopDevice::new(&place), Server::new(&place));
    let plan = format!(
        "[campaign]\nname = 'kinds'\nrepetitions = 1\n\
         [[target]]\nname = 'device'\n\
         device = {{ path = '{}', overwrite = true, discard = true }}\n\
         [[target]]\nname = 'export'\nnbd = 'nbd+unix:///disk?socket={}'\n\
         [[workload]]\nname = 'w'\nbench = {{ file-size = '8m', bytes = '8m' }}\n",
        device.0,
        place.path("socket").display()
    );
    fs::write(place.plan(), plan).unwrap();
    let ran = place.run(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let records = place.records();
    assert_eq!(records.len(), 2);
    for record in &records {
        assert!(figure(record, "write/operations_per_s").is_some_and(|rate| rate > 0.0));
    }
    let left: Vec<String> = leftovers(&place)
        .into_iter()
        .filter(|left| !left.contains("/image") && !left.contains(" serve "))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn rates_follow_from_the_peak_of_the_target() {
    let place = Place::with(
        "[campaign]\nname = 'paced'\nrepetitions = 1\n\
         [[target]]\nname = 't'\ndirectory = {}\n\
         [[workload]]\nname = 'half'\n\
         bench = { file-size = '4m', time = '200ms', load = '50%' }\n\
         [[workload]]\nname = 'limit'\n\
         bench = { file-size = '4m', time = '100ms', latency-limit = '10s' }\n",
    );
    let ran = place.run(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    for record in place.records() {
        let value = |name: &str| figure(&record, name).unwrap_or_else(|| panic!("{name}"));
        let share = value("write/operations_per_s") / value("peak/operations_per_s");
        if record["workload"] == "half" {
            // A busy machine reaches less.
            assert!(share < 0.6, "{share}");
        } else {
            // Every latency keeps this limit, so only the rate itself can be too high.
            assert!(value("limit/operations_per_s") <= value("peak/operations_per_s"));
        }
    }
}

/// "Hosts" of this machine, which a shell reaches.
#[test]
fn workloads_run_on_the_hosts_that_the_plan_names() {
    let trace = "fio version 2 iolog\ndata add\ndata open\ndata write 0 4096\ndata close\n";
    let script = "set $dir=/nowhere\nset mode quit firstdone\n\
        define fileset name=set,path=$dir,entries=2,dirwidth=5,filesize=4k\n\
        define process name=p { thread name=t,memsize=1m {\n\
        flowop createfile name=new,filesetname=set,fd=1\nflowop closefile name=close,fd=1\n\
        flowop finishoncount name=done,value=2,target=close } }\nrun 20\n";
    let program = env!("CARGO_BIN_EXE_gemelo");
    let reach = format!("connect = 'sh -c', program = '{program}'");
    let workload = |name: &str, keys: &str| {
        format!("[[workload]]\nname = '{name}'\n{name} = {{ {keys}, {reach} }}\n")
    };
    let place = Place::with(&format!(
        "[campaign]\nname = 'c'\nrepetitions = 1\n[[target]]\nname = 'd'\ndirectory = {{}}\n{}{}{}{}",
        workload("bench", "file-size = '64k', hosts = 'x,y'"),
        workload("suite", "file-size = '64k', hosts = 'x,y'"),
        // Both "hosts" are this machine, so only one can have a target of its own of that name.
        workload("replay", "traces = 'trace', hosts = 'x', own-targets = true"),
        workload("filebench", "script = 'script', hosts = 'x', own-targets = true"),
    ));
    fs::write(place.path("trace"), trace).unwrap();
    fs::write(place.path("script"), script).unwrap();
    let ran = place.run(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    // The report has the hosts of each workload side by side, and names the slowest.
    let made = gemelo(&["campaign", "report", place.out().to_str().unwrap()]);
    assert_eq!(made.status, 0, "{}", made.err);
    let report = fs::read_to_string(place.out().join("report.md")).unwrap();
    let (_, of_bench) = report.split_once("## bench\n").unwrap();
    let of_bench = of_bench.split("\n## ").next().unwrap();
    for told in ["The slowest host on d is ", "| 0 x | ", "| 1 y | ", " of the mean of all."] {
        assert!(of_bench.contains(told), "{told}: {of_bench}");
    }
    assert_eq!(report.matches("The slowest host on d is ").count(), 1 + 8, "{report}");
    for (workload, count) in [("bench", 2), ("suite", 2), ("replay", 1), ("filebench", 1)] {
        let record = place.records().into_iter().find(|record| record["workload"] == workload);
        let id = record.unwrap()["id"].as_str().unwrap().to_owned();
        let files = fs::read_dir(place.out().join("runs").join(id)).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let results = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let hosts = results.filter_map(|path| Some(json(&path)["hosts"].as_array()?.len()));
        assert_eq!(hosts.collect::<Vec<_>>(), [count], "{workload}");
    }
}
