//! Tests of the JSON output against the schemas, which are made from the types of results. Every
//! command with `--json` runs, and its output must fit the schema that it names.

use crate::common::gemelo;
use crate::schema::{Coverage, keys, misfits, name_of, names, read, schema_of};
use crate::served::Served;
use gemelo::list;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const TRACE: &str = "1 7 p 8 8 W 6 0 0123456789abcdef0123456789abcdef\n\
    2 7 p 16 8 R 6 0 0123456789abcdef0123456789abcde0\n";
const SCRIPT: &str = "set $dir=/nowhere\nset mode quit firstdone\n\
    define fileset name=set,path=$dir,entries=2,dirwidth=5,size=4k,prealloc=50\n\
    define process name=p { thread name=t,memsize=1m { flowop createfile name=new,filesetname=set,fd=1\n\
    flowop closefile name=close,fd=1\nflowop finishoncount name=done,value=1,target=close } }\nrun 1\n";

/// A script whose run lasts its whole time.
const TIMED: &str = "set $dir=/nowhere\ndefine fileset name=set,path=$dir,entries=4,dirwidth=20,filesize=16k,prealloc\n\
    define process name=p { thread name=t,memsize=1m { flowop openfile name=open,filesetname=set,fd=1\n\
    flowop readwholefile name=read,fd=1,iosize=16k\nflowop closefile name=close,fd=1 } }\nrun 1\n";

/// Commands that write JSON, as words below a directory `DIR` with a trace, a script, data and a
/// pool. Those of a kind differ so that optional parts are there once and absent once.
const COMMANDS: &[&str] = &[
    "distribution show personal",
    "distribution compare personal unique primary",
    "distribution scale personal --blocks 1000 --sampled",
    "scan DIR/data",
    "scan DIR/data --block-size 4k,8k --estimate",
    "scan DIR --memory 64m --exclude *.x --tail skip",
    "scan DIR/data --by-directory=2",
    "scan DIR/data --plan",
    "scan DIR/data --save DIR/set",
    "scan merge DIR/set",
    "scan DIR/data --hosts x,y --connect DIR/connect",
    "trace stat DIR/trace",
    "bench --target null: --file-size 64k --bytes 64k",
    "bench --target null: --file-size 64k --time 300ms --ramp-up 50ms --cool-down 50ms --rate 1000",
    "bench --target DIR/load --operation mixed --read-rate 1000 --write-rate 1000 --file-size 256k --bytes 256k --sync fsync --verify both --duplicate-distance 50",
    "bench --target pool:DIR/pool/a --operation write --bytes 64k --verify final",
    "bench --target null: --file-size 64k --bytes 64k --repetitions 3",
    "bench --target null: --file-size 64k --bytes 64k --repetitions 1 --warm-up-runs 0",
    "bench --hosts x,y --connect DIR/connect --target DIR/load --file-size 64k --private-share 50",
    "replay DIR/trace --hosts x,y --connect DIR/connect --target DIR/replayed-{index} --speed max",
    "filebench DIR/script --hosts x,y --connect DIR/connect --dir DIR/fileset-{index}",
    "suite --target null: --file-size 64k",
    "replay DIR/trace --target null: --speed max",
    "replay DIR/trace --target null: --speed max --limit 1",
    "replay DIR/trace --target null: --speed max --skip 1",
    "replay DIR/trace --target pool:DIR/pool/a --speed 1000 --verify --force",
    "filebench DIR/script --dir DIR/fileset",
    "filebench DIR/timed --dir DIR/timed-files --time 1s",
    "filebench DIR/script --dir DIR/swept --source entro --sweep entropy=1,2",
    "compare DIR/first DIR/second",
    "compare --a DIR/first DIR/second --b DIR/second DIR/first --all --confidence 99 --rounds",
    "compare DIR/first DIR/second --figure all/operations_per_s",
    "pool stat DIR/pool",
    "pool status DIR/pool",
    "pool get DIR/pool",
    "support DIR/pool",
    "support DIR/scrubbed --names",
    "support DIR/unusable/pool",
    "volume get DIR/pool/a",
    "pool stat DIR/scrubbed",
    "pool ls DIR",
    "pool estimate --capacity 1t",
    "pool estimate --capacity 1t --metadata-cache 256m",
    "pool check DIR/pool",
    "pool check DIR/pool --data",
    "pool stat DIR/pool --space",
    "volume stat DIR/pool/a",
    "volume stat DIR/pool/a --space",
    "volume ls DIR/pool",
    "volume ls DIR/pool --space",
    "volume diff DIR/scrubbed/snapshot DIR/scrubbed/empty",
    "1: volume verify DIR/pool/a DIR/scrubbed/empty",
    "volume verify DIR/scrubbed/empty DIR/scrubbed/empty --since snapshot",
    "volume stat DIR/scrubbed/snapshot",
    "volume ls DIR/scrubbed",
    "volume export DIR/pool/a DIR/exported",
    "volume stat DIR/scrubbed/empty",
    "scan DIR/data --memory 64m --spill-dir DIR",
    "scan DIR --plan --by-directory --memory 128m --spill-dir DIR",
    "trace stat DIR/trace --limit 1 --time 1s",
    "compare DIR/campaign DIR/campaign",
    "4: pool check DIR/damaged --data",
    "1: pool check DIR/unusable/pool",
    "1: pool ls DIR/unusable",
    "1: bench --target pool:DIR/damaged/big --file-size 64m --distribution unique",
    "1: bench --target null: --file-size 64k --log /dev/full",
];

