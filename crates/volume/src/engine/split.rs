//! A long write of somebody who is alone: half of its blocks are done by a second thread. A lone sequential writer would
//! otherwise leave all processors but one without work; with several writers every one of them has its own.

use super::write::Item;
use super::{Engine, VolumeShared};
use crate::error::VolumeError;
use gemelo_device::DeviceError;
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, ScopedJoinHandle, available_parallelism, scope};

/// Blocks of a write that is worth a second thread: they take some 150 µs, starting a thread 20.
const LEAST_BLOCKS: usize = 96;

/// Batches that are being done.
#[derive(Debug)]
pub(crate) struct Crew {
    batches: AtomicU64,
    /// Whether a second thread may be started at all.
    may_split: bool,
}

/// A batch that is being done, until it is dropped.
pub(super) struct Present<'a>(&'a AtomicU64);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Crew {
    /// Without a background nothing is done by other threads.
    pub(crate) fn new(has_background: bool) -> Self {
        let has_processors = available_parallelism().is_ok_and(|count| count > NonZero::<usize>::MIN);
        Self { batches: AtomicU64::new(0), may_split: has_background && has_processors }
    }

    pub(super) fn join(&self) -> Present<'_> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        Present(&self.batches)
    }

    fn is_lone(&self) -> bool {
        self.may_split && self.batches.load(Ordering::Relaxed) == 1
    }
}

/// Requests that failed, and why.
pub(super) type Refused = Vec<(usize, DeviceError)>;

impl Engine {
    /// Writes blocks, with a second thread where that pays.
    pub(super) fn write_split(&self, volume: &VolumeShared, items: &[Item<'_>]) -> Refused {
        if items.len() < LEAST_BLOCKS || !self.crew.is_lone() {
            return self.write_and_collect(volume, items);
        }
        let (first, second) = items.split_at(items.len() / 2);
        scope(|scope| {
            let work = || self.write_and_collect(volume, second);
            let helper = Builder::new().name("gemelo-writer".into()).spawn_scoped(scope, work);
            let mut refused = self.write_and_collect(volume, first);
            match helper.map(ScopedJoinHandle::join) {
                Ok(Ok(others)) => refused.extend(others),
                // It was not started.
                Err(_) => refused.extend(self.write_and_collect(volume, second)),
                // How far it came is not known, as after other errors: each block is old or new.
                Ok(Err(_)) => refused.extend(second.iter().map(|item| (item.request, ended_early()))),
            }
            refused
        })
    }

    fn write_and_collect(&self, volume: &VolumeShared, items: &[Item<'_>]) -> Refused {
        let block_bytes = u64::from(self.superblock.block_bytes);
        let mut refused = Vec::new();
        self.write_items(volume, items, &mut |request, error: &VolumeError| {
            refused.push((request, error.for_device(block_bytes)));
        });
        refused
    }
}

fn ended_early() -> DeviceError {
    DeviceError::Io(io::Error::other("the thread that wrote a part of it ended early"))
}
