//! Hosts that go away during a run: whatever was measured is kept, and nothing goes on. The tests
//! of the crate `fleet` have other ends of hosts, and those of coordinators.

use super::*;
use crate::schema::{misfits, schema_of};

/// A run that nobody would wait for, with the processes of its hosts. They are at work when it
/// returns.
fn long_run(place: &Place, hosts: &str) -> (Child, Vec<u32>) {
    std::fs::create_dir_all(place.path("data")).unwrap();
    let target = place.text("data");
    let load = ["bench", "--time", "1h", "--file-size", "64k", "--target", &target];
    let more = ["--rate", "200", "--host-timeout", "4s", "--json", &place.text("result.json")];
    let child = start(&words(&[&load[..], &more].concat(), &place.reach(hosts)));
    let count = hosts.split(',').count();
    let all: Vec<u32> = (0..count).map(|index| place.process_of(index)).collect();
    let files = || std::fs::read_dir(&target).unwrap().count();
    wait_until("all hosts have made their files", || files() == count);
    until_at_work(&all);
    (child, all)
}

/// Nothing goes on: the processes of the hosts are gone, and so are their files.
fn check_nothing_goes_on(place: &Place, processes: &[u32], is_clean: bool) {
    for process in processes {
        wait_until("the process of a host has ended", || !is_alive(*process));
    }
    if is_clean {
        assert_eq!(std::fs::read_dir(place.path("data")).unwrap().count(), 0);
    }
}

/// The result of a run whose host y was lost.
fn check_kept(place: &Place) {
    let file = read(&place.path("result.json"));
    assert_eq!(misfits(&schema_of("gemelo.bench/1"), &file), Vec::<String>::new());
    let hosts = file["hosts"].as_array().unwrap();
    for (host, name) in hosts.iter().zip(["x", "y", "z"]) {
        assert_eq!(host["host"], name);
        assert_eq!(host["file"].is_null(), name == "y", "{name}");
        assert!(host["failure"].is_string());
    }
    let failure = hosts[1]["failure"].as_str().unwrap();
    assert!(failure.contains("its connection ended"), "{failure}");
    let merged = &file["result"][0];
    assert_eq!(merged["ended"], "stopped");
    assert!(merged["total"]["writes"]["operations"].as_u64().unwrap() > 0);
    let warnings = file["warnings"].to_string();
    assert!(warnings.contains("host y: "), "{warnings}");
}

#[test]
fn the_result_of_the_others_is_kept_when_a_host_dies() {
    let place = Place::new();
    let (run, all) = long_run(&place, "x,y,z");
    signal(all[1], "KILL");
    let (status, err) = ended(run);
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("host y: its connection ended (signal: 9"), "{err}");
    check_kept(&place);
    check_nothing_goes_on(&place, &all, false);
}

/// A trace of FIU that writes a block every 20 ms for more than an hour.
fn long_trace() -> String {
    let line = |at: u64| format!("{} 7 p {} 8 W 6 0 {at:032x}\n", at * 20_000_000, at % 16 * 8);
    (1..=200_000).map(line).collect()
}

#[test]
fn the_seconds_of_the_others_are_kept_when_a_host_dies_in_a_replay() {
    let place = Place::new();
    std::fs::write(place.path("trace"), long_trace()).unwrap();
    let [trace, target, json] = ["trace", "{index}.data", "result.json"].map(|it| place.text(it));
    let replay = ["replay", &trace, "--target", &target, "--speed", "1", "--json", &json];
    let more = ["--host-timeout", "20s"];
    let run = start(&words(&[&replay[..], &more].concat(), &place.reach("x,y,z")));
    let all = [0, 1, 2].map(|index| place.process_of(index));
    let written = |index: u32| std::fs::metadata(place.path(&format!("{index}.data")));
    wait_until("all hosts have made their files", || (0..3).all(|index| written(index).is_ok()));
    until_at_work(&all);
    signal(all[1], "KILL");
    let (status, err) = ended(run);
    assert_eq!(status, Some(1), "{err}");
    let file = read(Path::new(&json));
    assert_eq!(misfits(&schema_of("gemelo.replay/1"), &file), Vec::<String>::new());
    let hosts = file["hosts"].as_array().unwrap();
    let is_lost: Vec<bool> = hosts.iter().map(|host| host["file"].is_null()).collect();
    assert_eq!(is_lost, [false, true, false]);
    assert!(file["warnings"].to_string().contains("host y: its connection ended"), "{err}");
    let operations = |of: &Value| of["writes"]["operations"].as_u64().unwrap();
    let of_hosts: u64 =
        [0, 2].map(|host: usize| operations(&hosts[host]["file"]["result"])).iter().sum();
    let in_seconds: u64 =
        file["result"]["seconds"].as_array().unwrap().iter().map(operations).sum();
    assert!(of_hosts > 50, "{of_hosts}");
    assert_eq!((operations(&file["result"]), in_seconds), (of_hosts, of_hosts));
    for process in all {
        wait_until("the process of a host has ended", || !is_alive(process));
    }
}

