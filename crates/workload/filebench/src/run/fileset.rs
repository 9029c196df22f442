//! A fileset on disk: its directories, the access to its files, and their removal.

use super::error::WorkloadError;
use super::layout::{Entry, Layout, Name};
use super::pool::Pool;
use crate::model::FilesetSpec;
use crate::sources::DataSource;
use gemelo_base::FileIdentity;
use rustix::fs::{CWD, Mode, OFlags};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;

/// Longest path below a fileset: 64 directories of at most 11 bytes, and a name.
const LONGEST_PATH: usize = 64 * 11 + 16;

/// A fileset in use by threads.
pub(super) struct Fileset {
    pub(super) spec: FilesetSpec,
    pub(super) layout: Layout,
    pub(super) files: Pool,
    pub(super) leaf_dirs: Pool,
    /// Number of the next directory for listdir.
    pub(super) directory_rotor: AtomicU32,
    pub(super) source: Option<Box<dyn DataSource>>,
    /// Directory of the fileset.
    pub(super) root: PathBuf,
    root_handle: Option<OwnedFd>,
    /// Handles of directories, as many as the limits permit. They save the kernel the path look-up.
    handles: Vec<OwnedFd>,
    /// Paths of directories below the root, for those without a handle.
    paths: Vec<Box<[u8]>>,
    /// Directories above the root that the run created, the outermost first.
    parents_made: Vec<PathBuf>,
    /// The identity of the tree, if the run created it.
    ours: Option<FileIdentity>,
}

/// The existing content at the path of a fileset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExistingTree {
    Nothing,
    Tree,
}

impl Fileset {
    pub(super) fn new(spec: &FilesetSpec, seed: u64) -> Self {
        let layout = Layout::new(spec, seed);
        Self {
            files: Pool::new(layout.files.len()),
            leaf_dirs: Pool::new(layout.leaf_dirs.len()),
            directory_rotor: AtomicU32::new(0),
            source: None,
            root: spec.path.join(&spec.name),
            root_handle: None,
            handles: Vec::new(),
            paths: Vec::new(),
            parents_made: Vec::new(),
            ours: None,
            layout,
            spec: spec.clone(),
        }
    }

    /// Returns whether the run created the tree.
    pub(super) const fn is_ours(&self) -> bool {
        self.ours.is_some()
    }

    /// Returns whether an existing tree is used.
    pub(super) const fn reuses(&self) -> bool {
        self.spec.reuse || self.spec.trust_tree
    }

    /// Checks the path of a fileset and refuses content that must not be touched.
    pub(super) fn look(spec: &FilesetSpec, force: bool) -> Result<ExistingTree, WorkloadError> {
        let path = spec.path.join(&spec.name);
        gemelo_disk::check_no_pool(&path)?;
        let Ok(metadata) = std::fs::symlink_metadata(&path) else {
            return Ok(ExistingTree::Nothing);
        };
        let kind = metadata.file_type();
        if kind.is_block_device() || kind.is_char_device() {
            return Err(WorkloadError::Device { path });
        }
        let is_used = spec.reuse || spec.trust_tree;
        if kind.is_dir() && force && !is_used {
            // The whole tree is about to be removed.
            gemelo_disk::check_no_pool_below(&path)?;
        }
        let is_empty =
            || std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
        if kind.is_dir() && (is_used || force || is_empty()) {
            return Ok(ExistingTree::Tree);
        }
        Err(WorkloadError::Exists { path })
    }

