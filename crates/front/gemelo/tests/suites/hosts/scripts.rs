//! Scripts of Filebench's language on several hosts.

use super::*;
use crate::common::gemelo;
use crate::schema::{misfits, schema_of};
use std::collections::BTreeSet;
use std::fs;

/// A script that writes four files, each once.
const SCRIPT: &str = "set $dir=/nowhere\nset mode quit firstdone\n\
    define fileset name=set,path=$dir,entries=4,dirwidth=5,filesize=16k\n\
    define process name=p { thread name=t,memsize=1m {\n\
    flowop createfile name=new,filesetname=set,fd=1\n\
    flowop writewholefile name=write,fd=1,iosize=4k\nflowop closefile name=close,fd=1\n\
    flowop finishoncount name=done,value=4,target=close } }\nrun 20\n";

/// The distinct blocks of all files below a directory.
fn blocks(directory: &Path) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(blocks(&path));
        } else {
            found.extend(fs::read(path).unwrap().chunks(4096).map(Vec::from));
        }
    }
    found
}

#[test]
fn each_host_runs_the_script_in_its_directory_and_one_result_has_the_sums() {
    let place = Place::new();
    fs::write(place.path("script"), SCRIPT).unwrap();
    let [script, dir, result] = ["script", "{host}", "result.json"].map(|name| place.text(name));
    let run = [
        &["filebench", &script, "--dir", &dir, "--keep", "--json", &result][..],
        &["--source", "duplicates,distribution=unique"],
    ]
    .concat();
    let ran = gemelo(&words(&run, &place.reach("x,y")));
    assert_eq!(ran.status, 0, "{}", ran.err);
    let [one, other] = ["x", "y"].map(|host| blocks(&place.path(host)));
    assert!(one.len() >= 16 && one.len() == other.len());
    assert_eq!(one.intersection(&other).count(), 0, "unique contents differ between hosts");
    let file = read(Path::new(&result));
    assert_eq!(misfits(&schema_of("gemelo.filebench/1"), &file), Vec::<String>::new());
    let last = |file: &Value| file["result"][0]["runs"][0]["intervals"][0].clone();
    let sum = |name: &str| -> u64 {
        let hosts = file["hosts"].as_array().unwrap().iter();
        hosts.map(|host| last(&host["file"])[name].as_u64().unwrap()).sum()
    };
    for name in ["operations", "data_bytes", "threads", "io_ns"] {
        assert_eq!(last(&file)[name], sum(name), "{name}");
        assert!(sum(name) > 0, "{name}");
    }
    let writes = |file: &Value| {
        let flowops = last(file)["flowops"].as_array().unwrap().clone();
        let write = flowops.into_iter().find(|flowop| flowop["name"] == "write").unwrap();
        let counts = write["latency_histogram"].as_array().unwrap().clone();
        counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((writes(&file), last(&file)["threads"].as_u64()), (8, Some(2)));
    check_report(&result, &["x", "y"]);
    for told in ["host", "x  ", "y  ", "the slowest host is "] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
}

#[test]
fn one_directory_for_all_hosts_is_refused_unless_each_has_its_own_of_that_name() {
    let place = Place::new();
    fs::write(place.path("script"), SCRIPT).unwrap();
    let [script, dir] = ["script", "files"].map(|name| place.text(name));
    let run = ["filebench", &script, "--dir", &dir];
    let refused = gemelo(&words(&run, &place.reach("x,y")));
    assert_eq!(refused.status, 2, "{}", refused.err);
    assert!(refused.err.contains("--own-targets") && !place.path("files").exists());
    let own = [&run[..], &["--own-targets"]].concat();
    let ran = gemelo(&words(&own, &place.reach("x")));
    assert_eq!(ran.status, 0, "{}", ran.err);
}
