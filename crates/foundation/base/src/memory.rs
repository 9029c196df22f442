//! The memory of the machine, and the allocator of the process.

use std::ffi::c_int;

/// The fewest arenas of a process: with one, every thread would wait for every other.
const MIN_ARENAS: usize = 2;

/// Returns the bytes of memory of this machine.
#[must_use]
pub fn of_machine() -> u64 {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit);
    // The cast is safe: it has the width of a word of the machine.
    (info.totalram as u64).saturating_mul(unit.max(1))
}

/// Has the allocator share one arena for each processor between all threads that begin later.
///
/// An arena keeps the memory that was freed in it, up to the most that its threads ever had. glibc
/// makes up to eight arenas a processor, so the memory of a process with many threads grows for
/// hours. Threads rarely compete for these: each has a cache of its own for small allocations, and
/// nothing allocates for single blocks. Other allocators are left as they are.
pub fn limit_arenas() {
    let processors = std::thread::available_parallelism().map_or(MIN_ARENAS, usize::from);
    set_arenas(processors.max(MIN_ARENAS));
}

#[cfg(target_env = "gnu")]
fn set_arenas(arenas: usize) {
    let arenas = c_int::try_from(arenas).unwrap_or(c_int::MAX);
    // SAFETY: the function may be called at any time, and takes numbers only. It refuses what it
    // does not support, and the number of arenas then stays as it is.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
}

#[cfg(not(target_env = "gnu"))]
fn set_arenas(_: usize) {}

/// Gives the memory that was freed back to the system, as far as the allocator can.
///
/// An arena gives back by itself only what is free at its end: one small allocation there keeps all
/// the memory before it.
pub fn give_back_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function may be called at any time, and changes nothing that is allocated.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};

    /// More threads than there are arenas in any case.
    const THREADS: usize = 64;

    #[test]
    fn many_threads_share_the_arenas() {
        let arenas = || {
            let file = tempfile::NamedTempFile::new().unwrap();
            let path = std::ffi::CString::new(file.path().to_str().unwrap()).unwrap();
            // SAFETY: both strings end with a zero byte, and the stream is closed once, after its
            // use.
            unsafe {
                let stream = libc::fopen(path.as_ptr(), c"w".as_ptr());
                assert!(!stream.is_null());
                assert_eq!(libc::malloc_info(0, stream), 0);
                assert_eq!(libc::fclose(stream), 0);
            }
            std::fs::read_to_string(file.path()).unwrap().matches("<heap nr=").count()
        };
        limit_arenas();
        let before = arenas();
        let everybody_has_memory = Arc::new(Barrier::new(THREADS));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let barrier = Arc::clone(&everybody_has_memory);
                std::thread::spawn(move || {
                    let memory = vec![1_u8; 10_000];
                    barrier.wait();
                    memory.len()
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 10_000));
        let most = std::thread::available_parallelism().unwrap().get().max(MIN_ARENAS);
        assert!(arenas() <= before.max(most), "{} arenas, {before} before", arenas());
    }
}
