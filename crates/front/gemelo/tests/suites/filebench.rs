//! Tests of `gemelo filebench`: its output, its refusals, and the files that it leaves.

use crate::common::gemelo;
use gemelo_tools::has_tool;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
fn a_script_runs_below_a_directory_and_leaves_nothing_but_its_result() {
    let directory = tempfile::tempdir().unwrap();
    let (script, dir, json) =
        (directory.path().join("s.f"), directory.path().join("d"), directory.path().join("r.json"));
    fs::write(&script, SCRIPT).unwrap();
    let words = strings(&[
        "filebench",
        text(&script),
        "--dir",
        text(&dir),
        "-D",
        "size=32k",
        "--json",
        text(&json),
    ]);
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
    let result: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(result["schema"], "gemelo.filebench/1");
    let run = &result["result"][0]["runs"][0];
    assert_eq!(run["filesets"][0]["files_made"], 10);
    assert_eq!(run["intervals"][0]["data_bytes"], 4 * 32_768);
    // The result is not overwritten.
    assert_eq!(gemelo(&words).status, 2);
}

#[test]
fn a_sweep_has_a_row_for_each_value() {
    let directory = tempfile::tempdir().unwrap();
    let (script, dir) = (directory.path().join("s.f"), directory.path().join("d"));
    fs::write(&script, SCRIPT).unwrap();
    let ran = gemelo(&strings(&[
        "filebench",
        text(&script),
        "--dir",
        text(&dir),
        "--sweep",
        "entropy=0,4,...,8",
    ]));
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    let table = ran.out.split("entropy  ops/s").nth(1).expect("a table");
    for column in ["ops/s", "MB/s", "MB/s over I/O time", "ms/op", "stored"] {
        assert!(ran.out.contains(column), "{column}: {}", ran.out);
    }
    let values: Vec<&str> =
        table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(values, ["0", "4", "8"]);
}

/// A file system of its own that compresses.
struct Btrfs(PathBuf);

impl Btrfs {
    /// Needs root and loop devices; `None` where they are not to be had.
    fn mount(directory: &Path) -> Option<Self> {
        let (image, point) = (directory.join("image"), directory.join("btrfs"));
        fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        fs::create_dir(&point).unwrap();
        let succeeds = |command: &mut Command| command.output().unwrap().status.success();
        assert!(succeeds(Command::new("mkfs.btrfs").arg("-q").arg(&image)));
        let options = ["-o", "loop,compress-force=zstd"];
        if !succeeds(Command::new("mount").args(options).arg(&image).arg(&point)) {
            gemelo_tools::missing("root, for mounting btrfs from a file");
            return None;
        }
        Some(Self(point))
    }
}

impl Drop for Btrfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// The report's figures, from one command: the less entropy, the less a file system that compresses
/// stores.
#[test]
fn a_sweep_tells_what_the_target_stores() {
    if !has_tool("mkfs.btrfs") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(btrfs) = Btrfs::mount(directory.path()) else { return };
    let script = directory.path().join("s.f");
    let text = "set mode quit alldone\ndefine fileset name=set,path=$dir,entries=32,dirwidth=20,size=1m,datasource=entro\n\
        define process name=p { thread name=t,memsize=2m { flowop createfile name=c,filesetname=set,fd=1\n\
        flowop writewholefile name=w,fd=1,iosize=1m\nflowop closefile name=x,fd=1 } }\nrun 60\n";
    fs::write(&script, text).unwrap();
    let dir = btrfs.0.join("d");
    let words =
        ["filebench", self::text(&script), "--dir", self::text(&dir), "--sweep", "entropy=0,4,8"];
    let ran = gemelo(&[&words[..], &["--json", "-"]].concat());
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let stored = |point: usize| {
        let run = &found["result"][point]["runs"][0];
        assert_eq!(run["intervals"][0]["data_bytes"], 32 << 20);
        run["stored_bytes"].as_f64().unwrap() / f64::from(32 << 20)
    };
    // Half of the bits a byte has, and the file system's own structures.
    assert!(stored(0) < 0.2 && (0.4..0.8).contains(&stored(1)), "{} and {}", stored(0), stored(1));
    assert!((0.95..1.3).contains(&stored(2)), "{}", stored(2));
}

#[test]
fn wrong_input_is_refused_before_anything_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    let (script, dir) = (directory.path().join("s.f"), directory.path().join("d"));
    fs::write(&script, SCRIPT).unwrap();
    let wrong = directory.path().join("wrong.f");
    fs::write(&wrong, SCRIPT.replace("createfile", "creatfile")).unwrap();
    let (good, bad, dir_name) = (text(&script), text(&wrong), text(&dir));
    for (words, message) in [
        (
            strings(&["filebench", bad, "--dir", dir_name]),
            "wrong.f:5:59: unknown flowop: 'creatfile'; did you mean 'createfile'?",
        ),
        (
            strings(&["filebench", good, "--dir", dir_name, "-D", "sizes=1"]),
            "has no variable $sizes",
        ),
        (
            strings(&["filebench", good, "--dir", dir_name, "--sweep", "bogus=1,2"]),
            "no variable $bogus",
        ),
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
    assert!(
        ran.err.contains("does not say 'reuse': add reuse to the fileset to use the existing files, or use --force")
            && dir.join("set/precious").exists(),
        "{}",
        ran.err
    );
}
