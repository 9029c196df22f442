//! Threads that end with their scope.

/// Returns the result of a thread. A panic of the thread continues in the caller, because it is a
/// bug.
pub(crate) fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