/// Commands on a pool that is served.
const ON_SERVED: &[&str] = &[
    "pool stat DIR/pool",
    "pool status DIR/pool",
    "pool ls DIR/pool",
    "pool check DIR/pool",
    "pool check DIR/pool --data",
    "volume ls DIR/pool",
    "volume stat DIR/pool/a",
];

/// A campaign with optional parts that are there once and absent once.
const CAMPAIGN: &str = r#"
[campaign]
name = "x"
repetitions = 1
baseline = "a"
[paper]
id = "p-2020"
title = "A paper"
authors = ["A. Author"]
venue = "A journal"
year = 2020
[[target]]
name = "a"
volume = { size = "8m", mode = "offline" }
[[target]]
name = "b"
directory = {}
[[target]]
name = "absent"
commands = { check = "false" }
[[workload]]
name = "w-{n}"
matrix = { n = [1] }
set = "n"
bench = { bytes = "64k", file-size = "64k" }
[[workload]]
name = "bad"
main-figure = "x/y_ns"
command = "false"
targets = ["b"]
[[workload]]
name = "good"
command = "sleep 0.2"
targets = ["b"]
[[claims]]
id = "one"
claim = "A claim."
tests = ["write/operations_per_s[w-1, a] > 0"]
[[claims]]
id = "two"
claim = "Another claim."
published = "7"
place = "table 1"
not-testable = "it needs two hosts"
"#;

/// Optional keys that the commands above have in one way only. The other way needs a lost commit, a
/// block device, a domain, a clock that does not know the time, a long trace, one host of several
/// or a lost one, another process at the right moment, a stopped pool, or options that change
/// nothing else in the result.
const ONE_WAY: &[&str] = &[
    "gemelo.bench-repetitions/1/input/content/duplicate_distance present",
    "gemelo.bench-repetitions/1/input/content/private_share present",
    "gemelo.bench-repetitions/1/input/job/hosts present",
    "gemelo.bench-repetitions/1/input/job/part present",
    "gemelo.bench-repetitions/1/input/job/process_bytes absent",
    "gemelo.bench-repetitions/1/input/job/time_ns present",
    "gemelo.bench/1/hosts/failure present",
    "gemelo.bench/1/hosts/file absent",
    "gemelo.bench/1/input/job/part present",
    "gemelo.bench/1/result/history/first_process present",
    "gemelo.bench/1/result/history/open present",
    "gemelo.bench/1/result/interval_parts present",
    "gemelo.bench/1/result/written absent",
    "gemelo.campaign/1/claims/least/data_bytes present",
    "gemelo.campaign/1/claims/least/figure present",
    "gemelo.campaign/1/claims/least/fill_share present",
    "gemelo.campaign/1/claims/least/memory_share present",
    "gemelo.campaign/1/claims/least/repetitions present",
    "gemelo.campaign/1/claims/least/time_ns present",
    "gemelo.campaign/1/paper absent",
    "gemelo.campaign/1/workloads/left_out present",
    "gemelo.campaign/1/workloads/main_figure absent",
    "gemelo.compare/1/input/fail_if_slower_share present",
    "gemelo.compare/1/result/limit present",
    "gemelo.distribution/1/result/source absent",
    "gemelo.filebench/1/hosts/failure present",
    "gemelo.filebench/1/hosts/file absent",
    "gemelo.filebench/1/input/dir absent",
    "gemelo.pool-check/1/result/repair_outlook/lost_history present",
    "gemelo.pool-check/1/result/repair_outlook/refusal present",
    "gemelo.pool-check/1/result/repair_outlook/skip present",
    "gemelo.pool/1/result/file_system_free_bytes absent",
    "gemelo.pool/1/result/holder_process_id present",
    "gemelo.pool/1/result/pool/stopped present",
    "gemelo.pool/1/result/scrub/running present",
    "gemelo.pool/1/result/sharing present",
    "gemelo.pool/1/result/tasks/failure present",
    "gemelo.pool/1/result/tasks/last_error present",
    "gemelo.pool/1/result/unknown_feature present",
    "gemelo.pool/1/result/volumes/created_s absent",
    "gemelo.replay/1/hosts/failure present",
    "gemelo.replay/1/hosts/file absent",
    "gemelo.replay/1/result/failure present",
    "gemelo.replay/1/result/stored/predicted absent",
    "gemelo.run/1/space/logical_bytes absent",
    "gemelo.scan-plan/1/result/bytes_per_s absent",
    "gemelo.scan-plan/1/result/estimate_ns absent",
    "gemelo.scan/1/hosts/failure present",
    "gemelo.scan/1/hosts/file absent",
    "gemelo.scan/1/result/block_sizes/max_repeated/place absent",
    "gemelo.scan/1/result/block_sizes/nature absent",
    "gemelo.support/1/result/check absent",
    "gemelo.support/1/result/log present",
    "gemelo.trace-stat/1/result/dedup_ratio_at_end absent",
    "gemelo.trace-stat/1/result/dedup_ratio_at_end_with_zeros absent",
    "gemelo.trace-stat/1/result/dedup_ratio_written absent",
    "gemelo.trace-stat/1/result/dedup_ratio_written_with_zeros absent",
    "gemelo.trace-stat/1/result/dispersion present",
    "gemelo.trace-stat/1/result/read_contents absent",
    "gemelo.trace-stat/1/result/written_contents absent",
    "gemelo.volume-list/1/result/volumes/created_s absent",
    "gemelo.volume/1/result/created_s absent",
    "gemelo.settings/1/result/settings/next present",
];

