//! The choice of the engine and the queue depth of a job that does not set both.

use gemelo_target::{Engine, Storage};

/// Queue depth with io_uring if the job sets none.
const USUAL_URING_DEPTH: u32 = 32;

/// The error that a job sets an engine for storage with an interface of its own.
pub(crate) struct NoEngines;

/// Chooses the engine and the queue depth: io-uring for a depth above 1, else psync.
pub(crate) fn choose(
    engine: Option<Engine>,
    depth: Option<u32>,
    storage: &dyn Storage,
) -> Result<(Engine, usize), NoEngines> {
    if !storage.has_engines() {
        return match engine {
            Some(_) => Err(NoEngines),
            None => Ok((Engine::Native, depth.unwrap_or(1) as usize)),
        };
    }
    let usual = if depth.is_some_and(|depth| depth > 1) { Engine::IoUring } else { Engine::Psync };
    let engine = engine.unwrap_or(usual);
    let usual_depth = if engine == Engine::IoUring { USUAL_URING_DEPTH } else { 1 };
    Ok((engine, depth.unwrap_or(usual_depth) as usize))
}
