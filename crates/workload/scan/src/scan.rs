//! A scan from its options to its result: starts the walk and the readers, and turns their counts
//! into figures.

use crate::error::ScanError;
use crate::estimate::SampleScale;
use crate::fingerprint::ScanFingerprint;
use crate::halt::Halt;
use crate::locality::LocalitySample;
use crate::nature::{Nature, NatureSample};
use crate::options::ScanOptions;
use crate::plan;
use crate::read::{Queue, ReaderCounts, Session, SizeCounts, SizeState, Worker};
use crate::result::{BlockSizeResult, Effort, FileCounts, PoolPrediction, ScanResult};
use crate::saved::{Saved, SavedSetError, Saving, SetHead, SizeHead};
use crate::set::{self, ContentLocation, CountingSet, locked};
use crate::sharing::sharing_result;
use crate::tally::{Row, Tally};
use crate::trouble::Troubles;
use crate::walk::{Mounts, Root, RootKind, WalkCounts, Walker, raise_open_files, roots_of};
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock, Unit};
use gemelo_format::Compression;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Scans the paths of the options.
///
/// Problems with single files are reported to `monitor` and counted, and they do not stop the scan.
/// After `stop` is raised, the result covers the data that was read by then, and
/// [`ScanResult::partial`] is set.
///
/// # Errors
/// Fails if a path cannot be scanned at all, if threads cannot be started, or if a temporary file
/// cannot be read back.
pub fn scan(
    options: &ScanOptions,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<ScanResult, ScanError> {
    scan_and_save(options, None, monitor, stop).map(|saved| saved.result)
}

/// Scans the paths of the options and writes the fingerprint set to `save`, which must be an empty
/// file opened for reading and writing.
///
/// # Errors
/// Fails as [`scan`], and if the options ask for an estimate. If the set cannot be written,
/// [`Saved::set`] holds the error.
pub fn scan_and_save(
    options: &ScanOptions,
    save: Option<&File>,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Saved, ScanError> {
    let clock = SystemClock::new();
    raise_open_files();
    let roots = roots_of(&options.request().paths)?;
    let is_estimate = matches!(options.request().counting, crate::Counting::Estimate { .. });
    if save.is_some() && is_estimate {
        return Err(SavedSetError::Estimate.into());
    }
    let read = read_all(options, &roots, monitor, stop)?;
    monitor.begin("adding up", Unit::Items, None);
    let mut saved = read.finish(options, save, stop)?;
    saved.result.effort.elapsed_ns = clock.now_ns();
    monitor.finish();
    Ok(saved)
}

/// The counts of all readers, before they are added up.
struct ReadData {
    partial: bool,
    files: FileCounts,
    counts: Vec<SizeCounts>,
    sizes: Vec<SizeState>,
    /// The bytes before each batch.
    batch_starts: Vec<u64>,
    /// The bytes of all batches.
    position_bytes: u64,
    /// The directories with figures of their own, by number.
    directories: Vec<PathBuf>,
}

fn read_all(
    options: &ScanOptions,
    roots: &[Root],
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<ReadData, ScanError> {
    let halt = Halt::new(stop);
    let queue = Queue::new(&halt);
    let troubles = Troubles::new(monitor);
    let walk = WalkCounts::default();
    let sizes: Vec<SizeState> =
        options.request().block_bytes.iter().map(|size| SizeState::new(options, *size)).collect();
    let links = Mutex::new(HashSet::new());
    let mounts = Mounts::of(roots);
    let batch_bytes = Mutex::new(Vec::new());
    let session = Session {
        options,
        monitor,
        halt: &halt,
        queue: &queue,
        troubles: &troubles,
        walk: &walk,
        sizes: &sizes,
        links: &links,
        mounts: &mounts,
        batch_bytes: &batch_bytes,
    };
    monitor.begin("reading", Unit::Bytes, known_total(roots));
    let (counted, directories) = run_threads(&session, roots)?;
    if let Some(error) = halt.take_failure() {
        monitor.warn(&format!(
            "the scan ended early, and its figures cover only the data that was read: \
             cannot write a temporary file: {error}"
        ));
    }
    let mut files = FileCounts {
        files: counted.files,
        directories: walk.directories.load(Ordering::Relaxed),
        data_bytes: counted.data_bytes,
        hole_bytes: counted.hole_bytes,
        hard_links_skipped: counted.hard_links_skipped,
        symbolic_links_skipped: walk.symbolic_links.load(Ordering::Relaxed),
        special_skipped: walk.special.load(Ordering::Relaxed),
        excluded: walk.excluded.load(Ordering::Relaxed),
        other_file_systems_skipped: walk.other_file_systems.load(Ordering::Relaxed),
        repeated_directories_skipped: walk.repeated.load(Ordering::Relaxed),
        ..FileCounts::default()
    };
    (files.unreadable, files.changed) = (troubles.unreadable_count(), troubles.changed_count());
    let mut position_bytes: u64 = 0;
    let batch_starts = locked(&batch_bytes)
        .iter()
        .map(|bytes| {
            let start = position_bytes;
            position_bytes = position_bytes.saturating_add(*bytes);
            start
        })
        .collect();
    let partial = halt.is_raised();
    let counts = counted.sizes;
    Ok(ReadData { partial, files, counts, sizes, batch_starts, position_bytes, directories })
}

/// Returns the bytes of all paths, if they are known without a walk.
fn known_total(roots: &[Root]) -> Option<u64> {
    let are_files = roots.iter().all(|root| root.kind != RootKind::Directory);
    are_files.then(|| roots.iter().fold(0, |sum: u64, root| sum.saturating_add(root.size_bytes)))
}

/// Runs the walk and the readers. Returns all counts, and the directories by number.
fn run_threads(
    session: &Session<'_>,
    roots: &[Root],
) -> Result<(ReaderCounts, Vec<PathBuf>), ScanError> {
    // The threads that did start would otherwise wait for work for ever.
    let failed = |source: io::Error| {
        session.halt.fail(io::Error::from(source.kind()));
        ScanError::Thread { source }
    };
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    std::thread::scope(|scope| {
        let mut readers = Vec::new();
        for _ in 0..session.options.budget().threads() {
            let reader = thread("reader").spawn_scoped(scope, || {
                let _guard = HaltOnPanic(session.halt);
                Worker::new(session).run()
            });
            readers.push(reader.map_err(failed)?);
        }
        if session.options.request().find_total && known_total(roots).is_none() {
            let total = thread("total").spawn_scoped(scope, || plan::tell_total(session, roots));
            drop(total.map_err(failed)?);
        }
        let mut walker = Walker::new(
            session.options,
            session.walk,
            session.troubles,
            session.halt,
            session.mounts,
        );
        let _ended_early = walker.walk(roots, &mut |batch| session.queue.send(batch));
        session.queue.end_walk();
        let mut all = ReaderCounts::default();
        for reader in readers {
            match reader.join() {
                Ok(counted) => all.add(&counted),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok((all, walker.directories.into_paths()))
    })
}

/// Ends the scan if a thread panics, so that no other thread waits for it.
struct HaltOnPanic<'scan>(&'scan Halt);

impl Drop for HaltOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(io::Error::other("a reading thread panicked"));
        }
    }
}

impl ReaderCounts {
    fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.data_bytes = self.data_bytes.saturating_add(other.data_bytes);
        self.hole_bytes = self.hole_bytes.saturating_add(other.hole_bytes);
        self.hard_links_skipped += other.hard_links_skipped;
        self.sizes.resize_with(other.sizes.len(), SizeCounts::default);
        for (sum, part) in self.sizes.iter_mut().zip(&other.sizes) {
            sum.add(part);
        }
    }
}

