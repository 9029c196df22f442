//! Copies volumes from and to files, devices and streams, and skips zeros. A few threads copy, each
//! with one piece in flight.

mod hashes;
mod pieces;
mod salvage;
mod sink;
mod source;

use gemelo_base::threads::together;
use gemelo_base::{Classified, Remedy, is_zero};
pub use hashes::{HashedVolume, PART_BYTES, RangeHash, UNIT_BYTES};
pub use salvage::{BadRange, BadRanges};
pub use sink::{OnBadBlock, Sink, export, exported_length};
pub use source::{Source, import};

use gemelo_device::{DeviceError, Operation, Request};
use schemars::JsonSchema;
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use thiserror::Error;

/// Bytes that are copied at once: the most that the engine executes at once, and a multiple of
/// every block size.
const PIECE_BYTES: usize = 4 << 20;

/// The result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize)]
pub struct Transferred {
    /// Length in bytes, zeros included.
    pub total_bytes: u64,
    /// Bytes that were written, without the zeros that were skipped.
    pub copied_bytes: u64,
}

/// The reason why a copy ended early.
#[derive(Debug, Error, Classified)]
#[kind(Failed)]
pub enum TransferError {
    /// The file, device or stream failed.
    #[kind(source)]
    #[error("cannot {action} at byte {offset}")]
    Outside {
        /// The failed action: "read" or "write".
        action: &'static str,
        /// First byte of the failed range.
        offset: u64,
        /// Error of the system.
        source: io::Error,
    },
    /// The volume failed.
    #[kind(source, midway, remedy = salvage)]
    #[error("cannot {action} the volume at byte {offset}")]
    Volume {
        /// The failed action: "read", "write", "map" or "flush".
        action: &'static str,
        /// First byte of the failed range.
        offset: u64,
        /// Error of the volume.
        source: DeviceError,
    },
    /// The input is longer than the volume.
    #[error("there is more to read than the volume's {size_bytes} bytes")]
    TooLong {
        /// Size of the volume in bytes.
        size_bytes: u64,
    },
    /// The user stopped the copy.
    #[error("stopped before the end")]
    Interrupted,
}

impl TransferError {
    fn salvage(&self) -> Option<Remedy> {
        matches!(self, Self::Volume { action: "read", .. }).then_some(Remedy::Salvage)
    }

    /// The first byte of the failed range. A copy that was stopped did not fail at any.
    const fn place(&self) -> u64 {
        match self {
            Self::Outside { offset, .. } | Self::Volume { offset, .. } => *offset,
            Self::TooLong { size_bytes } => *size_bytes,
            Self::Interrupted => u64::MAX,
        }
    }
}

/// Counters that all threads share.
#[derive(Default)]
struct Tally {
    total_bytes: AtomicU64,
    copied_bytes: AtomicU64,
}

impl Tally {
    fn copied(&self, bytes: u64) {
        self.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn reached(&self, end: u64) {
        self.total_bytes.fetch_max(end, Ordering::Relaxed);
    }

    fn sum(&self) -> Transferred {
        Transferred {
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            copied_bytes: self.copied_bytes.load(Ordering::Relaxed),
        }
    }
}

/// Returns the runs of blocks that are not zero: their places in the piece, and their bytes.
fn runs(piece: &[u8], block_bytes: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = piece.get(at..)?;
        let skipped: usize =
            rest.chunks(block_bytes).take_while(|block| is_zero(block)).map(<[u8]>::len).sum();
        let rest = rest.get(skipped..)?;
        let length: usize =
            rest.chunks(block_bytes).take_while(|block| !is_zero(block)).map(<[u8]>::len).sum();
        let start = at + skipped;
        at = start + length;
        (length > 0).then(|| rest.get(..length).map(|run| (start, run))).flatten()
    })
}

/// Returns the offset and the error of the first request that failed.
fn first_error(batch: Vec<Request<'_>>) -> Option<(u64, DeviceError)> {
    let offset = |operation: &Operation<'_>| match operation {
        Operation::Read { offset, .. }
        | Operation::Write { offset, .. }
        | Operation::WriteZeroes { offset, .. }
        | Operation::Trim { offset, .. } => *offset,
        Operation::Flush => 0,
    };
    batch.into_iter().find_map(|request| {
        let at = offset(&request.operation);
        request.outcome.err().map(|error| (at, error))
    })
}