#[test]
fn the_others_tell_what_they_have_verified_when_a_host_is_lost() {
    let place = Place::new();
    std::fs::create_dir(place.path("data")).unwrap();
    let [target, json] = ["data", "result.json"].map(|name| place.text(name));
    let load = ["bench", "--file-size", "64k", "--keep", "--target", &target, "--json", &json];
    let wrote = crate::common::gemelo(&words(&load, &place.reach("x,y")));
    assert_eq!(wrote.status, 0, "{}", wrote.err);
    let reach = place.reach_and_lose_the_second("x,y");
    let ran = crate::common::gemelo(&words(&["verify", &json], &reach));
    assert_eq!(ran.status, 1, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("host y: its connection ended"), "{}", ran.err);
    let lost = crate::common::gemelo(&words(&["verify", &json], &place.reach_by("x,y", "false")));
    assert_eq!((lost.status, lost.out.as_str()), (1, ""), "{}", lost.err);
}

/// A script whose run nobody would wait for.
const LONG_SCRIPT: &str = "set $dir=/nowhere\n\
    define file name=file,path=$dir,size=64k,prealloc\n\
    define process name=p { thread name=t,memsize=1m {\n\
    flowop read name=r,filename=file,iosize=4k\nflowop delay name=d,value=0.01 } }\nrun 3600\n";

#[test]
fn the_operations_of_the_others_are_kept_when_a_host_dies_in_a_script() {
    let place = Place::new();
    std::fs::write(place.path("script"), LONG_SCRIPT).unwrap();
    let [script, dir, json] = ["script", "{host}", "result.json"].map(|it| place.text(it));
    let run = ["filebench", &script, "--dir", &dir, "--json", &json, "--host-timeout", "20s"];
    let run = start(&words(&run, &place.reach("x,y,z")));
    let all = [0, 1, 2].map(|index| place.process_of(index));
    let is_made = |host: &str| place.path(host).exists();
    wait_until("all hosts have made their files", || ["x", "y", "z"].into_iter().all(is_made));
    until_at_work(&all);
    signal(all[1], "KILL");
    let (status, err) = ended(run);
    assert_eq!(status, Some(1), "{err}");
    let file = read(Path::new(&json));
    assert_eq!(misfits(&schema_of("gemelo.filebench/1"), &file), Vec::<String>::new());
    assert!(file["warnings"].to_string().contains("host y: its connection ended"), "{err}");
    let run_of = |file: &Value| file["result"][0]["runs"][0].clone();
    let seconds = |file: &Value| -> u64 {
        let all = run_of(file)["seconds"].as_array().unwrap().clone();
        all.iter().map(|second| second["operations"].as_u64().unwrap()).sum()
    };
    let of_hosts: u64 =
        [0, 2].map(|host: usize| seconds(&file["hosts"][host]["file"])).iter().sum();
    assert!(of_hosts > 50, "{of_hosts}");
    assert_eq!(seconds(&file), of_hosts);
    for process in all {
        wait_until("the process of a host has ended", || !is_alive(process));
    }
}

#[test]
fn the_user_ends_all_hosts_and_has_what_was_measured() {
    let place = Place::new();
    let (run, all) = long_run(&place, "x,y");
    signal(run.id(), "INT");
    let (status, err) = ended(run);
    assert_eq!(status, Some(1), "{err}");
    let file = read(&place.path("result.json"));
    assert_eq!(file["result"][0]["ended"], "stopped");
    for host in file["hosts"].as_array().unwrap() {
        let writes = &host["file"]["result"][0]["total"]["writes"];
        assert!(writes["operations"].as_u64().unwrap() > 0);
    }
    check_nothing_goes_on(&place, &all, true);
}
