//! Tests that synthesized traces have the figures of their presets.

use super::*;
use crate::stat::{CopyCounting, MemoryLimit, Statistics, Stats};

fn counted(spec: &SynthesisSpec) -> (Stats, Statistics) {
    let mut synthesis = Synthesis::new(spec).unwrap();
    let mut statistics = Statistics::new(spec.block_bytes, MemoryLimit(u64::MAX));
    let mut record = Record::new();
    while synthesis.next_record(&mut record).unwrap() {
        statistics.add(&record).unwrap();
    }
    assert_eq!(synthesis.left(), 0);
    (statistics.figures(synthesis.names()), statistics)
}

fn near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{what}: {found}, expected {expected}");
}

/// A trace made with the figures of a preset has these figures.
#[test]
fn statistics_give_back_the_published_figures() {
    const RECORDS: u64 = 300_000;
    for preset in presets() {
        let spec = preset.spec(RECORDS, 11).unwrap();
        let (figures, _) = counted(&spec);
        let name = preset.name;
        let Preset { reads, writes, .. } = *preset;
        assert_eq!((figures.records, figures.contradictions), (RECORDS, 0), "{name}");
        let written = figures.written_blocks as f64;
        assert!((written / RECORDS as f64 - preset.write_share()).abs() < 1e-5, "{name}");
        let ratio = figures.dedup_ratio_written.unwrap();
        // Few records do not hold every class of the tail, so one or two contents of each class are
        // cut short.
        near(ratio, writes.total_gib / writes.contents_gib, 0.003, name);
        let rewrites = writes.total_gib / writes.places_gib;
        near(written / figures.written_places as f64, rewrites, 0.03, "rewrites");
        let rereads = reads.total_gib / reads.places_gib;
        near(figures.read_blocks as f64 / figures.read_places as f64, rereads, 0.03, "rereads");
        let touched = (figures.touched_bytes / 4096) as f64 / RECORDS as f64;
        let published = preset.touched_gib / (reads.total_gib + writes.total_gib);
        near(touched, published, 0.06, "touched");
        let per_s = RECORDS as f64 / (figures.duration_ns as f64 / 1e9);
        near(per_s, spec.records_per_s, 0.5, "rate");
        assert!(figures.dispersion.unwrap() > 3.0, "{name} comes in bursts");
    }
}

/// The dedup ratio of the blocks written is that of the distribution at any size, to rounding.
#[test]
fn what_is_written_carries_the_distribution() {
    let mut spec = Preset::named("mail").unwrap().spec(50_000, 3).unwrap();
    spec.written = Distribution::parse("0 700\n2 100\n").unwrap();
    spec.arrival = Arrival::Poisson;
    let (figures, statistics) = counted(&spec);
    near(figures.dedup_ratio_written.unwrap(), 1000.0 / 800.0, 0.0005, "ratio");
    let found = statistics.distribution(CopyCounting::Writes).unwrap();
    let classes: Vec<u64> = found.classes().iter().map(|class| class.duplicates).collect();
    assert!(classes.starts_with(&[0]) && classes.contains(&2), "{classes:?}");
    near(figures.records_per_s.unwrap(), spec.records_per_s, 0.05, "rate");
}

#[test]
fn hashes_of_sectors_make_the_same_blocks() {
    let spec = Preset::named("homes").unwrap().spec(5_000, 3).unwrap();
    let mut synthesis = Synthesis::new(&spec).unwrap();
    let mut record = Record::new();
    assert!(synthesis.next_record(&mut record).unwrap());
    assert_eq!((record.hashes.len(), record.hash_bytes, record.length_bytes), (8, 512, 4096));
    let by_page = SynthesisSpec { hash_bytes: 4096, ..spec.clone() };
    let (by_page, by_sector) = (counted(&by_page).0, counted(&spec).0);
    assert_eq!(by_page.written_contents, by_sector.written_contents);
}

#[test]
fn seeds_decide() {
    let first = |seed| {
        let mut synthesis =
            Synthesis::new(&Preset::named("web").unwrap().spec(1000, seed).unwrap()).unwrap();
        let mut record = Record::new();
        let take = |_| {
            synthesis.next_record(&mut record).unwrap();
            record.clone()
        };
        (0..100).map(take).collect::<Vec<_>>()
    };
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}

#[test]
fn extremes_are_made_or_refused() {
    let spec = Preset::named("web").unwrap().spec(1000, 1).unwrap();
    for write_share in [0.0, 1.0] {
        let (figures, _) = counted(&SynthesisSpec { write_share, ..spec.clone() });
        assert_eq!(figures.written_blocks, (1000.0 * write_share) as u64);
    }
    for pattern in ["sequential", "zipf:0.9", "nurand"] {
        let pattern: Pattern = pattern.parse().unwrap();
        assert_eq!(counted(&SynthesisSpec { pattern, ..spec.clone() }).0.records, 1000);
    }
    let single =
        SynthesisSpec { written_places: 1, read_places: 1, request_blocks: 1.0, ..spec.clone() };
    assert_eq!(counted(&single).0.written_places, 1);
    for wrong in [
        SynthesisSpec { records: 0, ..spec.clone() },
        SynthesisSpec { block_bytes: 1000, ..spec.clone() },
        SynthesisSpec { hash_bytes: 1024, ..spec.clone() },
        SynthesisSpec { write_share: 1.5, ..spec.clone() },
        SynthesisSpec { request_blocks: 0.5, ..spec.clone() },
        SynthesisSpec { records_per_s: f64::NAN, ..spec.clone() },
        SynthesisSpec { records: 1 << 40, written_places: 1 << 35, ..spec.clone() },
    ] {
        assert!(Synthesis::new(&wrong).is_err(), "{wrong:?}");
    }
}
