//! Tests that every source has the requested entropy, duplicates or bytes.

use super::*;
use std::collections::HashMap;

fn around(distributions: Distributions<'_>) -> Surroundings<'_> {
    Surroundings { seed: 3, run_id: 5, data_bytes: 4096 * 1000, distributions }
}

fn no_distribution(_: &str) -> Result<Distribution, String> {
    Err("none".to_owned())
}

fn stream(spec: &str) -> Box<dyn DataStream> {
    open(&SourceSpec::parse(spec).unwrap(), &around(&no_distribution)).unwrap().stream(1)
}

fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let share = |count: &u32| f64::from(*count) / bytes.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

#[test]
fn every_method_has_the_entropy_asked_for() {
    for (method, _) in METHODS {
        for tenths in [0, 5, 10, 25, 40, 55, 70, 79, 80] {
            let bits = f64::from(tenths) / 10.0;
            let mut buffer = vec![1; 1 << 20];
            stream(&format!("entro,entropy={bits},method={method}")).fill(&mut buffer);
            let found = entropy(&buffer);
            assert!((found - bits).abs() < 0.02, "{method} {bits}: {found}");
        }
    }
}

/// The report prints the first five probabilities for 7.84 bits, and the entropy of its 256 MiB
/// buffers.
#[test]
fn probabilities_are_those_of_the_report() {
    let shares = two_symbols::probabilities(7.84);
    assert_eq!(shares.len(), 230);
    for (share, printed) in
        shares.iter().zip(["0.008081", "0.000615", "0.004348", "0.004348", "0.004348"])
    {
        assert_eq!(format!("{share:.6}"), printed);
    }
    for (method, reported) in
        [("search", 7.840_002), ("contiguous", 7.84), ("permuted", 7.84), ("lookup", 7.839_916)]
    {
        let mut buffer = vec![0; 16 << 20];
        stream(&format!("entro,entropy=7.84,method={method}")).fill(&mut buffer);
        let found = entropy(&buffer);
        assert!((found - reported).abs() < 2e-4, "{method}: {found}, the report has {reported}");
    }
    for bits in [0.0, 0.3, 1.0, 2.5, 6.9, 7.999, 8.0] {
        let shares = two_symbols::probabilities(bits);
        let found: f64 = shares.iter().filter(|p| **p > 0.0).map(|p| -p * p.log2()).sum();
        assert!(
            (found - bits).abs() < 1e-9 && (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9,
            "{bits}: {found}"
        );
    }
}

/// Checks that a file of many writes has the entropy of each write.
#[test]
fn buffers_of_a_stream_have_the_same_symbols() {
    for (method, _) in METHODS {
        let mut stream = stream(&format!("entro,entropy=2.5,method={method}"));
        let mut buffer = vec![0; 64 << 16];
        buffer.chunks_mut(1 << 16).for_each(|part| stream.fill(part));
        let found = entropy(&buffer);
        assert!((found - 2.5).abs() < 0.02, "{method}: {found}");
    }
}

/// Returns the mean entropy of pages of 4 KiB. If it is below that of the whole, the pages differ
/// from each other.
fn entropy_of_pages(bytes: &[u8]) -> f64 {
    bytes.chunks(4096).map(entropy).sum::<f64>() / bytes.chunks(4096).count() as f64
}

#[test]
fn methods_are_as_homogeneous_as_they_say() {
    let mut pages = HashMap::new();
    for (method, _) in METHODS {
        let mut buffer = vec![0; 1 << 20];
        stream(&format!("entro,entropy=4,method={method}")).fill(&mut buffer);
        pages.insert(method, entropy_of_pages(&buffer));
    }
    assert!(pages["contiguous"] < 1.0, "{pages:?}");
    for method in ["gemelo", "search", "permuted", "permuted-pages", "lookup"] {
        assert!((pages[method] - 4.0).abs() < 0.15, "{method}: {pages:?}");
    }
    // Every single page has the entropy, more exactly than chance alone would give.
    assert!(
        (pages["permuted-pages"] - 4.0).abs() < (pages["search"] - 4.0).abs() + 1e-3,
        "{pages:?}"
    );
}

#[test]
fn streams_differ_and_blocks_of_a_stream_too() {
    for spec in ["entro,entropy=5", "random"] {
        let source = open(&SourceSpec::parse(spec).unwrap(), &around(&no_distribution)).unwrap();
        let (mut one, mut other) = (vec![0; 8192], vec![0; 8192]);
        source.stream(1).fill(&mut one);
        source.stream(2).fill(&mut other);
        assert_ne!(one, other);
        let mut stream = source.stream(1);
        stream.fill(&mut other);
        assert_eq!(one, other, "a stream repeats");
        stream.fill(&mut other);
        assert_ne!(one, other);
    }
}

#[test]
fn duplicates_follow_their_distribution_over_all_threads() {
    // 1000 blocks hold 500 unique contents and 100 contents with five copies each.
    let known = |name: &str| match name {
        "half" => Distribution::parse("0 500\n4 100\n").map_err(|error| error.to_string()),
        _ => Err("no such distribution".to_owned()),
    };
    let spec = SourceSpec::parse("duplicates,distribution=half,compressibility=50,seed=9").unwrap();
    let source = open(&spec, &around(&known)).unwrap();
    let mut counts: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut streams = [source.stream(1), source.stream(2)];
    for round in 0..125 {
        let mut buffer = vec![0; 8 * 4096];
        streams[round % 2].fill(&mut buffer);
        buffer.chunks(4096).for_each(|block| *counts.entry(block.to_vec()).or_default() += 1);
    }
    assert_eq!(counts.values().filter(|copies| **copies == 1).count(), 500);
    assert_eq!(counts.values().filter(|copies| **copies == 5).count(), 100);
    let unknown = SourceSpec::parse("duplicates,distribution=other").unwrap();
    let error = open(&unknown, &around(&known)).err().unwrap().to_string();
    assert_eq!(error, "distribution 'other': no such distribution");
}

/// Checks data that is dense and redundant at once.
#[test]
fn duplicates_have_an_entropy_too() {
    let known = |_: &str| Distribution::parse("1 500\n").map_err(|error| error.to_string());
    let spec = SourceSpec::parse("duplicates,distribution=twice,entropy=4").unwrap();
    let mut buffer = vec![0; 4096 * 1000];
    open(&spec, &around(&known)).unwrap().stream(1).fill(&mut buffer);
    let distinct: std::collections::HashSet<&[u8]> = buffer.chunks(4096).collect();
    assert_eq!(distinct.len(), 500);
    let found = entropy(&buffer);
    assert!((found - 4.0).abs() < 0.02, "{found}");
}

#[test]
fn a_sample_is_written_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sample");
    std::fs::write(&path, b"abc").unwrap();
    let source = open(
        &SourceSpec::parse(&format!("file,sample={}", path.display())).unwrap(),
        &around(&no_distribution),
    );
    let mut stream = source.unwrap().stream(0);
    let mut buffer = [0; 7];
    stream.fill(&mut buffer);
    assert_eq!(&buffer, b"abcabca");
    stream.fill(&mut buffer[..2]);
    assert_eq!(&buffer[..2], b"bc");
}

#[test]
fn wrong_sources_and_attributes_are_named() {
    for (spec, message) in [
        ("entropy", "there is no data source 'entropy'"),
        ("entro,bits=5", "has no attribute 'bits'"),
        ("entro,entropy=8.1", "entropy is '8.1'; it must be a number from 0 to 8"),
        ("entro,entropy=nan", "entropy is 'nan'"),
        ("entro,method=magic", "one of gemelo, search, contiguous"),
        ("duplicates", "distribution is ''"),
        ("duplicates,distribution=x,blocksize=1", "blocksize is '1'"),
        ("duplicates,distribution=x,seed=a", "seed is 'a'"),
        ("file,sample=/does/not/exist", "the path of a file that exists"),
    ] {
        let error = SourceSpec::parse(spec).unwrap_err().to_string();
        assert!(error.contains(message), "{spec}: {error}");
    }
}