/// One block size, with all its counts and samples.
struct ReadySize<'options> {
    options: &'options ScanOptions,
    block_bytes: u32,
    counts: SizeCounts,
    set: CountingSet,
    nature: NatureSample,
    locality: LocalitySample,
}

impl ReadData {
    fn finish(
        self,
        options: &ScanOptions,
        save: Option<&File>,
        stop: &StopFlag,
    ) -> Result<Saved, ScanError> {
        let request = options.request();
        let mut effort = Effort::default();
        let mut found_sharing = None;
        let ready: Vec<ReadySize<'_>> = self
            .sizes
            .into_iter()
            .zip(self.counts)
            .map(|(state, counts)| {
                effort.table_bytes += state.set.peak_bytes();
                effort.spilled_bytes += state.set.spilled_bytes();
                let sharing = state.sharing.map(|sampler| {
                    let (sample, totals) = (sampler.finish(), &counts.directories);
                    sharing_result(state.block_bytes, &sample, &self.directories, totals)
                });
                found_sharing = found_sharing.take().or(sharing);
                ReadySize {
                    options,
                    block_bytes: state.block_bytes,
                    counts,
                    set: state.set,
                    nature: state.nature.measure(
                        options.budget().threads(),
                        (state.block_bytes, &request.compression),
                        stop,
                    ),
                    locality: state.locality.finish(&self.batch_starts),
                }
            })
            .collect();
        let head = SetHead {
            partial: self.partial,
            fingerprint: request.fingerprint,
            tail: request.tail,
            files: self.files,
            position_bytes: self.position_bytes,
            sizes: ready.iter().map(ReadySize::head).collect(),
        };
        let mut saving = Saving::begin(save);
        let block_sizes = ready
            .into_iter()
            .map(|size| size.finish(&mut saving))
            .collect::<Result<Vec<_>, _>>()?;
        let result = ScanResult {
            partial: self.partial,
            fingerprint: request.fingerprint,
            tail: request.tail,
            files: self.files,
            effort,
            block_sizes,
            sharing: found_sharing,
        };
        Ok(Saved { result, set: saving.finish(&head) })
    }
}

