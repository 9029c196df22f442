//! Every block of generated data is counted in the right figure.

use crate::data::{Data, block, blocks, comparable, scanned};
use gemelo_scan::{ScanFingerprintKind, ScanRequest, TailPolicy};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

const K4: usize = 4096;

/// Ten whole blocks: eight of four contents, and two of zeros. In addition, a short tail that
/// occurs twice, and a short tail of zeros.
fn mixed() -> Data {
    let data = Data::new();
    data.file("a", &blocks([1, 2, 1, 0, 3, 1], K4));
    data.file("deep/down/b", &[blocks([2, 0], K4), block(9, 100)].concat());
    data.file("deep/c", &[blocks([1, 4], K4), block(9, 100)].concat());
    data.file("deep/d", &[0; 50]);
    data.file("empty", &[]);
    data
}

#[test]
fn built_data_is_counted_exactly() {
    let data = mixed();
    let result = scanned(data.request());
    assert_eq!((result.files.files, result.files.directories), (5, 3));
    assert_eq!(result.files.data_bytes, 10 * 4096 + 250);
    let size = &result.block_sizes[0];
    assert_eq!((size.blocks, size.data_bytes, size.short_blocks), (13, 10 * 4096 + 250, 3));
    assert_eq!((size.zero_blocks, size.zero_bytes), (3, 2 * 4096 + 50));
    assert_eq!((size.counted_blocks, size.counted_bytes), (10, 8 * 4096 + 200));
    // Content 1 has 4 copies, 2 has 2, 3 and 4 have 1, and the tail has 2.
    assert_eq!(
        (size.distinct, size.unique, size.distinct_with_duplicates, size.duplicates),
        (5, 2, 3, 5)
    );
    assert_eq!(size.distinct_bytes, 4 * 4096 + 100);
    assert_eq!(size.saved_bytes, 4 * 4096 + 100);
    assert_eq!(size.distribution, [[0, 2], [1, 2], [3, 1]]);
    let rows: Vec<_> =
        size.ranges.iter().map(|row| (row.duplicates.as_str(), row.contents, row.blocks)).collect();
    assert_eq!(rows, [("0", 2, 2), ("1-4", 3, 8)]);
    assert!((size.dedup_ratio - 2.0).abs() < 1e-12);
    // With zeros, the zero block and the zero tail are contents like any other.
    let with_zeros = size.with_zeros;
    assert_eq!((with_zeros.distinct, with_zeros.distinct_bytes), (7, 5 * 4096 + 150));
    assert_eq!(with_zeros.saved_bytes, 5 * 4096 + 100);
    assert!((with_zeros.dedup_ratio - 13.0 / 7.0).abs() < 1e-12);
    let share = (5 * 4096 + 100) as f64 / (10 * 4096 + 250) as f64;
    assert!((with_zeros.saved_share - share).abs() < 1e-12);
    let distribution = size.to_distribution().unwrap();
    assert_eq!(distribution.to_text(), "# zeros 3\n0 2\n1 2\n3 1\n");
    assert_eq!(size.to_profile("x", "y").unwrap().to_distribution().unwrap(), distribution);
    assert!(size.estimate.is_none() && !result.partial);
}

#[test]
fn tails_are_skipped_padded_or_kept() {
    let data = mixed();
    let with = |tail| scanned(ScanRequest { tail, ..data.request() }).block_sizes.remove(0);
    let skip = with(TailPolicy::Skip);
    assert_eq!((skip.blocks, skip.distinct, skip.zero_blocks), (10, 4, 2));
    assert_eq!((skip.skipped_tails, skip.skipped_tail_bytes), (3, 250));
    let pad = with(TailPolicy::Pad);
    // The zero tail now counts as one more zero block.
    assert_eq!((pad.blocks, pad.distinct, pad.zero_blocks), (13, 5, 3));
    assert_eq!((pad.padding_bytes, pad.data_bytes), (3 * 4096 - 250, 13 * 4096));
    assert_eq!((pad.distinct_bytes, pad.with_zeros.distinct), (5 * 4096, 6));
}

