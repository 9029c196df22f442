//! The storage `null:`.

use crate::queue::{NullQueue, Queue, QueueOptions};
use crate::storage::{PlannedTarget, Storage, Target};
use crate::{AtStart, PlaceLayout, TargetError};

/// Completes every write and every read at once, and stores nothing.
#[derive(Debug)]
pub struct NullStorage;

impl Storage for NullStorage {
    fn holds_data(&self) -> bool {
        false
    }

    fn capacity(&self) -> Result<Option<u64>, TargetError> {
        Ok(None)
    }

    fn plan(&self, layout: &PlaceLayout) -> Result<Box<dyn PlannedTarget>, TargetError> {
        layout.total_bytes()?;
        Ok(Box::new(Self))
    }
}

impl PlannedTarget for NullStorage {
    fn prepare(self: Box<Self>) -> Result<Box<dyn Target>, TargetError> {
        Ok(self)
    }
}

impl Target for NullStorage {
    fn place(&self, process: u32) -> String {
        format!("null: (process {process})")
    }

    fn holds_data(&self) -> bool {
        false
    }

    fn at_start(&self) -> AtStart {
        AtStart::Unknown
    }

    fn open(&self, _process: u32, options: &QueueOptions) -> Result<Box<dyn Queue>, TargetError> {
        Ok(Box::new(NullQueue::new(options)))
    }

    fn finish(&mut self, _keep: bool) -> Result<(), TargetError> {
        Ok(())
    }
}
