//! Files that cannot be read, that vanish, shrink or grow.

use crate::data::{Data, block, blocks, request, scanned, scanned_with};
use gemelo_base::{Recorder, StopFlag};
use gemelo_scan::{ScanError, ScanOptions, ScanRequest, scan};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that not even root may read: a write-only attribute of the kernel.
fn write_only_attribute() -> Option<PathBuf> {
    let path = PathBuf::from("/sys/bus/platform/drivers_probe");
    (path.exists() && File::open(&path).is_err()).then_some(path)
}

#[test]
fn an_unreadable_file_is_reported_and_counted_and_does_not_stop_the_scan() {
    let data = Data::new();
    data.file("good", &blocks([1, 2], 4096));
    let mut request = data.request();
    if let Some(path) = write_only_attribute() {
        request.paths.push(path);
    } else {
        use std::os::unix::fs::PermissionsExt;
        let path = data.file("bad", &[1]);
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    }
    let monitor = Recorder::new();
    let result = scanned_with(request, &monitor);
    assert_eq!(
        (result.files.unreadable, result.files.files, result.block_sizes[0].blocks),
        (1, 1, 2)
    );
    let warnings = monitor.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("cannot read /"), "{warnings:?}");
}

/// Attributes of the kernel have a size of 4096 bytes but return fewer, like files that have
/// shrunk.
#[test]
fn a_file_that_is_shorter_than_it_was_is_counted_as_changed() {
    let path = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
    let Ok(bytes) = fs::read(path) else { return };
    let result = scanned(request(&[path]));
    assert_eq!((result.files.changed, result.files.unreadable), (1, 0));
    assert_eq!(result.files.data_bytes, bytes.len() as u64);
    assert_eq!((result.block_sizes[0].blocks, result.block_sizes[0].short_blocks), (1, 1));
}

#[test]
fn paths_that_cannot_be_scanned_are_refused_before_anything_is_read() {
    let data = Data::new();
    let refused = |path: &Path| {
        let options = ScanOptions::new(request(&[path])).unwrap();
        scan(&options, &Recorder::new(), &StopFlag::new()).unwrap_err()
    };
    let missing = refused(&data.path("missing"));
    assert!(missing.to_string().contains("missing"), "{missing}");
    assert!(matches!(refused(Path::new("/dev/null")), ScanError::Kind { .. }));
    let request = request(&[data.root(), data.root()]);
    let twice = scan(&ScanOptions::new(request).unwrap(), &Recorder::new(), &StopFlag::new());
    assert!(matches!(twice, Err(ScanError::Overlap { .. })));
}

#[test]
fn files_that_change_under_the_scan_do_no_harm() {
    let data = Data::new();
    let large = blocks(1..3000, 4096);
    let still = data.file("still", &large);
    for index in 0..200 {
        data.file(&format!("small{index}"), &block(index, 5000));
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0u64;
            while !over.load(Ordering::Relaxed) {
                round += 1;
                data.file("large", &large[..(round as usize * 777_777) % large.len()]);
                let name = format!("small{}", round % 200);
                if round.is_multiple_of(3) {
                    // The file may not exist yet.
                    let _ = fs::remove_file(data.path(&name));
                } else {
                    let file = OpenOptions::new().append(true).create(true).open(data.path(&name));
                    file.unwrap().write_all(&[round as u8; 100]).unwrap();
                }
            }
        });
        for _ in 0..30 {
            let result = scanned(ScanRequest { threads: 4, ..data.request() });
            assert!(!result.partial);
            assert_eq!(result.files.unreadable, 0);
            let size = &result.block_sizes[0];
            assert!(size.blocks >= 2999);
            assert_eq!(size.distinct + size.duplicates, size.blocks);
            let copies: u64 =
                size.distribution.iter().map(|[duplicates, n]| (duplicates + 1) * n).sum();
            assert_eq!(copies, size.blocks);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(still.exists());
}

#[test]
fn a_deep_tree_is_walked_to_its_end() {
    let data = Data::new();
    let mut path = data.root().to_owned();
    for _ in 0..300 {
        path.push("d");
        fs::create_dir(&path).unwrap();
    }
    fs::write(path.join("leaf"), b"x").unwrap();
    let result = scanned(data.request());
    assert_eq!((result.files.directories, result.files.files), (301, 1));
}
