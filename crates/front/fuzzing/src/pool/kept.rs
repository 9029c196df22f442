//! The pools that are kept for ever, in `crates/front/gemelo/tests/kept/pools`, as samples.

use super::sample::{DataImage, Sample, selected_of};
use crate::disk::{BLOCK_BYTES, disk_of};
use anyhow::{Context as _, ensure};
use gemelo_base::ShowPath as _;
use gemelo_disk::Disk;
use gemelo_disk::testing::SyntheticDisk;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The pool with an unknown incompatible feature, of which a program reads the head alone.
const UNREADABLE: &str = "incompatible";

static KEPT: LazyLock<Vec<Sample>> =
    LazyLock::new(|| archives().iter().filter_map(|archive| unpacked(archive).ok()).collect());

/// The archives of the pools that this program can read, by name.
pub(super) fn archives() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gemelo/tests/kept/pools");
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_readable = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| !name.as_encoded_bytes().starts_with(UNREADABLE.as_bytes()))
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut archives: Vec<PathBuf> = paths.filter(is_readable).collect();
    archives.sort();
    archives
}

/// Returns the samples. There are none without `tar` and `zstd`.
pub(super) fn samples() -> &'static [Sample] {
    &KEPT
}

/// Splits an input into the kept pool that its first byte selects, and the rest.
pub(super) fn selected(bytes: &[u8]) -> Option<(&'static Sample, &[u8])> {
    selected_of(&KEPT, bytes)
}

fn unpacked(archive: &Path) -> anyhow::Result<Sample> {
    let directory = tempfile::tempdir()?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--sparse", "--no-same-owner", "--use-compress-program", "zstd -d"]);
    tar.arg("--file").arg(archive).arg("--directory").arg(directory.path());
    ensure!(tar.status()?.success(), "{}", archive.shown());
    let read = |name| std::fs::read(directory.path().join(name)).context(name);
    let (data, metadata) = (read("data")?, disk_of(read("metadata")?));
    let disk = SyntheticDisk::new(BLOCK_BYTES);
    for (number, block) in data.chunks_exact(BLOCK_BYTES).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            disk.write_at((number * BLOCK_BYTES) as u64, block)?;
        }
    }
    disk.set_len(data.len() as u64)?;
    let image = DataImage::of(&disk, 0..(data.len() / BLOCK_BYTES) as u64)?;
    Sample::of(image, &metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kept_pool_is_a_sample() {
        if ["tar", "zstd"].into_iter().all(gemelo_tools::has_tool) {
            assert_eq!(samples().len(), archives().len());
            assert!(samples().len() >= 13);
        }
    }
}