    /// Creates the tree of directories, or opens the existing one.
    pub(super) fn open_tree(&mut self, force: bool, handles: usize) -> Result<(), WorkloadError> {
        let found = Self::look(&self.spec, force)?;
        let keep = found == ExistingTree::Tree && self.reuses();
        if found == ExistingTree::Tree && !keep {
            // Without `force` the tree is empty, unless somebody has just put a file into it.
            let remove = if force { std::fs::remove_dir_all } else { std::fs::remove_dir };
            remove(&self.root).map_err(WorkloadError::path("remove", &self.root))?;
        }
        self.make_parents()?;
        if !keep {
            std::fs::create_dir(&self.root).map_err(WorkloadError::path("make", &self.root))?;
            self.ours = FileIdentity::at(&self.root).ok();
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, &self.root, flags, Mode::empty())
            .map_err(|error| WorkloadError::path("open", &self.root)(error.into()))?;
        for directory in 0..self.layout.directories.len() as u32 {
            let path = self.layout.directory_path(directory);
            if directory != 0 {
                let made = rustix::fs::mkdirat(&root, path.as_str(), Mode::from_raw_mode(0o755));
                if let Err(error) = made
                    && error != rustix::io::Errno::EXIST
                {
                    return Err(WorkloadError::path("make", self.root.join(&path))(error.into()));
                }
            }
            if self.handles.len() < handles {
                let target = if directory == 0 { "." } else { path.as_str() };
                let handle =
                    rustix::fs::openat(&root, target, flags, Mode::empty()).map_err(|error| {
                        WorkloadError::path("open", self.root.join(&path))(error.into())
                    })?;
                self.handles.push(handle);
            }
            self.paths.push(path.into_bytes().into());
        }
        self.root_handle = Some(root);
        Ok(())
    }

    fn make_parents(&mut self) -> Result<(), WorkloadError> {
        let mut missing: Vec<PathBuf> = self
            .spec
            .path
            .ancestors()
            .take_while(|ancestor| !ancestor.as_os_str().is_empty() && !ancestor.exists())
            .map(Path::to_path_buf)
            .collect();
        missing.reverse();
        std::fs::create_dir_all(&self.spec.path)
            .map_err(WorkloadError::path("make", &self.spec.path))?;
        self.parents_made = missing;
        Ok(())
    }

    /// Calls `act` with the handle of a directory and the name of an entry in it, without
    /// allocating.
    #[inline]
    pub(super) fn with_entry<T>(
        &self,
        entry: Entry,
        act: impl FnOnce(BorrowedFd<'_>, &CStr) -> T,
    ) -> T {
        let name = Name::new(entry.serial);
        if let Some(handle) = self.handles.get(entry.directory as usize) {
            return act(handle.as_fd(), name.as_c_str());
        }
        self.with_path(entry.directory, name.as_c_str().to_bytes(), act)
    }

    /// Calls `act` with the handle of the root and the path of an entry.
    fn with_path<T>(
        &self,
        directory: u32,
        name: &[u8],
        act: impl FnOnce(BorrowedFd<'_>, &CStr) -> T,
    ) -> T {
        let mut bytes = [0u8; LONGEST_PATH];
        let path: &[u8] = self.paths.get(directory as usize).map_or(&[], |path| path);
        let parts = path.iter().chain(name);
        for (place, byte) in bytes[..LONGEST_PATH - 1].iter_mut().zip(parts) {
            *place = *byte;
        }
        let path = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        act(self.root_handle.as_ref().map_or(CWD, AsFd::as_fd), path)
    }

    /// Opens a directory to read its entries.
    pub(super) fn open_directory(&self, directory: u32) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.with_path(directory, b".", |root, path| {
            rustix::fs::openat(root, path, flags, Mode::empty())
        })
    }

    /// Returns the path of a file, for messages.
    pub(super) fn path_of(&self, entry: Entry) -> PathBuf {
        self.root
            .join(self.layout.directory_path(entry.directory))
            .join(format!("{:08}", entry.serial))
    }

    /// Removes the tree that the run created, unless the script reuses it.
    pub(super) fn clean_up(&mut self) -> Result<(), WorkloadError> {
        self.handles.clear();
        self.root_handle = None;
        let Some(made) = self.ours.take().filter(|_| !self.reuses()) else { return Ok(()) };
        if !made.is_at(&self.root) {
            return Ok(());
        }
        std::fs::remove_dir_all(&self.root).map_err(WorkloadError::path("remove", &self.root))?;
        for parent in self.parents_made.drain(..).rev() {
            // A directory is kept if another program has put a file into it.
            let _ = std::fs::remove_dir(parent);
        }
        Ok(())
    }
}
