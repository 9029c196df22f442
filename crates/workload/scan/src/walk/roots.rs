//! The paths that the user gave: their types, and the check that none lies in another.

use crate::error::ScanError;
use rustix::fs::FileType;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootKind {
    File,
    Directory,
    BlockDevice,
}

/// A path that the user gave.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    pub(crate) kind: RootKind,
    /// The file system that contains the path.
    pub(crate) device: u64,
    /// The listed size in bytes; 0 for directories.
    pub(crate) size_bytes: u64,
}

/// Examines every path, following symbolic links.
pub(crate) fn roots_of(paths: &[PathBuf]) -> Result<Vec<Root>, ScanError> {
    let roots: Vec<Root> = paths.iter().map(|path| root_of(path)).collect::<Result<_, _>>()?;
    let mut canonical: Vec<(PathBuf, &Path)> = roots
        .iter()
        .map(|root| {
            (root.path.canonicalize().unwrap_or_else(|_| root.path.clone()), root.path.as_path())
        })
        .collect();
    canonical.sort();
    // Paths are ordered by components, so the paths within a path follow it directly.
    let mut around: Option<&(PathBuf, &Path)> = None;
    for next in &canonical {
        match around {
            Some(outer) if next.0.starts_with(&outer.0) => {
                return Err(ScanError::Overlap {
                    inner: next.1.to_owned(),
                    outer: outer.1.to_owned(),
                });
            }
            _ => around = Some(next),
        }
    }
    Ok(roots)
}

fn root_of(path: &Path) -> Result<Root, ScanError> {
    let fail =
        |error: rustix::io::Errno| ScanError::Path { path: path.to_owned(), source: error.into() };
    let stat = rustix::fs::stat(path).map_err(fail)?;
    let wrong = |kind| Err(ScanError::Kind { path: path.to_owned(), kind });
    let (kind, size_bytes) = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => (RootKind::File, u64::try_from(stat.st_size).unwrap_or(0)),
        FileType::Directory => (RootKind::Directory, 0),
        FileType::BlockDevice => (RootKind::BlockDevice, device_bytes(path).map_err(fail)?),
        FileType::Fifo => return wrong("pipe"),
        FileType::Socket => return wrong("socket"),
        FileType::CharacterDevice => return wrong("character device"),
        _ => return wrong("special file"),
    };
    Ok(Root { path: path.to_owned(), kind, device: stat.st_dev, size_bytes })
}

fn device_bytes(path: &Path) -> rustix::io::Result<u64> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let device = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_one_another_and_special_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let beside = directory.path().join("inner.x");
        std::fs::write(&beside, b"x").unwrap();
        let roots = roots_of(&[beside.clone(), inner.clone()]).unwrap();
        assert_eq!((roots[0].kind, roots[0].size_bytes), (RootKind::File, 1));
        assert_eq!(roots[1].kind, RootKind::Directory);
        for paths in [[inner.clone(), directory.path().to_owned()], [inner.clone(), inner.clone()]]
        {
            assert!(matches!(roots_of(&paths), Err(ScanError::Overlap { .. })));
        }
        let null = roots_of(&[PathBuf::from("/dev/null")]).unwrap_err();
        assert!(null.to_string().contains("it is a character device"));
        assert!(matches!(roots_of(&[directory.path().join("none")]), Err(ScanError::Path { .. })));
    }
}