/// A key that is there if an operation was late, which no command decides.
const BY_CHANCE: &str = "gemelo.replay/1/result/lateness/summary ";

/// Schemas of commands that need a Ceph cluster, which `members.rs` runs, and of runs that are
/// killed, as in `regressions/killed.rs`.
const OF_OTHER_TESTS: [&str; 4] = ["bench-begun", "domain", "domain-check", "domain-list"];

fn place() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("trace"), TRACE).unwrap();
    fs::write(path("script"), SCRIPT).unwrap();
    fs::write(path("timed"), TIMED).unwrap();
    let bytes: Vec<u8> = (0..1u32 << 18).map(|at| (at.wrapping_mul(at >> 3) % 251) as u8).collect();
    fs::write(path("data"), bytes).unwrap();
    fs::create_dir(path("load")).unwrap();
    let program = env!("CARGO_BIN_EXE_gemelo");
    fs::write(path("connect"), format!("#!/bin/sh\nexec {program} host\n")).unwrap();
    fs::set_permissions(path("connect"), fs::Permissions::from_mode(0o755)).unwrap();
    let pool = path("pool").to_str().unwrap().to_owned();
    for words in [
        &["pool", "create", &pool, "--capacity", "32m"][..],
        &["volume", "create", &format!("{pool}/a"), "--size", "4m"],
    ] {
        assert_eq!(gemelo(words).status, 0, "{words:?}");
    }
    let scrubbed = path("scrubbed").to_str().unwrap().to_owned();
    assert_eq!(gemelo(&["pool", "create", &scrubbed, "--capacity", "32m"]).status, 0);
    assert_eq!(gemelo(&["pool", "scrub", &scrubbed]).status, 0);
    fs::create_dir(path("unusable")).unwrap();
    for name in ["damaged", "unusable/pool"] {
        let pool = path(name).to_str().unwrap().to_owned();
        assert_eq!(gemelo(&["pool", "create", &pool, "--capacity", "32m"]).status, 0);
    }
    fs::write(path("unusable/pool/settings.toml"), "nonsense = 1\n").unwrap();
    let [damaged, empty] =
        ["damaged", "scrubbed/empty"].map(|name| path(name).display().to_string());
    let data = path("data").display().to_string();
    assert_eq!(gemelo(&["volume", "import", &data, &format!("{damaged}/a")]).status, 0);
    assert_eq!(gemelo(&["volume", "create", &format!("{damaged}/big"), "--size", "64m"]).status, 0);
    assert_eq!(gemelo(&["volume", "create", &empty, "--size", "4m"]).status, 0);
    assert_eq!(gemelo(&["volume", "snapshot", &empty, "snapshot"]).status, 0);
    let limits = "--iops 9 --bytes-per-second 1g --burst 1s --quota 1m --reserve 4k";
    let set = [&["volume", "set", &empty][..], &limits.split(' ').collect::<Vec<_>>()].concat();
    assert_eq!(gemelo(&set).status, 0);
    damage(&path("damaged/data"));
    for name in ["first", "second"] {
        let path = path(name);
        let words = ["suite", "--target", "null:", "--file-size", "64k", "--json"];
        let ran = gemelo(&[&words[..], &[path.to_str().unwrap()]].concat());
        assert_eq!(ran.status, 0, "{}", ran.err);
    }
    directory
}

