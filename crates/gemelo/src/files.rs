//! Reading and writing whole files, with errors that name them; an output file appears complete or not at all.

use crate::exit::{OrBadInput, bad_input};
use anyhow::{Context as _, anyhow};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Reads a text file that the user named.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display())).or_bad_input()
}

/// Refuses an output file that exists, before any work is done for it. `-` is standard output.
pub(crate) fn check_new(path: &Path, force: bool) -> anyhow::Result<()> {
    if path.as_os_str() == "-" || force {
        return Ok(());
    }
    if path.symlink_metadata().is_ok() {
        return Err(bad_input(anyhow!("{} exists: name another file, or say --force", path.display())));
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(bad_input(anyhow!("{} is not a folder: make it first", folder.display())));
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A temporary file that can become `path`.
pub(crate) fn temporary_beside(path: &Path) -> anyhow::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder_of(path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file through a temporary one beside it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if path.as_os_str() == "-" {
        return std::io::stdout().write_all(bytes).context("cannot write to standard output");
    }
    let context = || format!("cannot write {}", path.display());
    let mut file = temporary_beside(path)?;
    file.write_all(bytes).with_context(context)?;
    file.persist(path).with_context(context)?;
    Ok(())
}

/// A file that is written piece by piece, and is in its place only once it is finished.
pub(crate) enum NewFile {
    /// `-`
    StandardOutput,
    Beside(tempfile::NamedTempFile, PathBuf),
}

impl NewFile {
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::StandardOutput);
        }
        Ok(Self::Beside(temporary_beside(path)?, path.to_owned()))
    }

    /// Puts the file into its place.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::StandardOutput => std::io::stdout().flush().context("cannot write to standard output"),
            Self::Beside(file, path) => {
                file.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
                Ok(())
            }
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::StandardOutput => std::io::stdout().write(bytes),
            Self::Beside(file, _) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::StandardOutput => std::io::stdout().flush(),
            Self::Beside(file, _) => file.flush(),
        }
    }
}

/// Writes a result file, indented.
pub(crate) fn write_json<Input: Serialize, Measured: Serialize>(
    path: &Path,
    result: &gemelo_report::ResultFile<Input, Measured>,
) -> anyhow::Result<()> {
    write_whole(path, gemelo_report::to_json(result)?.as_bytes())
}
