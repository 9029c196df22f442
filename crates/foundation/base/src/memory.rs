//! The memory of the machine, and the allocator of the process.

use std::ffi::c_int;

/// The fewest arenas of a process: with one, every thread would wait for every other.
const MIN_ARENAS: usize = 2;

/// Bytes from which an allocation has a mapping of its own: buffers of requests are shorter.
#[cfg(target_env = "gnu")]
const MIN_MAPPED_BYTES: c_int = 4 << 20;

/// Returns the bytes of memory of this machine.
#[must_use]
pub fn of_machine() -> u64 {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit);
    // The cast is safe: it has the width of a word of the machine.
    (info.totalram as u64).saturating_mul(unit.max(1))
}

/// Has the allocator keep little of what is freed, for threads that begin later.
///
/// An arena keeps the memory that was freed in it, up to the most that its threads ever had. glibc
/// makes up to eight arenas a processor, so the memory of a process with many threads grows for
/// hours. So all threads share one arena for each processor. They rarely compete for these: each
/// has a cache of its own for small allocations, and nothing allocates for single blocks.
///
/// And when a large allocation is freed, glibc takes those of its size, up to 32 MiB, from arenas
/// as well, and tables that grow leave gaps there. So large ones always have a mapping of their
/// own, which goes when they are freed. Other allocators are left as they are.
pub fn keep_little() {
    let processors = std::thread::available_parallelism().map_or(MIN_ARENAS, usize::from);
    set_allocator(processors.max(MIN_ARENAS));
}

#[cfg(target_env = "gnu")]
fn set_allocator(arenas: usize) {
    let arenas = c_int::try_from(arenas).unwrap_or(c_int::MAX);
    for (parameter, value) in
        [(libc::M_ARENA_MAX, arenas), (libc::M_MMAP_THRESHOLD, MIN_MAPPED_BYTES)]
    {
        // SAFETY: the function may be called at any time, and takes numbers only. It refuses what
        // it does not support, and everything then stays as it is.
        let _ = unsafe { libc::mallopt(parameter, value) };
    }
}

#[cfg(not(target_env = "gnu"))]
fn set_allocator(_: usize) {}

/// Gives the memory that was freed back to the system, as far as the allocator can.
///
/// An arena gives back by itself only what is free at its end: one small allocation there keeps all
/// the memory before it.
pub fn give_back_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function may be called at any time, and changes nothing that is allocated.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Returns the bytes that are allocated, or [`None`] where the allocator does not tell. What was
/// freed, and is kept for later allocations, does not count.
#[must_use]
pub fn allocated_bytes() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the function takes nothing and may be called at any time.
        let all = unsafe { libc::mallinfo2() };
        Some((all.uordblks + all.hblkhd) as u64)
    }
    #[cfg(not(target_env = "gnu"))]
    None
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
        keep_little();
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

    #[test]
    fn a_large_allocation_goes_when_it_is_freed() {
        const LARGE: usize = 24 << 20;
        // SAFETY: the function takes nothing and may be called at any time.
        let mapped = || unsafe { libc::mallinfo2() }.hblkhd;
        keep_little();
        let before = mapped();
        // Without a limit, glibc takes the second one from an arena.
        for _ in 0..2 {
            let memory = vec![1_u8; LARGE];
            assert!(mapped() >= before + memory.len());
            assert!(allocated_bytes().unwrap() >= LARGE as u64);
            drop(memory);
            assert!(mapped() < before + LARGE);
        }
    }
}
