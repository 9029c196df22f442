//! The memory of the machine and of the process, and its allocator.

use std::ffi::c_int;
use std::fs;
use std::path::Path;

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

/// Returns the bytes of memory that this process may have: those of the machine, or fewer if a
/// control group of the process has a limit.
#[must_use]
pub fn of_process() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = limit_of_groups(Path::new("/sys/fs/cgroup"), &groups);
    limit.map_or_else(of_machine, |limit| limit.min(of_machine()))
}

/// The least limit of these control groups and of those above them, where both versions of control
/// groups are mounted here. `groups` has the form of `/proc/self/cgroup`. In a container, the path
/// of a group may be the host's, and the container's own group is mounted at the top.
fn limit_of_groups(mounted: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        let (top, file) = match controllers {
            "" => (mounted.to_owned(), "memory.max"),
            _ => (mounted.join("memory"), "memory.limit_in_bytes"),
        };
        let counts = controllers.is_empty() || controllers.split(',').any(|one| one == "memory");
        let group = top.join(path.trim_start_matches('/'));
        let above = group.ancestors().take_while(|group| group.starts_with(&top));
        let limit = |group: &Path| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
        above.filter_map(limit).filter(|_| counts).collect::<Vec<u64>>()
    });
    limits.min()
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
    allocator().map(|(allocated, _)| allocated)
}

/// Returns the bytes that were freed and that the allocator keeps, or [`None`] where it does not
/// tell. What [`give_back_freed`] has given back may count.
#[must_use]
pub fn free_bytes() -> Option<u64> {
    allocator().map(|(_, free)| free)
}

#[cfg(target_env = "gnu")]
fn allocator() -> Option<(u64, u64)> {
    // The function came with glibc 2.33. It is looked for when the program runs, so that it also
    // runs with an older one.
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
    // SAFETY: the only function of this name is that of glibc, which has this type.
    let ask = unsafe {
        std::mem::transmute::<*mut libc::c_void, Option<unsafe extern "C" fn() -> libc::mallinfo2>>(
            found,
        )
    };
    // SAFETY: the function takes nothing and may be called at any time.
    let all = unsafe { ask?() };
    Some(((all.uordblks + all.hblkhd) as u64, all.fordblks as u64))
}

#[cfg(not(target_env = "gnu"))]
fn allocator() -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod limits {
    use super::*;

    #[test]
    fn the_memory_of_a_process_is_within_the_limits_of_its_groups() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        let limit = |groups| limit_of_groups(top, groups);
        let set = |file: &str, text: &str| {
            fs::create_dir_all(top.join(file).parent().unwrap()).unwrap();
            fs::write(top.join(file), text).unwrap();
        };
        assert_eq!(limit("0::/a/b\n"), None, "nothing is mounted");
        set("a/b/memory.max", "max\n");
        assert_eq!(limit("0::/a/b\n"), None);
        set("a/memory.max", "3000000\n");
        assert_eq!(limit("0::/a/b\n"), Some(3_000_000), "a limit above counts");
        set("a/b/memory.max", "2000000\n");
        assert_eq!(limit("0::/a/b\n"), Some(2_000_000));
        assert_eq!(limit("0::/of/the/host\n"), None);
        set("memory.max", "7000000\n");
        assert_eq!(limit("0::/of/the/host\n"), Some(7_000_000), "a container's own is at the top");
        // The first version has a tree for each controller.
        set("memory/c/memory.limit_in_bytes", "1000000\n");
        let groups = "5:cpu,cpuacct:/c\n4:memory:/c/d\n";
        assert_eq!(limit(groups), Some(1_000_000));
        assert_eq!(limit("5:cpu,cpuacct:/c\n"), None, "only the controller of memory counts");
        assert_eq!(limit("4:memory:/c\n0::/a/b\n"), Some(1_000_000), "the least counts");
        assert!((1..=of_machine()).contains(&of_process()));
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};

    /// More threads than there are arenas in any case.
    const THREADS: usize = 64;

    #[test]
    fn memory_that_is_freed_between_other_is_told() {
        let mut blocks: Vec<Option<Vec<u8>>> = (0..20_000).map(|_| Some(vec![1; 1000])).collect();
        let before = free_bytes().unwrap();
        blocks.iter_mut().step_by(2).for_each(|block| *block = None);
        let freed = free_bytes().unwrap().saturating_sub(before);
        assert!(freed > 8_000_000, "{freed} bytes");
        drop(blocks);
    }

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
            fs::read_to_string(file.path()).unwrap().matches("<heap nr=").count()
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
