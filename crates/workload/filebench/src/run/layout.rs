//! The shape of a fileset: a tree of directories with random depths and widths, and files in the
//! lowest directories.

use crate::chance::standard_gamma;
use crate::model::FilesetSpec;
use gemelo_base::random::Random;

/// Greatest depth of nesting. Paths of this depth are far below `PATH_MAX`.
const DEEPEST: u32 = 64;
/// Digits of a name.
const NAME_DIGITS: usize = 8;

/// A directory. The first one is the root, which has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) parent: u32,
    pub(super) serial: u32,
}

/// A file or leaf directory: its parent and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) directory: u32,
    pub(super) serial: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) directories: Vec<Directory>,
    pub(super) files: Vec<Entry>,
    /// Size of each file in bytes.
    pub(super) sizes: Vec<u64>,
    pub(super) leaf_dirs: Vec<Entry>,
    /// Mean depth for the number of entries and the mean width.
    pub(super) mean_depth: f64,
    pub(super) bytes: u64,
}

struct Builder<'a> {
    spec: &'a FilesetSpec,
    random: Random,
    layout: Layout,
}

impl Layout {
    pub(super) fn new(spec: &FilesetSpec, seed: u64) -> Self {
        let entries = spec.entries.saturating_add(spec.leaf_dirs) as f64;
        let layout = Self {
            directories: vec![Directory { parent: 0, serial: 0 }],
            files: Vec::new(),
            sizes: Vec::new(),
            leaf_dirs: Vec::new(),
            mean_depth: if spec.dir_width.mean() > 1.0 {
                entries.ln() / spec.dir_width.mean().ln()
            } else {
                // No depth would hold the entries: all directories hold files.
                1.0
            },
            bytes: 0,
        };
        let mut builder = Builder { spec, random: Random::new(seed), layout };
        builder.fill(0, 1);
        builder.layout
    }

    /// Returns the path of a directory below the root with a slash at its end. The path of the root
    /// is empty.
    pub(super) fn directory_path(&self, directory: u32) -> String {
        let mut serials = Vec::new();
        let mut at = directory;
        while at != 0 {
            let entry = self.directories[at as usize];
            serials.push(entry.serial);
            at = entry.parent;
        }
        serials.iter().rev().map(|serial| format!("{serial:08}/")).collect()
    }
}

/// The name of an entry as a C string, without allocating.
pub(super) struct Name {
    bytes: [u8; NAME_DIGITS + 3],
    start: usize,
}

impl Name {
    pub(super) fn new(serial: u32) -> Self {
        let mut bytes = [b'0'; NAME_DIGITS + 3];
        let last = bytes.len() - 1;
        bytes[last] = 0;
        let (mut place, mut rest) = (last, serial);
        while rest > 0 {
            place -= 1;
            bytes[place] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Self { bytes, start: place.min(last - NAME_DIGITS) }
    }

    pub(super) fn as_c_str(&self) -> &std::ffi::CStr {
        std::ffi::CStr::from_bytes_with_nul(&self.bytes[self.start..]).unwrap_or_default()
    }
}

impl Builder<'_> {
    const fn wants_files(&self) -> bool {
        (self.layout.files.len() as u64) < self.spec.entries
    }

    const fn wants_leaf_dirs(&self) -> bool {
        (self.layout.leaf_dirs.len() as u64) < self.spec.leaf_dirs
    }

    /// Draws from a gamma distribution with this mean, or returns the mean if the shape is 0.
    fn around(&mut self, mean: f64) -> f64 {
        let shape = self.spec.dir_gamma;
        if shape > 0.0 { standard_gamma(shape, &mut self.random) * mean / shape } else { mean }
    }

    fn width(&mut self) -> u64 {
        let width = match &self.spec.dir_width {
            crate::model::Quantity::Fixed(mean) => self.around(*mean),
            drawn @ crate::model::Quantity::Drawn(_) => drawn.next_real(&mut self.random),
        };
        width.ceil().max(1.0) as u64
    }

    fn depth(&mut self) -> u32 {
        let depth = match &self.spec.dir_depth {
            Some(drawn) => drawn.next_real(&mut self.random),
            None => self.around(self.layout.mean_depth),
        };
        (depth as u32).clamp(1, DEEPEST)
    }

    /// Fills a directory at a depth counted from 1. The root holds only directories, without a
    /// limit on their number.
    fn fill(&mut self, directory: u32, depth: u32) {
        let (limit, is_leaf) =
            if directory == 0 { (u64::MAX, false) } else { (self.width(), depth >= self.depth()) };
        let mut serial = 0;
        while u64::from(serial) < limit && self.wants_files() {
            serial += 1;
            if is_leaf {
                self.add_file(directory, serial);
            } else {
                self.add_directory(directory, serial, depth);
            }
        }
        let last_file = serial;
        while u64::from(serial - last_file) < limit && self.wants_leaf_dirs() {
            serial += 1;
            if is_leaf {
                self.layout.leaf_dirs.push(Entry { directory, serial });
            } else {
                self.add_directory(directory, serial, depth);
            }
        }
    }

