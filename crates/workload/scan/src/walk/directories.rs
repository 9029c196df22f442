//! The directories for which a scan reports figures of their own: those down to a depth below the
//! given paths. Files further down count with the nearest of them.

use std::path::{Path, PathBuf};

/// The most directories with figures of their own. Those that are found later count with the one
/// above them.
const MAX_DIRECTORIES: usize = 10_000;

/// The number of a directory, or of a path that the user gave.
pub(crate) type DirectoryNumber = u32;

/// The list of the directories, in the order in which they are found.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    /// The depth below the given paths; `None` if nothing is reported by directory.
    depth: Option<u32>,
    paths: Vec<PathBuf>,
}

impl Directories {
    pub(crate) fn new(depth: Option<u32>) -> Self {
        Self { depth, paths: Vec::new() }
    }

    /// Adds a path that the user gave.
    pub(super) fn root(&mut self, path: &Path) -> DirectoryNumber {
        if self.depth.is_none() { 0 } else { self.add(path) }
    }

    /// Adds a directory that lies `level` steps below a given path, if it has figures of its own.
    /// Returns the number with which its files count.
    pub(super) fn below(
        &mut self,
        parent: DirectoryNumber,
        level: u32,
        path: &Path,
    ) -> DirectoryNumber {
        let is_listed = self.depth.is_some_and(|depth| level <= depth);
        if is_listed && self.paths.len() < MAX_DIRECTORIES { self.add(path) } else { parent }
    }

    fn add(&mut self, path: &Path) -> DirectoryNumber {
        self.paths.push(path.to_owned());
        DirectoryNumber::try_from(self.paths.len() - 1).unwrap_or(DirectoryNumber::MAX)
    }

    /// Returns the paths by number.
    pub(crate) fn into_paths(self) -> Vec<PathBuf> {
        self.paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_below_the_depth_count_with_the_one_above() {
        let mut directories = Directories::new(Some(1));
        let root = directories.root(Path::new("/a"));
        let child = directories.below(root, 1, Path::new("/a/b"));
        let grandchild = directories.below(child, 2, Path::new("/a/b/c"));
        assert_eq!((root, child, grandchild), (0, 1, 1));
        for number in 0..2 * MAX_DIRECTORIES {
            directories.below(root, 1, &PathBuf::from(format!("/a/{number}")));
        }
        let late = directories.below(root, 1, Path::new("/a/late"));
        assert_eq!(late, root);
        assert_eq!(directories.into_paths().len(), MAX_DIRECTORIES);
    }
}