/// Damages a content of a volume that was imported first.
fn damage(data: &Path) {
    use std::os::unix::fs::FileExt;
    let data = fs::OpenOptions::new().write(true).open(data).unwrap();
    data.write_all_at(b"damage", 20 * 4096).unwrap();
}

/// The records of a campaign: those of the plan and of its runs, one of which has failed.
fn campaign(out: &Path) -> Vec<(PathBuf, Value)> {
    let plan = out.with_extension("toml");
    fs::write(&plan, CAMPAIGN).unwrap();
    let [plan, place] = [&plan, out].map(|path| path.to_str().unwrap());
    let ran = gemelo(&["campaign", "run", plan, "--out", place]);
    assert_eq!(ran.status, 1, "{}", ran.err);
    let runs = fs::read_dir(out.join("runs")).unwrap();
    let records = runs.map(|run| run.unwrap().path().join("run.json"));
    let all: Vec<_> = records.chain([out.join("campaign.json")]).collect();
    assert_eq!(all.len(), 5);
    all.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

#[test]
fn the_json_of_every_command_fits_its_schema_and_every_schema_is_used() {
    let directory = place();
    let dir = directory.path().to_str().unwrap();
    let mut used = BTreeSet::new();
    let mut coverage = Coverage::default();
    let mut wrong = Vec::new();
    let records = campaign(&directory.path().join("campaign"));
    let pool = format!("{dir}/pool");
    let listen = format!("unix:{dir}/socket");
    let mut served = None;
    for (at, command) in COMMANDS.iter().chain(ON_SERVED).enumerate() {
        if at == COMMANDS.len() {
            served = Some(Served::start(&["serve", &pool, "--listen", &listen]));
        }
        let has_status = command.starts_with(|first: char| first.is_ascii_digit());
        let (status, words) = match command.split_once(": ") {
            Some(parts) if has_status => parts,
            _ => ("0", *command),
        };
        let words: Vec<String> = words.split(' ').map(|word| word.replace("DIR", dir)).collect();
        let ran = gemelo(&[&words[..], &["--json".to_owned(), "-".to_owned()]].concat());
        assert_eq!(ran.status.to_string(), status, "{command}: {}", ran.err);
        let result: Value = serde_json::from_str(&ran.out).unwrap();
        let kind = result["schema"].as_str().unwrap();
        let schema = schema_of(kind);
        coverage.note(kind, &schema, &result);
        let found = misfits(&schema, &result);
        wrong.extend(found.into_iter().map(|misfit| format!("{command}: {misfit}")));
        used.insert(name_of(kind));
    }
    assert_eq!(served.unwrap().stop().0, 0);
    for (path, record) in records {
        let kind = record["schema"].as_str().unwrap();
        let schema = schema_of(kind);
        coverage.note(kind, &schema, &record);
        let found = misfits(&schema, &record);
        wrong.extend(found.into_iter().map(|misfit| format!("{}: {misfit}", path.display())));
        used.insert(name_of(kind));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for command in list::COMMANDS.iter().filter(|command| command.makes_results()) {
        let ran = COMMANDS.iter().any(|words| words.contains(&format!("{} ", command.name)));
        let of_others = command.name.starts_with("domain ") || command.name == "campaign run";
        assert!(ran || of_others, "no call of {}", command.name);
    }
    used.extend(OF_OTHER_TESTS.map(str::to_owned));
    assert_eq!(names(), used);
    let mut one_way = coverage.one_way();
    one_way.retain(|key| !key.starts_with(BY_CHANCE));
    let expected: BTreeSet<String> = ONE_WAY.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(one_way, expected, "keys that were seen in one way only");
}

#[test]
fn the_outlook_of_a_repair_fits_its_schema() {
    let directory = place();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let volume = format!("{}/b", path("pool"));
    assert_eq!(gemelo(&["volume", "import", &path("data"), &volume]).status, 0);
    damage(Path::new(&path("pool/data")));
    let ran = gemelo(&["pool", "check", &path("pool"), "--data", "--json", "-"]);
    assert_eq!(ran.status, 4, "{}", ran.err);
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(misfits(&schema_of("gemelo.pool-check/1"), &result), Vec::<String>::new());
    let costs = &result["result"]["repair_outlook"]["roll_back"]["costs"];
    assert_eq!((&costs[0]["volume"], &costs[0]["lost_blocks"]), (&"b".into(), &1.into()));
}

/// A schema that takes anything would pass the test above.
#[test]
fn a_field_that_is_missing_new_or_of_another_type_does_not_fit() {
    let directory = place();
    let pool = directory.path().join("pool");
    let ran = gemelo(&["volume", "ls", pool.to_str().unwrap(), "--json", "-"]);
    let sound: Value = serde_json::from_str(&ran.out).unwrap();
    let schema = schema_of("gemelo.volume-list/1");
    assert_eq!(misfits(&schema, &sound), [""; 0]);
    let change = |change: fn(&mut Value)| {
        let mut changed = sound.clone();
        change(&mut changed);
        misfits(&schema, &changed).len()
    };
    assert_eq!(change(|result| result["result"]["volumes"][0]["size_bytes"] = "4m".into()), 1);
    assert_eq!(change(|result| result["result"]["volumes"][0]["dedup"] = "sometimes".into()), 1);
    assert_eq!(change(|result| result["new"] = 1.into()), 1);
    let remove = |result: &mut Value| {
        drop(result["result"]["volumes"][0].as_object_mut().unwrap().remove("name"));
    };
    assert_eq!(change(remove), 1);
}

#[test]
fn the_schemas_are_draft_2020_12_and_describe_their_keys() {
    for name in names() {
        let schema = schema_of(&name);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        assert_eq!(schema_of(&format!("gemelo.{name}/1")), schema);
        assert_eq!(schema["properties"]["schema"]["const"], format!("gemelo.{name}/1"));
        let undescribed = undescribed(&schema, &schema, "");
        assert!(undescribed.is_empty(), "{name}: {undescribed:#?}");
    }
    let unknown = gemelo(&["schema", "nothing"]);
    assert_eq!((unknown.status, unknown.out.as_str()), (2, ""));
    assert!(unknown.err.contains("'gemelo schema' lists them"), "{}", unknown.err);
}

/// The keys of a schema that have no description, neither of their own nor of their type.
fn undescribed(root: &Value, part: &Value, at: &str) -> Vec<String> {
    let described = |key: &Value| {
        let target = key["$ref"].as_str().map(|name| root.pointer(&name[1..]).unwrap());
        let mut parts = vec![key, target.unwrap_or(key)];
        for choice in key["anyOf"].as_array().into_iter().flatten() {
            let target = choice["$ref"].as_str().map(|name| root.pointer(&name[1..]).unwrap());
            parts.push(target.unwrap_or(choice));
        }
        parts.iter().any(|part| part["description"].is_string() || part["const"].is_string())
    };
    let mut found = Vec::new();
    // The key of a variant is described as the variant.
    let is_described = part["description"].is_string();
    let keys = part["properties"].as_object().filter(|keys| !is_described || keys.len() > 1);
    let keys = keys.into_iter().flatten();
    found.extend(
        keys.filter(|(_, key)| !described(key)).map(|(name, _)| format!("{at}/properties/{name}")),
    );
    let below: Vec<(String, &Value)> = match part {
        Value::Object(map) => map.iter().map(|(name, part)| (name.clone(), part)).collect(),
        Value::Array(parts) => (0..).zip(parts).map(|(n, part)| (format!("{n}"), part)).collect(),
        _ => Vec::new(),
    };
    for (name, below) in below {
        found.extend(undescribed(root, below, &format!("{at}/{name}")));
    }
    found
}

/// A key that is renamed or removed breaks the programs of users: the list shows each such change.
#[test]
fn the_keys_of_results_are_those_of_the_list() {
    let found = keys();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suites/schema/keys.txt");
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if found != expected {
        let new = std::env::temp_dir().join("gemelo-keys.txt");
        fs::write(&new, &found).unwrap();
        panic!("look at the changes, and accept them: mv {} {}", new.display(), path.display());
    }
}