    fn add_file(&mut self, directory: u32, serial: u32) {
        let bytes = self.spec.size.next(&mut self.random);
        self.layout.files.push(Entry { directory, serial });
        self.layout.sizes.push(bytes);
        self.layout.bytes = self.layout.bytes.saturating_add(bytes);
    }

    fn add_directory(&mut self, parent: u32, serial: u32, depth: u32) {
        // The number fits, as entries are limited to 2^28 and every directory leads to at least
        // one.
        let directory = self.layout.directories.len() as u32;
        self.layout.directories.push(Directory { parent, serial });
        self.fill(directory, depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Script;
    use crate::chance::tests::{gamma_cdf, kolmogorov};

    fn layout(attributes: &str) -> Layout {
        let script = format!("define fileset name=f,path=/x,{attributes}");
        let program = Script::parse("t.f", &script).unwrap().compile(&[]).unwrap();
        Layout::new(&program.plan.filesets[0], 9)
    }

    #[test]
    fn all_files_and_leaf_directories_have_names_of_their_own() {
        let layout = layout("entries=3000,leafdirs=500,dirwidth=10");
        assert_eq!((layout.files.len(), layout.leaf_dirs.len()), (3000, 500));
        let mut names: Vec<_> = layout
            .files
            .iter()
            .chain(&layout.leaf_dirs)
            .map(|entry| (entry.directory, entry.serial))
            .collect();
        names.extend(
            layout.directories.iter().skip(1).map(|directory| (directory.parent, directory.serial)),
        );
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_fixed_shape_is_a_full_tree() {
        // 10^3 files in directories of 10 are below the root and one or two levels of directories.
        let layout = layout("entries=1000,dirwidth=10,dirgamma=0");
        assert!((layout.mean_depth - 3.0).abs() < 1e-9);
        let depths: Vec<usize> = layout
            .files
            .iter()
            .map(|entry| layout.directory_path(entry.directory).len() / 9)
            .collect();
        assert!(
            depths.iter().all(|depth| *depth == depths[0] && (1..=2).contains(depth)),
            "{:?}",
            depths[0]
        );
        let per_directory = layout
            .files
            .iter()
            .filter(|entry| entry.directory == layout.files[0].directory)
            .count();
        assert_eq!(per_directory, 10);
    }

    #[test]
    fn widths_and_depths_scatter_around_their_means() {
        let layout = layout("entries=20000,dirwidth=20");
        let mut counts = std::collections::HashMap::new();
        for entry in &layout.files {
            *counts.entry(entry.directory).or_insert(0u32) += 1;
        }
        let mean = 20_000.0 / counts.len() as f64;
        assert!((17.0..=24.0).contains(&mean), "{mean}");
        assert!(counts.values().max() > Some(&50) && counts.values().min() < Some(&5));
        let depths: std::collections::HashSet<usize> = layout
            .files
            .iter()
            .map(|entry| layout.directory_path(entry.directory).len() / 9)
            .collect();
        assert!(depths.len() > 3, "{depths:?}");
    }

    #[test]
    fn the_sizes_of_a_gamma_fileset_pass_a_test_of_fit() {
        for attributes in [
            "entries=20000,dirwidth=20,size=cvar(type=cvar-gamma,parameters=mean:131072;gamma:1.5)",
            "entries=20000,dirwidth=20,size=128k,filesizegamma=1500",
            "entries=20000,dirwidth=20,size=randvar(type=gamma,mean=128k,gamma=1500)",
        ] {
            let layout = layout(attributes);
            let sizes = layout.sizes.iter().map(|bytes| *bytes as f64 + 0.5).collect();
            let statistic = kolmogorov(sizes, |bytes| gamma_cdf(1.5, bytes * 1.5 / 131_072.0));
            assert!(statistic < 1.95, "{statistic}");
        }
    }

    #[test]
    fn names_have_eight_digits_or_more() {
        assert_eq!(Name::new(7).as_c_str().to_bytes(), b"00000007");
        assert_eq!(Name::new(12_345_678).as_c_str().to_bytes(), b"12345678");
        assert_eq!(Name::new(u32::MAX).as_c_str().to_bytes(), b"4294967295");
    }

    #[test]
    fn narrow_directories_hold_a_file_each() {
        for width in ["", ",dirwidth=1", ",dirwidth=0", ",dirwidth=1,dirgamma=0"] {
            for entries in [1, 8] {
                let layout = layout(&format!("entries={entries}{width},size=64k"));
                assert_eq!(layout.files.len(), entries, "{width}");
                assert_eq!(layout.mean_depth, 1.0, "{width}");
                let at_root = layout.directories.iter().all(|directory| directory.parent == 0);
                assert!(at_root && layout.directories.len() >= 2, "{width}");
            }
        }
        let leafs = layout("leafdirs=5,dirwidth=1");
        assert_eq!((leafs.leaf_dirs.len(), leafs.files.len()), (5, 0));
    }
}
