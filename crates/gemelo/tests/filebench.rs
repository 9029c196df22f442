//! `gemelo filebench` from outside: what it prints and writes, what it refuses, what it leaves on disk.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::gemelo;
use std::fs;
use std::path::Path;

const SCRIPT: &str = "set $dir=/nowhere\nset $size=64k\nset mode quit firstdone\n\
    define fileset name=set,path=$dir,entries=20,dirwidth=5,size=$size,prealloc=50,datasource=entro,entropy=5\n\
    define process name=p { thread name=t,memsize=1m { flowop createfile name=new,filesetname=set,fd=1\n\
    flowop writewholefile name=fill,fd=1,iosize=16k\nflowop closefile name=close,fd=1\n\
    flowop finishoncount name=done,value=4,target=fill } }\necho \"size $size\"\nrun 20\n";

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_script_runs_below_a_folder_and_leaves_nothing_but_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let (script, dir, json) =
        (folder.path().join("s.f"), folder.path().join("d"), folder.path().join("r.json"));
    fs::write(&script, SCRIPT).unwrap();
    let words =
        strings(&["filebench", text(&script), "--dir", text(&dir), "-D", "size=32k", "--json", text(&json)]);
    let ran = gemelo(&words);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.contains(": size 32768\n"), "{}", ran.out);
    assert!(ran.out.contains("\nfill                 4ops"), "{}", ran.out);
    assert!(
        ran.out.contains("IO Summary:    12 ops") && ran.out.contains("Data generation: "),
        "{}",
        ran.out
    );
    assert!(!dir.exists());
    let result: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(result["schema"], "gemelo.filebench/1");
    let run = &result["result"][0]["runs"][0];
    assert_eq!(run["filesets"][0]["files_made"], 10);
    assert_eq!(run["intervals"][0]["data_bytes"], 4 * 32_768);
    // The result is not overwritten.
    assert_eq!(gemelo(&words).status, 2);
}

#[test]
fn a_sweep_has_a_row_for_each_value() {
    let folder = tempfile::tempdir().unwrap();
    let (script, dir) = (folder.path().join("s.f"), folder.path().join("d"));
    fs::write(&script, SCRIPT).unwrap();
    let ran =
        gemelo(&strings(&["filebench", text(&script), "--dir", text(&dir), "--sweep", "entropy=0,4,...,8"]));
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    let table = ran.out.split("entropy  ops/s").nth(1).expect("a table");
    let values: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(values, ["0", "4", "8"]);
}

#[test]
fn wrong_input_is_refused_before_anything_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let (script, dir) = (folder.path().join("s.f"), folder.path().join("d"));
    fs::write(&script, SCRIPT).unwrap();
    let wrong = folder.path().join("wrong.f");
    fs::write(&wrong, SCRIPT.replace("createfile", "creatfile")).unwrap();
    let (good, bad, dir_name) = (text(&script), text(&wrong), text(&dir));
    for (words, message) in [
        (
            strings(&["filebench", bad, "--dir", dir_name]),
            "wrong.f:5:59: 'creatfile' is no flowop; did you mean 'createfile'?",
        ),
        (strings(&["filebench", good, "--dir", dir_name, "-D", "sizes=1"]), "has no variable $sizes"),
        (strings(&["filebench", good, "--dir", dir_name, "--sweep", "bogus=1,2"]), "no variable $bogus"),
        (
            strings(&["filebench", good, "--dir", dir_name, "--source", "entropy"]),
            "there is no data source 'entropy'",
        ),
    ] {
        let ran = gemelo(&words);
        assert_eq!(ran.status, 2, "{words:?}: {}", ran.err);
        assert!(ran.err.contains(message), "{words:?}: {}", ran.err);
        assert!(!dir.exists());
    }
    fs::create_dir_all(dir.join("set")).unwrap();
    fs::write(dir.join("set/precious"), "x").unwrap();
    let ran = gemelo(&strings(&["filebench", good, "--dir", dir_name]));
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("exists: say 'reuse'") && dir.join("set/precious").exists(), "{}", ran.err);
}
