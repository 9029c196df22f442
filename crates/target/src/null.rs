//! The target `null:`.

use crate::plan::Target;
use crate::queue::{NullQueue, Queue, QueueOptions};
use crate::{AtStart, TargetError};

/// Completes every write and every read at once, and stores nothing.
pub(crate) struct NullTarget;

impl Target for NullTarget {
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