impl ReadySize<'_> {
    fn head(&self) -> SizeHead {
        SizeHead {
            block_bytes: self.block_bytes,
            totals: self.counts.totals,
            nature_level: self.nature.level,
            locality_level: self.locality.level,
        }
    }

    fn finish(mut self, saving: &mut Saving<'_>) -> Result<BlockSizeResult, ScanError> {
        let max_measured = self.options.budget().nature_contents(self.block_bytes);
        let mut tally = Tally::new(self.block_bytes, max_measured);
        tally.raise_levels(self.nature.level, self.locality.level);
        let (below, scale) = sample_scale(&self.set);
        let mut zeros = self.zero_rows();
        let mut places = self.set.candidates.places().into_iter().peekable();
        let mut natures = self.nature.contents.iter().copied().peekable();
        let mut localities = std::mem::take(&mut self.locality.contents).into_iter().peekable();
        let mut take_up = |row: Row| {
            tally.add(&row);
            saving.add(self.block_bytes, &row);
        };
        let joined = self.set.for_each(|counted| -> Result<(), io::Error> {
            if counted.fingerprint.low >= below && scale.is_some_and(|scale| scale.share < 1.0) {
                return Ok(());
            }
            while let Some(zero) = zeros.pop_if(|zero| zero.fingerprint < counted.fingerprint) {
                take_up(zero);
            }
            let row = join(counted, &mut places, &mut natures, &mut localities);
            take_up(row);
            Ok(())
        });
        joined.map_err(|error| spilled(error, self.options))?;
        while let Some(zero) = zeros.pop() {
            take_up(zero);
        }
        let result = tally.finish(&self.counts.totals, scale);
        Ok(BlockSizeResult { pools: self.pools(&result), ..result })
    }

    /// Predicts the blocks of a pool for each compression. It stores no zeros.
    fn pools(&self, result: &BlockSizeResult) -> Vec<PoolPrediction> {
        let request = self.options.request();
        let physical_blocks = result.distinct;
        let pairs = request.compression.iter().zip(&self.nature.stored_shares);
        let sampled_contents = self.nature.contents.len() as u64;
        // A scan that was stopped before it compressed anything predicts nothing.
        let is_known = sampled_contents > 0 || physical_blocks == 0;
        let prediction = |(compression, share): (&Compression, &f64)| PoolPrediction {
            compression: *compression,
            physical_blocks,
            used_blocks: is_known.then(|| (physical_blocks as f64 * share).round() as u64),
            stored_share: is_known.then_some(*share),
            sampled_contents,
        };
        pairs.map(prediction).collect()
    }

    /// Returns the rows of the zero contents, in descending order of fingerprints.
    fn zero_rows(&self) -> Vec<Row> {
        let kind = self.options.request().fingerprint;
        let bytes = vec![0; self.block_bytes as usize];
        let row = |(length, copies): (&u32, &u64)| Row {
            fingerprint: kind.of(bytes.get(..*length as usize).unwrap_or(&bytes)),
            length_bytes: *length,
            copies: *copies,
            zero: true,
            place: None,
            nature: None,
            positions: Vec::new(),
        };
        let mut rows: Vec<Row> = self.counts.zeros.iter().map(row).collect();
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.fingerprint));
        rows
    }
}

