//! Presets with the published figures of the FIU traces. `docs/reference/traces.md` gives the
//! source of each figure and lists the assumed ones.

use super::{Arrival, SynthesisError, SynthesisSpec};
use gemelo_content::{Distribution, Figure, SummaryStats};
use gemelo_pattern::Pattern;

/// The published figures of a trace: Koller and Rangaswami, "I/O Deduplication", FAST 2010, table
/// 1, for one week, or Tarasov et al., "Dmdedup", OLS 2014, table 1, for three; the mean size of a
/// request is from Mao et al., IEEE Transactions on Computers 65(6), 2016, table 3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the traced machine.
    pub about: &'static str,
    /// Days to which the figures apply.
    pub days: f64,
    /// Data that reads return, all and by distinct places and contents.
    pub reads: DataAmount,
    /// Data that writes bring, all and by distinct places and contents.
    pub writes: DataAmount,
    /// Distinct places accessed by reads or writes, in GiB.
    pub touched_gib: f64,
    /// Mean size of a request in KiB.
    pub request_kib: f64,
    /// Bytes of data for each hash.
    pub hash_bytes: u32,
}

/// The reads or the writes of a trace, in GiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DataAmount {
    /// All data, repeated accesses included.
    pub total_gib: f64,
    /// Distinct places of the data.
    pub places_gib: f64,
    /// Distinct contents of the data.
    pub contents_gib: f64,
}

const fn volume(total_gib: f64, places_gib: f64, contents_gib: f64) -> DataAmount {
    DataAmount { total_gib, places_gib, contents_gib }
}

/// The figures for three weeks tell no places and contents of reads, and no overlap of reads and
/// writes: these shares are those of the week.
const PRESETS: [Preset; 6] = [
    Preset {
        name: "web",
        about: "two web servers of a university department: web mail and course management",
        days: 7.0,
        reads: volume(3.40, 1.27, 1.09),
        writes: volume(11.46, 0.86, 4.85),
        // 2.8 % of 70 GB.
        touched_gib: 1.96,
        request_kib: 14.8,
        hash_bytes: 4096,
    },
    Preset {
        name: "mail",
        about: "the mail server of a university department, with all in-boxes",
        days: 7.0,
        reads: volume(62.00, 29.24, 28.82),
        writes: volume(482.10, 4.18, 34.02),
        // 6.27 % of 500 GB.
        touched_gib: 31.35,
        request_kib: 40.8,
        hash_bytes: 4096,
    },
    Preset {
        name: "homes",
        about: "home directories of a research group: developing, testing, writing",
        days: 7.0,
        reads: volume(5.79, 2.40, 1.99),
        writes: volume(148.86, 4.33, 33.68),
        // The sum of reads and writes. The published 1.44 % of 470 GB would be a little more.
        touched_gib: 6.73,
        request_kib: 13.1,
        hash_bytes: 512,
    },
    Preset {
        name: "web-2014",
        about: "the web servers over three weeks",
        days: 21.0,
        reads: volume(11.89, 4.44, 3.81),
        writes: volume(42.64, 0.95, 22.45),
        touched_gib: 4.96,
        request_kib: 14.8,
        hash_bytes: 4096,
    },
    Preset {
        name: "mail-2014",
        about: "the mail server over 20 days",
        days: 20.0,
        reads: volume(188.94, 89.11, 87.83),
        writes: volume(1483.41, 8.28, 110.39),
        touched_gib: 91.35,
        request_kib: 40.8,
        hash_bytes: 4096,
    },
    Preset {
        name: "homes-2014",
        about: "the home directories over three weeks",
        days: 21.0,
        reads: volume(15.46, 6.41, 5.31),
        writes: volume(65.27, 4.95, 16.83),
        touched_gib: 11.36,
        request_kib: 13.1,
        hash_bytes: 512,
    },
];

/// Returns the presets of all published traces.
#[must_use]
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// Mean number of duplicates of a content that has any, assumed from the 110 GB data set of Paulo
/// et al. 2012.
const USUAL_DUPLICATES: f64 = 2.76;
/// Share of distinct contents with duplicates that is assumed if the dedup ratio permits it.
const WITH_DUPLICATES: f64 = 0.5;
/// The assumed pattern: four in five accesses go to one place in five. The papers give no figures.
const ASSUMED_PATTERN: Pattern = Pattern::Hotspot { accesses_percent: 80.0, blocks_percent: 20.0 };
const BLOCK_BYTES: u64 = 4096;
const DAY_S: f64 = 86_400.0;
const GIB: f64 = (1u64 << 30) as f64;

impl Preset {
    /// Returns the preset with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Returns the blocks written as a share of all blocks, 0 to 1.
    #[must_use]
    pub fn write_share(&self) -> f64 {
        self.writes.total_gib / (self.writes.total_gib + self.reads.total_gib)
    }

    /// Returns the number of records in the published time.
    #[must_use]
    pub fn published_records(&self) -> u64 {
        ((self.writes.total_gib + self.reads.total_gib) * GIB / BLOCK_BYTES as f64) as u64
    }

    /// Returns the specification of a trace with `records` records that keeps all shares and ratios
    /// of these figures.
    ///
    /// # Errors
    /// If the distribution cannot be fitted to the figures.
    pub fn spec(&self, records: u64, seed: u64) -> Result<SynthesisSpec, SynthesisError> {
        let scale = records as f64 / self.published_records() as f64;
        let blocks = |gib: f64| (gib * GIB / BLOCK_BYTES as f64 * scale).round() as u64;
        let shared_gib =
            (self.reads.places_gib + self.writes.places_gib - self.touched_gib).max(0.0);
        Ok(SynthesisSpec {
            records,
            block_bytes: BLOCK_BYTES,
            hash_bytes: self.hash_bytes,
            written: distribution_of(self.writes)?,
            populated: distribution_of(DataAmount {
                total_gib: self.reads.places_gib,
                ..self.reads
            })?,
            write_share: self.write_share(),
            pattern: ASSUMED_PATTERN,
            written_places: blocks(self.writes.places_gib).max(1),
            read_places: blocks(self.reads.places_gib).max(1),
            shared_places: blocks(shared_gib),
            request_blocks: self.request_kib * 1024.0 / BLOCK_BYTES as f64,
            arrival: Arrival::USUAL_BURSTS,
            records_per_s: self.published_records() as f64 / (self.days * DAY_S),
            seed,
        })
    }
}

/// Returns a distribution with the dedup ratio of the figures. The shape of the distribution is
/// assumed.
fn distribution_of(volume: DataAmount) -> Result<Distribution, SynthesisError> {
    let distinct = (volume.contents_gib / volume.total_gib).min(1.0);
    let duplicates = 1.0 - distinct;
    let with_duplicates = (WITH_DUPLICATES * distinct).min(duplicates / USUAL_DUPLICATES);
    let figure = |value: f64| Figure::parse(&format!("{value:.9}"));
    let figures = SummaryStats {
        unique_share: figure(distinct - with_duplicates),
        dedup_ratio: figure(1.0 / distinct),
        ..SummaryStats::default()
    };
    Ok(Distribution::fit(&figures)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_the_published_ratio() {
        for preset in presets() {
            for volume in [preset.writes, preset.reads] {
                let ratio = volume.total_gib / volume.contents_gib;
                let found = distribution_of(volume).unwrap().summary().dedup_ratio();
                assert!((found / ratio - 1.0).abs() < 1e-4, "{}: {found} for {ratio}", preset.name);
            }
            assert_eq!(Preset::named(preset.name), Some(preset));
        }
    }
}
