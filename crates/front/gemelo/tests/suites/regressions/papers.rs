//! Load as the papers describe it: contents in common with places of one's own, and requests of
//! many blocks.

use crate::common::gemelo;
use gemelo_content::Distribution;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

fn ran(words: &[&str]) -> String {
    let ran = gemelo(words);
    assert_eq!(ran.status, 0, "{words:?}: {}", ran.err);
    ran.out
}

/// An instance of a benchmark: its file, and the number of accesses to each of its blocks.
struct Instance {
    data: Vec<u8>,
    accesses: Vec<u64>,
}

impl Instance {
    fn of(directory: &Path, seed: &str, more: &[&str]) -> Self {
        let place = directory.join(seed);
        fs::create_dir(&place).unwrap();
        let log = directory.join(format!("{seed}.log"));
        let [target, log] = [&place, &log].map(|path| path.to_str().unwrap());
        let load = ["bench", "--target", target, "--file-size", "8m", "--pattern", "nurand"];
        let seeds = ["--seed", seed, "--keep", "--access-log", log, "--bytes", "16m"];
        ran(&[&load[..], &seeds, more].concat());
        let file = fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
        let accesses = fs::read_to_string(log).unwrap();
        let of_line = |line: &str| line.split(' ').nth(1).unwrap().parse().unwrap();
        Self { data: fs::read(file).unwrap(), accesses: accesses.lines().map(of_line).collect() }
    }

    fn contents(&self) -> HashSet<&[u8]> {
        self.data.chunks(4096).filter(|block| block.iter().any(|byte| *byte != 0)).collect()
    }

    fn same_places(&self, other: &Self) -> usize {
        let (own, others) = (self.data.chunks(4096), other.data.chunks(4096));
        let is_same =
            |(own, other): &(&[u8], &[u8])| own == other && own.iter().any(|byte| *byte != 0);
        own.zip(others).filter(is_same).count()
    }
}

/// Instances on several machines have contents in common, and hot spots and draws of their own.
#[test]
fn two_instances_have_contents_in_common_and_places_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let distribution = directory.path().join("d");
    fs::write(&distribution, "0 500\n4 100\n").unwrap();
    let distribution = ["--distribution", distribution.to_str().unwrap()];
    for content in ["exact", "sampled"] {
        let place = directory.path().join(content);
        fs::create_dir(&place).unwrap();
        let more = [&distribution[..], &["--content", content]].concat();
        let [one, two] = ["7", "8"].map(|seed| Instance::of(&place, seed, &more));
        let common = one.contents().intersection(&two.contents()).count();
        let same = one.same_places(&two);
        // About 200 shared contents of an exact data set, each in both; a place is equal by chance.
        assert!(common > 60, "{content}: {common} contents in common");
        assert!(same < 20, "{content}: {same} blocks hold the same at the same place");
        assert_ne!(one.accesses, two.accesses, "{content}");
        let other = [&more[..], &["--content-seed", "9"]].concat();
        let other_place = place.join("other");
        fs::create_dir(&other_place).unwrap();
        let three = Instance::of(&other_place, "7", &other);
        assert_eq!(three.accesses, one.accesses, "{content}");
        assert_eq!(three.contents().intersection(&one.contents()).count(), 0, "{content}");
    }
}

/// How often each content of a file occurs, counted here.
fn counted(file: &Path) -> Distribution {
    let mut copies: HashMap<Vec<u8>, u64> = HashMap::new();
    for block in fs::read(file).unwrap().chunks(4096) {
        *copies.entry(block.to_owned()).or_default() += 1;
    }
    let mut classes: HashMap<u64, u64> = HashMap::new();
    copies.values().for_each(|copies| *classes.entry(copies - 1).or_default() += 1);
    let pairs: Vec<[u64; 2]> = classes.into_iter().map(|(d, c)| [d, c]).collect();
    Distribution::of_pairs(&pairs, 0).unwrap()
}

