//! The moment at which a run starts, after everything is ready for it.

/// Holds a run back. Hosts that run together start at the same moment by it.
pub trait StartLine: Send + Sync {
    /// Waits until the run may start. It returns early if the run is to stop.
    fn wait(&self);
}

/// Runs start as soon as they are ready.
#[derive(Debug, Clone, Copy, Default)]
pub struct AtOnce;

impl StartLine for AtOnce {
    fn wait(&self) {}
}