/// Returns the error for a temporary file that cannot be read back.
fn spilled(source: io::Error, options: &ScanOptions) -> ScanError {
    let directory = options.request().spill_directory.clone().unwrap_or_else(std::env::temp_dir);
    ScanError::Spill { directory, source }
}

/// Returns the limit of the sample in the last 64 bits of the fingerprint (exclusive), and the
/// share of all contents that is in the sample; `None` if the set was not limited to a sample.
pub(crate) fn sample_scale(set: &CountingSet) -> (u64, Option<SampleScale>) {
    let Some(limit) = &set.sample else { return (u64::MAX, None) };
    let mut lows = set.lows();
    let contents = usize::try_from(limit.contents()).unwrap_or(usize::MAX);
    let has_everything = limit.highest_low() == u64::MAX && lows.len() <= contents;
    if has_everything || lows.is_empty() {
        return (u64::MAX, Some(SampleScale { share: 1.0 }));
    }
    let last = contents.min(lows.len()) - 1;
    let (_, &mut below, _) = lows.select_nth_unstable(last);
    (below, Some(SampleScale { share: (below as f64 / 2f64.powi(64)).max(f64::MIN_POSITIVE) }))
}

type Sorted<Value> = std::iter::Peekable<std::vec::IntoIter<(ScanFingerprint, Value)>>;

/// Combines a counted content with its values in the samples, which are in the same order.
fn join(
    counted: set::Counted,
    places: &mut Sorted<ContentLocation>,
    natures: &mut std::iter::Peekable<impl Iterator<Item = (ScanFingerprint, Nature)>>,
    localities: &mut Sorted<Vec<u64>>,
) -> Row {
    let fingerprint = counted.fingerprint;
    while places.next_if(|(other, _)| *other < fingerprint).is_some() {}
    while natures.next_if(|(other, _)| *other < fingerprint).is_some() {}
    while localities.next_if(|(other, _)| *other < fingerprint).is_some() {}
    Row {
        fingerprint,
        length_bytes: counted.length_bytes,
        copies: counted.copies,
        zero: false,
        place: places.next_if(|(other, _)| *other == fingerprint).map(|(_, place)| place),
        nature: natures.next_if(|(other, _)| *other == fingerprint).map(|(_, nature)| nature),
        positions: localities
            .next_if(|(other, _)| *other == fingerprint)
            .map_or_else(Vec::new, |(_, places)| places),
    }
}
