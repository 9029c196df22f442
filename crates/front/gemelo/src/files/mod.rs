//! Reading and writing of whole files, with errors that name the file. Every command writes its
//! results through this module.
//!
//! A result file appears complete or not at all: it is written under a temporary name in the same
//! directory, synchronised, and renamed. [`OutputPlace`] tells these files from devices, FIFOs and
//! descriptors, which are written directly and never replaced.

mod new_directory;
mod new_file;
mod outputs;
mod place;

pub(crate) use new_directory::NewDirectory;
pub(crate) use new_file::NewFile;
pub(crate) use outputs::NewFiles;

use crate::exit::{OrFailed as _, OrFailure as _, refused};
use gemelo_base::ShowPath as _;
use gemelo_disk::PoolPart;
use place::OutputPlace;
pub(crate) use place::Readers;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Reads a text file. An error is bad input, because the user named the file.
pub(crate) fn read_text(path: &Path) -> crate::Result<String> {
    std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {}", path.shown()))
        .or_bad_input()
}

/// Returns whether a name stands for standard output, as `-` and `/dev/stdout` do.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    matches!(OutputPlace::of(path), Ok(OutputPlace::StandardOutput))
}

/// Returns whether a name stands for a regular file, which is written whole or not at all.
pub(crate) fn is_file_place(path: &Path) -> bool {
    matches!(OutputPlace::of(path), Ok(OutputPlace::File { .. }))
}

/// Returns whether an option is present and names standard output.
pub(crate) fn is_some_standard_output(path: Option<&Path>) -> bool {
    path.is_some_and(is_standard_output)
}

/// Refuses an output that cannot be written, and without `force` one that exists. Called before any
/// work is done for the output.
pub(crate) fn check_new(path: &Path, force: bool) -> crate::Result<()> {
    OutputPlace::of(path)?.check(path, force)
}

/// Refuses a directory for results that is, or is in, the directory of a pool.
pub(crate) fn check_directory(path: &Path) -> crate::Result<()> {
    place::refuse_pool(path)
}

/// Refuses a place for a new pool in the directory of another one.
pub(crate) fn check_beside_pools(path: &Path) -> crate::Result<()> {
    match gemelo_disk::pool_part(path) {
        Some(PoolPart::FileIn(_)) => place::refuse_pool(path),
        _ => Ok(()),
    }
}

/// Refuses outputs that cannot be written, and outputs of which two are the same file, because the
/// second would replace the first.
pub(crate) fn check_all_new<'a>(
    paths: impl IntoIterator<Item = &'a Path>,
    force: bool,
) -> crate::Result<()> {
    let mut taken = Vec::new();
    for path in paths {
        let place = OutputPlace::of(path)?;
        place.check(path, force)?;
        let Some(key) = place.key() else { continue };
        if taken.contains(&key) {
            let path = path.shown();
            return Err(refused!(
                "two results would be written to {path}: give each a file of its own"
            ));
        }
        taken.push(key);
    }
    Ok(())
}

/// Writes a file as a whole.
pub(crate) fn write_whole(path: &Path, force: bool, bytes: &[u8]) -> crate::Result<()> {
    let mut file = NewFile::create(path, force)?;
    file.write_all(bytes).with_context(|| format!("cannot write {}", path.shown()))?;
    file.finish()
}

/// Writes a result file as indented JSON.
pub(crate) fn write_json(path: &Path, force: bool, result: &impl Serialize) -> crate::Result<()> {
    write_whole(path, force, gemelo_record::to_json(result).or_failed()?.as_bytes())
}
