//! Data to scan, and scans of it.

use gemelo_base::random::Random;
use gemelo_base::{Recorder, StopFlag};
use gemelo_scan::{ScanOptions, ScanRequest, ScanResult, scan};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A temporary directory with data to scan.
pub(crate) struct Data {
    directory: TempDir,
}

impl Data {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file, and creates the directories that contain it.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a file that is one hole except for the given data.
    pub(crate) fn sparse(&self, name: &str, length: u64, written: &[(u64, &[u8])]) -> PathBuf {
        let path = self.path(name);
        let file = File::create(&path).unwrap();
        file.set_len(length).unwrap();
        for (offset, bytes) in written {
            file.write_all_at(bytes, *offset).unwrap();
        }
        path
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn request(&self) -> ScanRequest {
        request(&[self.root()])
    }
}

pub(crate) fn request(paths: &[&Path]) -> ScanRequest {
    let paths = paths.iter().map(|path| path.to_path_buf()).collect();
    ScanRequest { paths, threads: 3, ..ScanRequest::default() }
}

pub(crate) fn scanned(request: ScanRequest) -> ScanResult {
    scanned_with(request, &Recorder::new())
}

pub(crate) fn scanned_with(request: ScanRequest, monitor: &Recorder) -> ScanResult {
    scan(&ScanOptions::new(request).unwrap(), monitor, &StopFlag::new()).unwrap()
}

/// Returns a block whose content depends only on its number.
pub(crate) fn block(number: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(number ^ 0x5eed);
    (0..length).map(|_| random.next_u64() as u8).collect()
}

/// Returns the blocks with these numbers. Number 0 is a block of zeros.
pub(crate) fn blocks(numbers: impl IntoIterator<Item = u64>, length: usize) -> Vec<u8> {
    let one = |number| if number == 0 { vec![0; length] } else { block(number, length) };
    numbers.into_iter().flat_map(one).collect()
}

/// Returns a result without the values that may differ between two scans of the same data: time,
/// memory, and the choice of a place.
pub(crate) fn comparable(result: &ScanResult) -> ScanResult {
    let mut result = result.clone();
    result.effort = gemelo_scan::Effort::default();
    for size in &mut result.block_sizes {
        for repeated in &mut size.max_repeated {
            repeated.place = None;
        }
    }
    result
}