/// Runs a worker for each of the things, or fewer that do several if the system grants no more
/// threads, and returns the error of the first place that failed.
///
/// Workers take their pieces in order, and each completes the piece that it has begun. So the first
/// piece that fails is always among theirs, whichever worker ends first.
fn run_workers<T: Sync>(
    things: &[T],
    work: impl Fn(&T) -> Result<(), TransferError> + Sync,
) -> Result<(), TransferError> {
    let next = AtomicUsize::new(0);
    let work_on_some = || {
        let mut failed = Vec::new();
        while let Some(thing) = things.get(next.fetch_add(1, Ordering::Relaxed)) {
            failed.extend(work(thing).err());
        }
        failed
    };
    let failed = together(things.len(), work_on_some).into_iter().flatten();
    failed.min_by_key(TransferError::place).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::{Recorder, StopFlag};
    use gemelo_device::{BlockDevice, Extent, Geometry};
    use proptest::prelude::*;
    use std::io::{Read, Seek, Write};
    use std::sync::Arc;

    #[test]
    fn runs_are_what_is_not_zero() {
        let mut piece = vec![0; 10 * 512 + 7];
        for block in [1, 2, 5, 10] {
            piece[block * 512] = 1;
        }
        let found: Vec<(usize, usize)> =
            runs(&piece, 512).map(|(at, run)| (at, run.len())).collect();
        assert_eq!(found, [(512, 1024), (2560, 512), (5120, 7)]);
        assert_eq!(runs(&[0; 1000], 512).count(), 0);
        assert_eq!(runs(&[], 512).count(), 0);
    }

    /// A device in memory that reports its extents a few at a time.
    struct Memory {
        bytes: parking_lot::Mutex<Vec<u8>>,
    }

    const BLOCK: usize = 4096;

    impl BlockDevice for Memory {
        fn geometry(&self) -> Geometry {
            Geometry {
                size_bytes: self.bytes.lock().len() as u64,
                minimum_block_bytes: 1,
                preferred_block_bytes: BLOCK as u32,
                maximum_request_bytes: 32 << 20,
                read_only: false,
            }
        }

        fn execute(&self, batch: &mut [Request<'_>]) {
            let mut bytes = self.bytes.lock();
            for request in batch {
                match &mut request.operation {
                    Operation::Read { offset, buffer } => {
                        buffer.copy_from_slice(&bytes[*offset as usize..][..buffer.len()]);
                    }
                    Operation::Write { offset, data, .. } => {
                        assert!(
                            data.chunks(BLOCK).all(|block| !is_zero(block)),
                            "zeros are skipped"
                        );
                        bytes[*offset as usize..][..data.len()].copy_from_slice(data);
                    }
                    _ => {}
                }
            }
        }

        fn extents(
            &self,
            offset: u64,
            length: u64,
            most: usize,
        ) -> Result<Vec<Extent>, DeviceError> {
            let bytes = self.bytes.lock();
            let range = &bytes[offset as usize..(offset + length) as usize];
            let blocks = range.chunks(BLOCK).map(|block| (block.len() as u64, is_zero(block)));
            let extents = blocks.map(|(length, zero)| Extent { length, allocated: !zero, zero });
            Ok(extents.take(most.min(7)).collect())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_file_comes_back_as_it_was(
            parts in prop::collection::vec((0usize..2500, 1usize..900, any::<u8>()), 0..8),
            length in 1usize..10_000_000,
            is_stream: bool,
        ) {
            let mut bytes = vec![0; length];
            for (block, blocks, value) in parts {
                let start = (block * BLOCK).min(length);
                bytes[start..(start + blocks * BLOCK).min(length)].fill(value);
            }
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let source = match is_stream {
                true => Source::Stream(Box::new(io::Cursor::new(bytes.clone()))),
                false => Source::File(file, length as u64),
            };
            let whole = length.next_multiple_of(BLOCK);
            let memory = Arc::new(Memory { bytes: parking_lot::Mutex::new(vec![0; whole]) });
            let devices: Vec<Arc<dyn BlockDevice>> = vec![memory.clone(), memory.clone()];
            let recorder = Recorder::new();
            let imported = import(source, &devices, &recorder, &StopFlag::new()).unwrap();
            bytes.resize(whole, 0);
            prop_assert!(*memory.bytes.lock() == bytes);
            prop_assert_eq!(imported.total_bytes, length as u64);
            let mut out = tempfile::tempfile().unwrap();
            let sink = Sink::NewFile(out.try_clone().unwrap());
            let (exported, bad) =
                export(&devices, length as u64, sink, OnBadBlock::Fail, &recorder, &StopFlag::new()).unwrap();
            prop_assert_eq!(bad, BadRanges::default());
            let mut back = Vec::new();
            out.rewind().unwrap();
            out.read_to_end(&mut back).unwrap();
            bytes.truncate(length);
            prop_assert!(back == bytes);
            prop_assert_eq!(exported.total_bytes, length as u64);
        }
    }

    /// It ends where a piece begins, where nothing is left to read but a hole.
    #[test]
    fn a_file_that_becomes_shorter_is_not_taken_for_one_with_a_hole() {
        let file = tempfile::tempfile().unwrap();
        let length = 2 * PIECE_BYTES as u64;
        file.set_len(length).unwrap();
        let memory = || Memory { bytes: parking_lot::Mutex::new(vec![0; length as usize]) };
        let import = |file| {
            let devices: [Arc<dyn BlockDevice>; 1] = [Arc::new(memory())];
            let source = Source::File(file, length);
            import(source, &devices, &Recorder::new(), &StopFlag::new())
        };
        assert_eq!(import(file.try_clone().unwrap()).unwrap().total_bytes, length);
        file.set_len(length / 2).unwrap();
        let ended = import(file);
        assert!(matches!(ended, Err(TransferError::Outside { action: "read", .. })), "{ended:?}");
    }

    /// A volume of ones with some unreadable blocks.
    struct Rotten {
        blocks: u64,
        bad: Vec<u64>,
    }

    impl BlockDevice for Rotten {
        fn geometry(&self) -> Geometry {
            Geometry {
                size_bytes: self.blocks * BLOCK as u64,
                minimum_block_bytes: 1,
                preferred_block_bytes: BLOCK as u32,
                maximum_request_bytes: 32 << 20,
                read_only: true,
            }
        }

        fn execute(&self, batch: &mut [Request<'_>]) {
            for request in batch {
                let Operation::Read { offset, buffer } = &mut request.operation else { continue };
                let read = *offset / BLOCK as u64..(*offset + buffer.len() as u64) / BLOCK as u64;
                buffer.fill(1);
                let bad = self.bad.iter().find(|bad| read.contains(bad));
                request.outcome = bad
                    .map_or(Ok(()), |bad| Err(DeviceError::Damaged { offset: bad * BLOCK as u64 }));
            }
        }

        fn extents(
            &self,
            _offset: u64,
            length: u64,
            _most: usize,
        ) -> Result<Vec<Extent>, DeviceError> {
            Ok(vec![Extent { length, allocated: true, zero: false }])
        }
    }

    #[test]
    fn a_bad_block_ends_an_export_and_costs_a_salvage_nothing_but_itself() {
        let bad = vec![0, 1, 1025, 3000];
        let rotten: Arc<dyn BlockDevice> = Arc::new(Rotten { blocks: 3001, bad: bad.clone() });
        let devices = vec![Arc::clone(&rotten), rotten];
        let run = |on_bad_block| {
            let mut out = tempfile::tempfile().unwrap();
            let sink = Sink::NewFile(out.try_clone().unwrap());
            let ended =
                export(&devices, u64::MAX, sink, on_bad_block, &Recorder::new(), &StopFlag::new());
            let mut bytes = Vec::new();
            out.rewind().unwrap();
            out.read_to_end(&mut bytes).unwrap();
            (ended, bytes)
        };
        let (ended, _) = run(OnBadBlock::Fail);
        assert!(matches!(ended, Err(TransferError::Volume { action: "read", .. })), "{ended:?}");
        let (ended, bytes) = run(OnBadBlock::Zeros);
        let ranges = ended.unwrap().1;
        let places: Vec<u64> =
            ranges.ranges.iter().map(|range| range.offset_bytes / BLOCK as u64).collect();
        assert_eq!((ranges.total_bytes, places), (4 * BLOCK as u64, vec![0, 1025, 3000]));
        for (block, found) in (0..).zip(bytes.chunks(BLOCK)) {
            let expected = u8::from(!bad.contains(&block));
            assert!(found.iter().all(|byte| *byte == expected), "block {block}");
        }
    }

    #[test]
    fn of_several_errors_the_one_of_the_first_place_is_told() {
        let failed = |offset| {
            let source = DeviceError::Damaged { offset };
            Err(TransferError::Volume { action: "read", offset, source })
        };
        for places in [[Some(9), Some(4), None], [None, Some(4), Some(9)], [Some(4), None, None]] {
            let ended =
                run_workers(&places, |place| place.map_or(Err(TransferError::Interrupted), failed));
            assert!(matches!(ended, Err(TransferError::Volume { offset: 4, .. })), "{ended:?}");
        }
        assert!(run_workers(&[1, 2], |_| Ok(())).is_ok());
    }

    #[test]
    fn who_stops_it_gets_an_error() {
        let stop = StopFlag::new();
        stop.raise();
        let memory: Arc<dyn BlockDevice> =
            Arc::new(Memory { bytes: parking_lot::Mutex::new(vec![1; BLOCK]) });
        let sink = Sink::Stream(Box::new(Vec::new()));
        let ended = export(&[memory], u64::MAX, sink, OnBadBlock::Fail, &Recorder::new(), &stop);
        assert!(matches!(ended, Err(TransferError::Interrupted)));
    }
}
