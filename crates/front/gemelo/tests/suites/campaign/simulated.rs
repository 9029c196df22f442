//! Targets that work in the kernel, by programs that stand for theirs: scripts first in the path,
//! which do what `zpool`, `zfs`, `vdoformat` and `dmsetup` do as far as a run needs it, with a
//! memory file system and a link to a loop device.

use super::{Place, can_mount, figure, leftovers};
use crate::common::Ran;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// A directory of scripts; `$0.log` of each has the words with which it was called.
fn write_programs(directory: &Path, programs: &[(&str, &str)]) {
    fs::create_dir(directory).unwrap();
    for (name, script) in programs {
        let path = directory.join(name);
        let text = format!("#!/bin/sh\nset -e\necho \"$*\" >>\"$0.log\"\n{script}\n");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Runs the plan of a place with the programs of a directory before all others.
fn run_with(place: &Place, programs: &Path, more: &[&str]) -> Ran {
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
    command.args(["campaign", "run"]).arg(place.plan()).arg("--out").arg(place.out());
    Ran::of(&command.args(more).env("PATH", path).output().unwrap())
}

const LOAD: &str = "[[workload]]\nname = 'w'\nbench = { file-size = '1m', time = '400ms' }\n";

const ZPOOL: &str = r#"case $1 in
    version) printf 'zfs-2.3.2-1\nzfs-kmod-2.3.2-1\n' ;;
    create) mkdir -p "$5"; mount -t tmpfs none "$5"; touch "$0.$6" ;;
    list) if [ "$2" = -H ]; then echo $(grep -c alloc "$0.log")m; else test -e "$0.$2"; fi ;;
    destroy) rm "$0.$3" ;;
esac"#;

#[test]
fn zfs_of_the_kernel_is_used_where_its_module_is_loaded() {
    if !can_mount() {
        return;
    }
    let place = Place::with(&format!(
        "[campaign]\nname = 'x'\nrepetitions = 1\n[[target]]\nname = 'z'\n\
         zfs = {{ size = '64m', dedup = true, properties = ['recordsize=4k'] }}\n{LOAD}"
    ));
    let programs = place.path("programs");
    write_programs(&programs, &[("zpool", ZPOOL), ("zfs", "true")]);
    let shown = run_with(&place, &programs, &["--plan"]);
    assert!(shown.out.contains("OpenZFS on a file of 64 MiB, with deduplication"), "{}", shown.out);
    let ran = run_with(&place, &programs, &[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let called = |name: &str| fs::read_to_string(programs.join(format!("{name}.log"))).unwrap();
    for done in ["create -o ashift=9 -m", "destroy -f gemelo"] {
        assert!(called("zpool").contains(done), "{done}: {}", called("zpool"));
    }
    for set in ["set dedup=on gemelo", "set recordsize=4k gemelo", "snapshot gemelo"] {
        assert!(called("zfs").contains(set), "{set}: {}", called("zfs"));
    }
    let records = place.records();
    assert_eq!(figure(&records[0], "space/data_bytes"), Some(1_048_576.0));
    assert_eq!(leftovers(&place), [""; 0]);
}

const DMSETUP: &str = r#"case $1 in
    targets) printf 'vdo              v9.1.0\nlinear           v1.4.0\n' ;;
    create)
        echo "$5" >"$0.$2"
        set -- "$2" $5
        ln -s "$6" "/dev/mapper/$1" ;;
    info) test -e "$0.$2" ;;
    message) echo '{ version : 36, memoryUsage : { bytesUsed : 268435456, }, }' ;;
    status)
        used=$((786554 + $(grep -c "status $2" "$0.log")))
        echo "0 131072 vdo /dev/loop0 normal - online offline $used 2097152" ;;
    remove) rm "$0.$3" "/dev/mapper/$3" ;;
esac"#;

#[test]
fn vdo_is_made_by_the_device_mapper_told_of_and_given_back() {
    if !can_mount() {
        return;
    }
    fs::create_dir_all("/dev/mapper").unwrap();
    let plan = |more: &str| {
        format!(
            "[campaign]\nname = 'x'\nrepetitions = 1\n[[target]]\nname = 'd'\n\
             vdo = {{ size = '64m', physical = '8g', table = ['bio', '4']{more} }}\n\
             [[target]]\nname = 'f'\nvdo = {{ size = '64m', physical = '8g', dedup = false, \
             compression = true, file-system = 'ext4', options = ['--slab-bits=15'] }}\n{LOAD}"
        )
    };
    let refused = Place::with(&plan(", size-of = 1")).run(&["--plan"]);
    assert_eq!((refused.status, refused.err.contains("size-of")), (2, true), "{}", refused.err);
    let place = Place::with(&plan(""));
    let programs = place.path("programs");
    write_programs(&programs, &[("dmsetup", DMSETUP), ("vdoformat", "true"), ("modprobe", "true")]);
    let ran = run_with(&place, &programs, &[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let called = |name: &str| fs::read_to_string(programs.join(format!("{name}.log"))).unwrap();
    let formats = called("vdoformat");
    assert!(formats.contains("--logical-size=65536K /dev/loop"), "{formats}");
    assert!(formats.contains("--slab-bits=15 /dev/loop"), "{formats}");
    let tables = called("dmsetup");
    let table = |words: &str| {
        let has = |line: &&str| line.contains("0 131072 vdo V4 /dev/loop") && line.ends_with(words);
        assert!(tables.lines().any(|line| has(&line)), "{words}: {tables}");
    };
    table(" 2097152 4096 32768 16380 deduplication on compression off bio 4");
    table(" 2097152 4096 32768 16380 deduplication off compression on");
    for record in place.records() {
        assert_eq!(figure(&record, "space/data_bytes"), Some(4096.0));
        let monitored = record["monitor"]["figures"].as_array().unwrap();
        let memory = monitored.iter().find(|figure| figure["name"] == "target/memory_bytes");
        assert_eq!(memory.unwrap()["value"].as_f64(), Some(268_435_456.0));
    }
    assert_eq!(leftovers(&place), [""; 0]);
    let left = fs::read_dir("/dev/mapper").unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("gemelo")).collect();
    assert!(left.is_empty(), "{left:?}");
}
