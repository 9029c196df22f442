//! Data to scan, and scans of it.

use gemelo_base::random::Random;
use gemelo_base::{Recorder, StopFlag};
use gemelo_scan::{ScanOptions, ScanRequest, ScanResult, scan};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder to scan.
pub(crate) struct Data {
    folder: TempDir,
}

impl Data {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, with the folders it is in.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// A file that is all hole but for what is written into it.
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
        self.folder.path()
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

/// A block that only its number makes.
pub(crate) fn block(number: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(number ^ 0x5eed);
    (0..length).map(|_| random.next_u64() as u8).collect()
}

/// Blocks by their numbers, 0 being zeros.
pub(crate) fn blocks(numbers: impl IntoIterator<Item = u64>, length: usize) -> Vec<u8> {
    let one = |number| if number == 0 { vec![0; length] } else { block(number, length) };
    numbers.into_iter().flat_map(one).collect()
}

/// A result without what may differ between two scans of the same: time, memory, and which of several places.
pub(crate) fn comparable(result: &ScanResult) -> ScanResult {
    let mut result = result.clone();
    result.effort = gemelo_scan::Effort::default();
    for size in &mut result.block_sizes {
        for repeated in &mut size.most_repeated {
            repeated.place = None;
        }
    }
    result
}