#[test]
fn holes_are_zero_blocks_that_nobody_read() {
    let data = Data::new();
    let one = block(1, K4);
    // A hole, data, a hole of 1 GiB, data that does not begin at a block boundary, and a short last
    // hole.
    let length = (1 << 30) + 100_000;
    data.sparse("sparse", length, &[(40_960, &one), ((1 << 30) + 8192 + 10, &one)]);
    data.sparse("all", (1 << 40) + 1, &[]);
    let result = scanned(ScanRequest { block_bytes: vec![4096, 8192], ..data.request() });
    assert!(result.files.hole_bytes > (1 << 40) + (1 << 30));
    let size = &result.block_sizes[0];
    let whole = (1u64 << 28) + (1 << 18) + 100_000 / 4096;
    assert_eq!((size.blocks, size.short_blocks), (whole + 2, 2));
    assert_eq!(size.zero_blocks, size.blocks - 3);
    assert_eq!(size.data_bytes, (1 << 40) + 1 + length);
    // Three contents; with zeros also zero blocks and zero tails of two lengths.
    assert_eq!((size.distinct, size.with_zeros.distinct), (3, 6));
    assert!(size.max_repeated.is_empty());
    // At 8 KiB the unaligned data lies within one block.
    assert_eq!(result.block_sizes[1].blocks - result.block_sizes[1].zero_blocks, 2);
}

