//! Memory of a target that works in the kernel, where no process holds it.

use crate::system;
use std::path::Path;

/// Directory of the counters of OpenZFS and its memory allocator.
const SPL: &str = "/proc/spl";

/// Parts of the cache of OpenZFS that lie in its slabs, which are counted as such
/// (`arcstats`: `size` is their sum with data and metadata).
const IN_SLABS: [&str; 4] = ["hdr_size", "dbuf_size", "dnode_size", "bonus_size"];

/// The system whose memory counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KernelMemory {
    /// The cache (ARC) of OpenZFS and its slabs, of all its pools.
    OpenZfs,
    /// What dm-vdo has allocated, with its index, of all its devices; a device of it tells.
    Vdo { device: String },
}

impl KernelMemory {
    /// Returns the bytes that are in use now.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Self::OpenZfs => open_zfs(Path::new(SPL)),
            Self::Vdo { device } => {
                vdo(&system::printed("dmsetup", &["message", device, "0", "stats"]))
            }
        }
    }
}

fn open_zfs(spl: &Path) -> Option<u64> {
    let cache = std::fs::read_to_string(spl.join("kstat/zfs/arcstats")).ok()?;
    let slabs = std::fs::read_to_string(spl.join("kmem/slab")).unwrap_or_default();
    Some(cached(&cache)?.saturating_add(in_slabs(&slabs)))
}

/// Returns what the cache holds outside of slabs. A line is a name, a type and a number.
fn cached(arcstats: &str) -> Option<u64> {
    let of = |wanted: &str| {
        let mut lines = arcstats.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.find(|words| words.first() == Some(&wanted))?.get(2)?.parse::<u64>().ok()
    };
    let elsewhere = IN_SLABS.iter().filter_map(|name| of(name)).fold(0, u64::saturating_add);
    Some(of("size")?.saturating_sub(elsewhere))
}

/// Returns the bytes of all slabs. A line is a name, flags, the size, and the bytes allocated; a
/// slab of the kernel's own allocator has the latter alone.
fn in_slabs(slabs: &str) -> u64 {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        words.next().filter(|flags| flags.starts_with("0x"))?;
        words.take(2).find_map(|word| word.parse::<u64>().ok())
    };
    slabs.lines().filter_map(of_line).fold(0, u64::saturating_add)
}

/// Returns the bytes in use of the counters that a device of dm-vdo prints.
fn vdo(stats: &str) -> Option<u64> {
    let (_, after) = stats.split_once("bytesUsed")?;
    let digits = after.trim_start_matches([' ', ':']);
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_and_slabs_of_zfs_count_once() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(open_zfs(place.path()), None, "no module");
        std::fs::create_dir_all(place.path().join("kstat/zfs")).unwrap();
        std::fs::create_dir_all(place.path().join("kmem")).unwrap();
        let arcstats = "9 1 0x01 147 39984 3 4\nname type data\nhits 4 7\nsize 4 1000\n\
                        hdr_size 4 100\ndbuf_size 4 20\ndnode_size 4 30\nbonus_size 4 50\n";
        std::fs::write(place.path().join("kstat/zfs/arcstats"), arcstats).unwrap();
        assert_eq!(open_zfs(place.path()), Some(800));
        let slabs = "------ cache ------\nname flags size alloc slabsize objsize\n\
                     zio_cache 0x00100 - 4000 - 1280 - - -\n\
                     zfs_znode 0x00040 8192 4096 32768 1104 1 1 1\n";
        std::fs::write(place.path().join("kmem/slab"), slabs).unwrap();
        assert_eq!(open_zfs(place.path()), Some(800 + 4000 + 8192));
    }

    #[test]
    fn memory_of_vdo_is_read_from_its_counters() {
        let stats = "{ version : 36, memoryUsage : { bytesUsed : 12345, peakBytesUsed : 99, }, }";
        assert_eq!(vdo(stats), Some(12345));
        assert_eq!(vdo("{ version : 36 }"), None);
    }
}
