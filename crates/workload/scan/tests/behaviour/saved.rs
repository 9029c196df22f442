//! Saved sets: merged sets equal one scan, and sets that differ or are damaged are refused.

use crate::data::{Data, block, blocks, comparable, request, scanned};
use gemelo_base::{Silent, StopFlag};
use gemelo_scan::{
    SavedSetError, ScanFingerprintKind, ScanOptions, ScanRequest, ScanResult, TailPolicy,
    merge_sets, scan_and_save,
};
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

fn new_file(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap()
}

fn saved(request: ScanRequest, path: &Path) -> ScanResult {
    let file = new_file(path);
    let options = ScanOptions::new(request).unwrap();
    let saved = scan_and_save(&options, Some(&file), &Silent, &StopFlag::new()).unwrap();
    saved.set.unwrap();
    saved.result
}

fn merged(paths: &[PathBuf]) -> Result<ScanResult, SavedSetError> {
    merge_sets(paths, None, &Silent, &StopFlag::new()).map(|saved| saved.result)
}

/// Three directories with contents in common, large enough that samples rise above their lowest
/// level.
fn three_directories() -> Data {
    let data = Data::new();
    let numbers = |from: u64, to: u64| (from..to).chain((0..2000).map(|n| n * n % 700));
    data.file("a/1", &blocks(numbers(1, 9_000), 512));
    data.file("b/1", &[blocks(numbers(5_000, 14_000), 512), block(3, 77)].concat());
    data.file("b/2", &block(3, 77));
    data.sparse("b/3", (1 << 20) + 9, &[(70_000, &block(8, 512))]);
    data.file("c/1", &blocks(numbers(100, 6_000), 512));
    data
}

fn of(data: &Data, directories: &[&str]) -> ScanRequest {
    let paths: Vec<PathBuf> = directories.iter().map(|name| data.path(name)).collect();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    ScanRequest { block_bytes: vec![512, 4096], ..request(&paths) }
}

#[test]
fn merged_sets_say_what_one_scan_of_everything_says() {
    let data = three_directories();
    let sets: Vec<PathBuf> =
        ["a", "b", "c"].iter().map(|name| data.path(&format!("{name}.set"))).collect();
    for (name, set) in ["a", "b", "c"].iter().zip(&sets) {
        let result = saved(of(&data, &[name]), set);
        assert_eq!(
            comparable(&merged(std::slice::from_ref(set)).unwrap()),
            comparable(&result),
            "{name}"
        );
    }
    let whole = scanned(of(&data, &["a", "b", "c"]));
    let nature = whole.block_sizes[0].nature.as_ref().unwrap();
    assert!((2048..=4096).contains(&nature.overall.sampled_contents));
    assert!(whole.block_sizes[0].locality.as_ref().unwrap().distances > 1000);
    assert_eq!(comparable(&merged(&sets).unwrap()), comparable(&whole));
    // A merged set that was saved can be merged again.
    let united = data.path("ab.set");
    let file = new_file(&united);
    let union = merge_sets(&sets[..2], Some(&file), &Silent, &StopFlag::new());
    union.unwrap().set.unwrap();
    let stepwise = merged(&[united, sets[2].clone()]).unwrap();
    assert_eq!(comparable(&stepwise), comparable(&whole));
    let zeros = &stepwise.block_sizes[0];
    assert!(zeros.zero_blocks > 0 && zeros.with_zeros.distinct > zeros.distinct);
}

#[test]
fn places_survive_in_a_set() {
    let data = three_directories();
    let set = data.path("set");
    let result = saved(of(&data, &["a"]), &set);
    let merged = merged(&[set]).unwrap();
    for (one, other) in result.block_sizes.iter().zip(&merged.block_sizes) {
        assert!(one.max_repeated.iter().all(|repeated| repeated.place.is_some()));
        assert_eq!(one.max_repeated, other.max_repeated);
    }
}