#[test]
fn links_and_special_files_are_counted_apart() {
    let data = mixed();
    fs::hard_link(data.path("a"), data.path("deep/again")).unwrap();
    fs::hard_link(data.path("a"), data.path("zzz")).unwrap();
    symlink(data.path("a"), data.path("link")).unwrap();
    symlink(data.path("deep"), data.path("directory-link")).unwrap();
    symlink("nowhere", data.path("dangling")).unwrap();
    assert!(Command::new("mkfifo").arg(data.path("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(data.path("socket")).unwrap();
    let result = scanned(data.request());
    assert_eq!((result.files.files, result.files.hard_links_skipped), (5, 2));
    assert_eq!((result.files.symbolic_links_skipped, result.files.special_skipped), (3, 2));
    assert_eq!(result.block_sizes[0].blocks, 13);
    let result = scanned(ScanRequest { count_hard_links: true, ..data.request() });
    assert_eq!((result.files.files, result.files.hard_links_skipped), (7, 0));
    assert_eq!(result.block_sizes[0].blocks, 13 + 12);
}

#[test]
fn globs_leave_files_and_directories_out() {
    let data = mixed();
    let exclude = ["down", "/a", "deep/[c]"].map(str::to_owned).to_vec();
    let result = scanned(ScanRequest { exclude, ..data.request() });
    assert_eq!((result.files.files, result.files.excluded), (2, 3));
    assert_eq!(result.files.data_bytes, 50);
}

#[test]
fn a_scan_can_stay_on_its_file_system() {
    // /proc/sys and /proc/tty are on one file system, and /proc/sys/fs/binfmt_misc may be on
    // another.
    let data = mixed();
    let result = scanned(ScanRequest { one_file_system: true, ..data.request() });
    assert_eq!((result.files.files, result.files.other_file_systems_skipped), (5, 0));
    let mut request = crate::data::request(&["/dev".as_ref()]);
    request.one_file_system = true;
    request.exclude = vec!["mqueue".to_owned(), "hugepages".to_owned()];
    if fs::metadata("/dev/shm").is_ok_and(|shm| is_other(&shm)) {
        assert!(scanned(request).files.other_file_systems_skipped > 0);
    }
}

fn is_other(shm: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/dev").is_ok_and(|dev| dev.dev() != shm.dev())
}

#[test]
fn nothing_gives_figures_of_nothing() {
    let data = Data::new();
    let result = scanned(data.request());
    let size = &result.block_sizes[0];
    assert_eq!((result.files.files, size.blocks, size.distinct, size.duplicates), (0, 0, 0, 0));
    assert_eq!((size.dedup_ratio, size.saved_share), (1.0, 0.0));
    assert!(size.ranges.is_empty() && size.nature.is_none() && size.locality.is_none());
    assert!(size.to_distribution().is_err());
    data.file("empty", &[]);
    let result = scanned(data.request());
    assert_eq!((result.files.files, result.block_sizes[0].blocks), (1, 0));
}

#[test]
fn a_file_of_zeros_has_no_content_but_zeros() {
    let data = Data::new();
    data.file("zeros", &[0; 100 * K4]);
    let size = scanned(data.request()).block_sizes.remove(0);
    assert_eq!((size.blocks, size.zero_blocks, size.distinct, size.duplicates), (100, 100, 0, 0));
    assert_eq!((size.counted_blocks, size.dedup_ratio, size.saved_share), (0, 1.0, 0.0));
    let with_zeros = size.with_zeros;
    assert_eq!((with_zeros.distinct, with_zeros.dedup_ratio), (1, 100.0));
    assert_eq!((with_zeros.saved_bytes, with_zeros.saved_share), (99 * K4 as u64, 0.99));
    assert_eq!(size.to_distribution().unwrap().to_text(), "# zeros 100\n");
}

#[test]
fn sparse_files_of_more_than_64_bits_together_do_not_overflow() {
    let data = Data::new();
    if fs::File::create(data.path("1")).unwrap().set_len(1 << 62).is_err() {
        // Most file systems on disks limit a file to 16 TiB.
        for index in 0..4 {
            data.sparse(&index.to_string(), 1 << 43, &[]);
        }
        let size =
            scanned(ScanRequest { block_bytes: vec![512], ..data.request() }).block_sizes.remove(0);
        assert_eq!((size.blocks, size.distinct), (1 << 36, 0));
        return;
    }
    for index in 0..5 {
        data.sparse(&index.to_string(), 1 << 62, &[]);
    }
    let size =
        scanned(ScanRequest { block_bytes: vec![512], ..data.request() }).block_sizes.remove(0);
    assert_eq!((size.blocks, size.distinct, size.data_bytes), (5 << 53, 0, u64::MAX));
}

/// A loop device over a file. It is detached at the end of the test.
struct LoopDevice(String);

impl LoopDevice {
    fn new(file: &std::path::Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        output
            .status
            .success()
            .then(|| Self(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_is_read_to_its_end() {
    let data = Data::new();
    let file = data.file("image", &blocks((0..3000).map(|n| n % 700), K4));
    let Some(device) = LoopDevice::new(&file) else {
        gemelo_tools::skip!("root and losetup");
    };
    let of_device = comparable(&scanned(crate::data::request(&[device.0.as_ref()])));
    let of_file = comparable(&scanned(crate::data::request(&[&file])));
    assert_eq!(of_device.block_sizes, of_file.block_sizes);
    assert_eq!(of_device.files.data_bytes, 3000 * 4096);
}

/// A mounted file system that can share extents. It is unmounted at the end of the test.
struct Reflinking {
    _device: LoopDevice,
    directory: tempfile::TempDir,
}

impl Reflinking {
    fn new(data: &Data) -> Option<Self> {
        let file = data.sparse("file-system", 400 << 20, &[]);
        let device = LoopDevice::new(&file)?;
        let directory = tempfile::tempdir().unwrap();
        let run = |words: &[&str]| {
            let done = Command::new(words[0]).args(&words[1..]).output();
            done.is_ok_and(|done| done.status.success())
        };
        let is_made = run(&["mkfs.xfs", "-q", "-m", "reflink=1", &device.0])
            || run(&["mkfs.btrfs", "-q", &device.0]);
        let path = directory.path().to_str().unwrap();
        let is_there = is_made && run(&["mount", &device.0, path]);
        is_there.then_some(Self { _device: device, directory })
    }
}

impl Drop for Reflinking {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.directory.path()).status();
    }
}

/// Extents that files share are counted in each of them, and hard links once.
#[test]
fn reflinked_data_are_duplicates_and_hard_links_are_not() {
    let data = Data::new();
    let Some(shares) = Reflinking::new(&data) else {
        gemelo_tools::skip!("root, losetup, and mkfs.xfs or mkfs.btrfs, for reflinks");
    };
    let path = |name: &str| shares.directory.path().join(name);
    fs::write(path("a"), blocks(1..=64, K4)).unwrap();
    fs::hard_link(path("a"), path("hard")).unwrap();
    let copied = Command::new("cp").arg("--reflink=always").args([path("a"), path("b")]).status();
    assert!(copied.unwrap().success());
    let result = scanned(crate::data::request(&[shares.directory.path()]));
    let size = &result.block_sizes[0];
    assert_eq!((result.files.files, result.files.hard_links_skipped), (2, 1));
    assert_eq!(result.files.data_bytes, 2 * 64 * K4 as u64);
    assert_eq!((size.blocks, size.distinct, size.duplicates), (128, 64, 64));
}

#[test]
fn several_block_sizes_are_what_separate_scans_find() {
    let data = mixed();
    data.file("more", &blocks((0..3000).map(|n| n % 1000), 1536));
    let sizes = vec![512, 1536, 4096, 12288];
    let together = scanned(ScanRequest { block_bytes: sizes.clone(), ..data.request() });
    let together = comparable(&together);
    for (size, found) in sizes.into_iter().zip(together.block_sizes) {
        let alone = comparable(&scanned(ScanRequest { block_bytes: vec![size], ..data.request() }));
        assert_eq!(alone.block_sizes, [found]);
    }
}

#[test]
fn every_fingerprint_gives_the_same_counts() {
    let data = mixed();
    data.file("more", &blocks((0..600).map(|n| n % 200), K4));
    let counts = |fingerprint| {
        let size = scanned(ScanRequest { fingerprint, ..data.request() }).block_sizes.remove(0);
        assert_eq!(size.max_repeated[0].fingerprint, fingerprint.of(&block(1, K4)));
        (size.distribution, size.ranges, size.distinct_bytes, size.zero_blocks)
    };
    let first = counts(ScanFingerprintKind::default());
    for kind in ScanFingerprintKind::ALL {
        assert_eq!(counts(kind), first, "{}", kind.name());
    }
}

#[test]
fn the_most_repeated_contents_are_where_the_result_says() {
    let data = Data::new();
    // Content n occurs n times, spread over files.
    let mut numbers: Vec<u64> = (1..=60).flat_map(|n| std::iter::repeat_n(n, n as usize)).collect();
    numbers.sort_by_key(|n| gemelo_base::random::mix64(*n));
    for (index, part) in numbers.chunks(7).enumerate() {
        data.file(&format!("{}/{index}", index % 5), &blocks(part.iter().copied(), K4));
    }
    let size = scanned(data.request()).block_sizes.remove(0);
    let copies: Vec<u64> = size.max_repeated.iter().map(|repeated| repeated.copies).collect();
    assert_eq!(copies, (51..=60).rev().collect::<Vec<_>>());
    for repeated in &size.max_repeated {
        let place = repeated.place.as_ref().unwrap();
        let bytes = fs::read(&place.path).unwrap();
        let at = place.offset_bytes as usize;
        assert_eq!(ScanFingerprintKind::Xxh3.of(&bytes[at..at + K4]), repeated.fingerprint);
    }
}

#[test]
fn distances_between_copies_are_measured_in_the_order_of_the_files() {
    let data = Data::new();
    // Each content occurs twice, ten blocks apart.
    let numbers = (0..500).flat_map(|group| (0..20).map(move |n| 1 + group * 10 + n % 10));
    let path = data.file("one", &blocks(numbers, K4));
    let locality = scanned(crate::data::request(&[&path])).block_sizes.remove(0).locality.unwrap();
    assert_eq!((locality.sampled_contents, locality.distances), (5000, 5000));
    assert_eq!((locality.mean_bytes, locality.median_bytes), (40_960.0, 40_960));
    assert_eq!(locality.histogram, [[32_768, 5000]]);
}

#[test]
fn the_nature_of_contents_is_told_by_class() {
    let data = Data::new();
    let text =
        |n: u64| format!("{n:08} ").into_bytes().into_iter().cycle().take(K4).collect::<Vec<u8>>();
    let unique: Vec<u8> = blocks(1..=300, K4);
    let duplicated: Vec<u8> = (0..200u64).flat_map(|n| text(n % 100)).collect();
    data.file("unique", &unique);
    data.file("duplicated", &duplicated);
    let size = scanned(data.request()).block_sizes.remove(0);
    let nature = size.nature.as_ref().unwrap();
    assert_eq!(nature.overall.sampled_contents, 400);
    assert_eq!(nature.classes.len(), 2);
    let [random, repeated] = [&nature.classes[0], &nature.classes[1]];
    assert_eq!((random.duplicates.as_str(), random.figures.sampled_contents), ("0", 300));
    assert!(random.figures.entropy_bits > 7.9 && random.figures.lz4_saved_share < 0.0);
    assert_eq!((repeated.duplicates_from, repeated.duplicates_to), (1, 4));
    assert!(repeated.figures.entropy_bits < 3.0 && repeated.figures.zstd_saved_share > 0.9);
    assert_eq!(nature.entropy_histogram[15], 300);
    assert_eq!(nature.entropy_histogram.iter().sum::<u64>(), 400);
    let profile = size.to_profile("x", "y").unwrap();
    assert_eq!(gemelo_content::Profile::parse(&profile.to_toml().unwrap()).unwrap(), profile);
    assert_eq!(profile.classes.len(), 2);
}