fn only_file(directory: &Path) -> PathBuf {
    fs::read_dir(directory).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn requests_of_640_kib_hold_contents_of_4_kib() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("data");
    fs::create_dir(&place).unwrap();
    let [target, json] = ["data", "result.json"].map(|name| directory.path().join(name));
    let [target, json] = [&target, &json].map(|path| path.to_str().unwrap());
    let load = ["bench", "--target", target, "--request-size", "640k", "--file-size", "40m"];
    let more = ["--distribution", "personal", "--verify", "final", "--keep", "--json", json];
    ran(&[&load[..], &more].concat());
    let asked = ran(&["distribution", "scale", "personal", "--bytes", "40m", "--output", "-"]);
    assert_eq!(counted(&only_file(&place)).to_text(), asked);
    let result: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let run = &result["result"][0];
    assert_eq!(run["total"]["writes"]["operations"], 64);
    assert_eq!(run["total"]["writes"]["data_bytes"], 40 << 20);
    assert_eq!(run["verification"]["checked_blocks"], 10_240);
    assert_eq!(run["written"]["blocks"], 10_240);
    ran(&["verify", json]);
    let refused = gemelo(&[&load[..], &["--block-size", "3k"]].concat());
    assert_eq!(refused.status, 2);
    assert!(refused.err.contains("not a multiple of the block size"), "{}", refused.err);
}

#[test]
fn requests_of_many_blocks_are_verified_under_every_pattern() {
    let directory = tempfile::tempdir().unwrap();
    for pattern in ["sequential", "uniform", "nurand", "zipf:0.9", "hotspot:80/20"] {
        for depth in ["1", "8"] {
            let place = directory.path().join(format!("{}-{depth}", pattern.replace('/', "-")));
            fs::create_dir(&place).unwrap();
            let json = directory
                .path()
                .join(format!("{}.json", place.file_name().unwrap().to_str().unwrap()));
            let [target, json] = [&place, &json].map(|path| path.to_str().unwrap());
            let load = ["bench", "--target", target, "--pattern", pattern, "--operation", "mixed"];
            let sizes = ["--request-size", "16k", "--file-size", "2m", "--bytes", "4m"];
            let more = ["--processes", "2", "--queue-depth", depth, "--verify", "both", "--keep"];
            ran(&[&load[..], &sizes, &more, &["--json", json]].concat());
            let text = fs::read_to_string(json).unwrap();
            let result: serde_json::Value = serde_json::from_str(&text).unwrap();
            let run = &result["result"][0];
            assert_eq!(run["verification"]["wrong_blocks"], 0, "{pattern}");
            let reads = run["total"]["reads"]["operations"].as_u64().unwrap();
            assert_eq!(run["verification"]["checked_blocks"], reads * 4 + 1024, "{pattern}");
            // A byte that is changed afterwards is found.
            let file = only_file(&place);
            let mut data = fs::read(&file).unwrap();
            data[1_000_000] ^= 1;
            fs::write(&file, data).unwrap();
            let found = gemelo(&["verify", json]);
            assert_eq!(found.status, 1, "{pattern}: {}{}", found.out, found.err);
        }
    }
}

/// Images of one system are loaded to off-line volumes with in-line deduplication, as DEDIS does.
#[test]
fn an_off_line_volume_shares_while_it_is_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (image, pool) = (path("image"), path("pool"));
    ran(&["generate", &image, "--bytes", "16m", "--distribution", "unique"]);
    ran(&["pool", "create", &pool, "--capacity", "64m"]);
    let volume = |name: &str| format!("{pool}/{name}");
    let physical = || {
        let text = ran(&["pool", "stat", &pool, "--json", "-"]);
        let stat: serde_json::Value = serde_json::from_str(&text).unwrap();
        stat["result"]["pool"]["physical_blocks"].as_u64().unwrap()
    };
    let mode = |name: &str| {
        let text = ran(&["volume", "stat", &volume(name), "--json", "-"]);
        let stat: serde_json::Value = serde_json::from_str(&text).unwrap();
        stat["result"]["mode"].as_str().unwrap().to_owned()
    };
    for name in ["one", "two"] {
        let modes = ["--dedup", "inline", "--dedup-after", "offline"];
        ran(&[&["volume", "import", &image, &volume(name)], &modes[..]].concat());
    }
    ran(&["volume", "create", &volume("three"), "--size", "16m", "--dedup", "offline"]);
    let existing = ["--force", "--dedup", "inline"];
    ran(&[&["volume", "import", &image, &volume("three")], &existing[..]].concat());
    assert_eq!(physical(), 4096);
    for name in ["one", "two", "three"] {
        assert_eq!(mode(name), "offline", "{name}");
    }
    ran(&["volume", "import", &image, &volume("three"), "--force"]);
    assert_eq!(physical(), 8192, "its own mode does not share while it loads");
}