#[test]
fn the_set_of_nothing_is_a_set() {
    let data = Data::new();
    data.file("empty/file", &[]);
    let set = data.path("set");
    let result = saved(request(&[&data.path("empty")]), &set);
    assert_eq!(
        comparable(&merged(&[set.clone(), set]).unwrap()).block_sizes,
        comparable(&result).block_sizes
    );
}

#[test]
fn sets_that_do_not_fit_each_other_are_refused() {
    let data = three_directories();
    let first = data.path("first.set");
    saved(of(&data, &["a"]), &first);
    for (name, request, message) in [
        (
            "kind",
            ScanRequest { fingerprint: ScanFingerprintKind::Md5, ..of(&data, &["b"]) },
            "fingerprints differ",
        ),
        ("size", ScanRequest { block_bytes: vec![512], ..of(&data, &["b"]) }, "block sizes differ"),
        (
            "tail",
            ScanRequest { tail: TailPolicy::Skip, ..of(&data, &["b"]) },
            "tail policies differ",
        ),
    ] {
        let other = data.path(name);
        saved(request, &other);
        let error = merged(&[first.clone(), other]).unwrap_err().to_string();
        assert!(
            error.contains(message) && error.contains(name) && error.contains("first.set"),
            "{error}"
        );
    }
    assert!(matches!(merged(&[]), Err(SavedSetError::Count { .. })));
    assert!(matches!(merged(&vec![first; 600]), Err(SavedSetError::Count { .. })));
}

#[test]
fn a_set_that_cannot_be_written_does_not_cost_the_figures() {
    let data = three_directories();
    let options = ScanOptions::new(of(&data, &["a", "b"])).unwrap();
    let full = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let saved = scan_and_save(&options, Some(&full), &Silent, &StopFlag::new()).unwrap();
    assert!(matches!(saved.set, Err(SavedSetError::WriteColumns(_) | SavedSetError::Write(_))));
    assert_eq!(comparable(&saved.result), comparable(&scanned(of(&data, &["a", "b"]))));
}

#[test]
fn an_estimate_is_not_saved() {
    let data = three_directories();
    let counting = gemelo_scan::Counting::Estimate { memory_bytes: 64 << 20 };
    let options = ScanOptions::new(ScanRequest { counting, ..of(&data, &["a"]) }).unwrap();
    let file = new_file(&data.path("set"));
    assert!(scan_and_save(&options, Some(&file), &Silent, &StopFlag::new()).is_err());
}

/// Writes a small set and returns its path and its bytes.
fn small_set(data: &Data) -> (PathBuf, Vec<u8>) {
    let set = data.path("small.set");
    data.file("small/1", &blocks([1, 2, 1, 0, 3], 512));
    saved(request(&[&data.path("small")]), &set);
    let bytes = fs::read(&set).unwrap();
    (set, bytes)
}

#[test]
fn every_flipped_byte_is_found() {
    let data = Data::new();
    let (set, bytes) = small_set(&data);
    assert!(merged(std::slice::from_ref(&set)).is_ok());
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            fs::write(&set, damaged).unwrap();
            let error =
                merged(std::slice::from_ref(&set)).expect_err("a damaged set was read").to_string();
            assert!(error.contains("small.set"), "byte {at}: {error}");
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_found() {
    let data = Data::new();
    let (set, bytes) = small_set(&data);
    for length in 0..bytes.len() {
        fs::write(&set, &bytes[..length]).unwrap();
        assert!(merged(std::slice::from_ref(&set)).is_err(), "cut to {length} of {}", bytes.len());
    }
    for longer in [[bytes.clone(), vec![0]].concat(), [bytes.clone(), bytes.clone()].concat()] {
        fs::write(&set, longer).unwrap();
        assert!(merged(std::slice::from_ref(&set)).is_err());
    }
    for (content, message) in [
        (&b""[..], "it is empty"),
        (b"PAR1", "it is too short"),
        (b"some text that is no set at all", "it is not a Parquet file"),
    ] {
        fs::write(&set, content).unwrap();
        let error = merged(std::slice::from_ref(&set)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(merged(&[data.path("missing")]).unwrap_err().to_string().contains("missing"));
    assert!(merged(&[data.root().to_owned()]).is_err());
}
