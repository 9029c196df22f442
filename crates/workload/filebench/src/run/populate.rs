//! Creates the files of filesets before a run.

use super::data::write_at;
use super::error::WorkloadError;
use super::fileset::Fileset;
use gemelo_base::random::{Random, mix_pair};
use gemelo_base::threads::together;
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock};
use rustix::fs::{Mode, OFlags};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Bytes of one write.
const CHUNK_BYTES: usize = 1 << 20;
/// Threads for a `paralloc` fileset.
const PARALLEL_THREADS: usize = 8;
/// Number of the first data stream that fills files. Threads of the run count from 0.
pub(super) const FIRST_STREAM: u32 = 24_576;

/// The amounts written and the time spent on data.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Filled {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) generate_ns: u64,
}

struct Filler<'a> {
    fileset: &'a Fileset,
    /// Files in the order of their creation.
    files: &'a [usize],
    next: AtomicUsize,
    first_error: Mutex<Option<WorkloadError>>,
    total: Mutex<Filled>,
    monitor: &'a dyn Monitor,
    stop: &'a StopFlag,
    /// `true` if the tree existed before.
    reusing: bool,
}

/// Creates the share of the files and of the leaf directories that exists before the run.
pub(super) fn populate(
    fileset: &Fileset,
    seed: u64,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Filled, WorkloadError> {
    let mut random = Random::new(mix_pair(seed, 0x0066_696c_6c65));
    let share = fileset.spec.prealloc_percent / 100.0;
    let files = chosen(fileset.files.len(), share, &mut random);
    let bytes: u64 = files.iter().filter_map(|file| fileset.layout.sizes.get(*file)).sum();
    monitor.begin(&format!("making {}", fileset.spec.name), gemelo_base::Unit::Bytes, Some(bytes));
    let filler = Filler {
        fileset,
        files: &files,
        next: AtomicUsize::new(0),
        first_error: Mutex::new(None),
        total: Mutex::new(Filled::default()),
        monitor,
        stop,
        reusing: !fileset.is_ours(),
    };
    let threads = if fileset.spec.paralloc { PARALLEL_THREADS.min(files.len().max(1)) } else { 1 };
    let next_number = AtomicU32::new(0);
    together(threads, || filler.work(next_number.fetch_add(1, Ordering::Relaxed)));
    for directory in chosen(fileset.leaf_dirs.len(), share, &mut random) {
        make_leaf_dir(fileset, directory)?;
    }
    monitor.finish();
    let error = filler.first_error.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let total = filler.total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    error.map_or(Ok(total), Err)
}

/// Returns a share of the numbers below `count`, in random order.
fn chosen(count: usize, share: f64, random: &mut Random) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        numbers.swap(last, random.below(last as u64 + 1) as usize);
    }
    numbers.truncate((count as f64 * share).round() as usize);
    numbers
}

fn make_leaf_dir(fileset: &Fileset, directory: usize) -> Result<(), WorkloadError> {
    let Some(entry) = fileset.layout.leaf_dirs.get(directory) else { return Ok(()) };
    let made = fileset.with_entry(*entry, |parent, name| {
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))
    });
    match made {
        Err(error) if error != rustix::io::Errno::EXIST => {
            Err(WorkloadError::path("make", fileset.path_of(*entry))(error.into()))
        }
        _ => {
            fileset.leaf_dirs.pick_from(false, directory, || true);
            fileset.leaf_dirs.release_created(directory, 0);
            Ok(())
        }
    }
}

impl Filler<'_> {
    fn work(&self, number: u32) {
        let mut stream =
            self.fileset.source.as_ref().map(|source| source.stream(FIRST_STREAM + number));
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut filled = Filled::default();
        let clock = SystemClock::new();
        while !self.stop.is_raised() {
            let Some(file) = self.files.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let mut fill = |buffer: &mut [u8]| {
                let Some(stream) = &mut stream else { return 0 };
                let begin_ns = clock.now_ns();
                stream.fill(buffer);
                clock.now_ns() - begin_ns
            };
            if let Err(error) = self.make(*file, &mut buffer, &mut fill, &mut filled) {
                super::signals::locked(&self.first_error).get_or_insert(error);
                self.next.store(self.files.len(), Ordering::Relaxed);
            }
        }
        let mut total = super::signals::locked(&self.total);
        total.files += filled.files;
        total.bytes += filled.bytes;
        total.generate_ns += filled.generate_ns;
    }

    fn make(
        &self,
        file: usize,
        buffer: &mut [u8],
        fill: &mut dyn FnMut(&mut [u8]) -> u64,
        filled: &mut Filled,
    ) -> Result<(), WorkloadError> {
        let (entry, size) = (self.fileset.layout.files[file], self.fileset.layout.sizes[file]);
        let failed = |what| {
            move |error: rustix::io::Errno| {
                WorkloadError::path(what, self.fileset.path_of(entry))(error.into())
            }
        };
        let is_trusted = self.reusing && self.fileset.spec.trust_tree;
        if !is_trusted && !self.reuse(file)? {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
            let handle = self
                .fileset
                .with_entry(entry, |directory, name| {
                    rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o644))
                })
                .map_err(failed("make"))?;
            let mut written = 0;
            while written < size && !self.stop.is_raised() {
                let part = (size - written).min(CHUNK_BYTES as u64) as usize;
                filled.generate_ns += fill(&mut buffer[..part]);
                write_at(&handle, &buffer[..part], written).map_err(failed("write"))?;
                written += part as u64;
                self.monitor.advance(part as u64);
            }
            filled.bytes += written;
            if !self.fileset.spec.cached {
                rustix::fs::fdatasync(&handle).map_err(failed("write"))?;
                rustix::fs::fadvise(&handle, 0, None, rustix::fs::Advice::DontNeed)
                    .map_err(failed("write"))?;
            }
        }
        filled.files += 1;
        self.fileset.files.pick_from(false, file, || true);
        self.fileset.files.release_created(file, 0);
        Ok(())
    }

    /// Returns whether the file exists with its planned size. A larger file is truncated.
    fn reuse(&self, file: usize) -> Result<bool, WorkloadError> {
        if !self.reusing {
            return Ok(false);
        }
        let (entry, size) = (self.fileset.layout.files[file], self.fileset.layout.sizes[file]);
        let flags = if self.fileset.spec.read_only { OFlags::RDONLY } else { OFlags::RDWR }
            | OFlags::CLOEXEC;
        let opened = self.fileset.with_entry(entry, |directory, name| {
            rustix::fs::openat(directory, name, flags, Mode::empty())
        });
        let Ok(handle) = opened else { return Ok(false) };
        let failed = |error: rustix::io::Errno| {
            WorkloadError::path("reuse", self.fileset.path_of(entry))(error.into())
        };
        let found = rustix::fs::fstat(&handle).map_err(failed)?.st_size as u64;
        if found > size {
            rustix::fs::ftruncate(&handle, size).map_err(failed)?;
        }
        Ok(found >= size)
    }
}
