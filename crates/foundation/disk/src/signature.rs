//! Recognises the data on a block device by the marks of file systems, volume managers and
//! partition tables.
//!
//! Any byte but zero in the first or last MiB counts as data; the marks only give it a name.
//! Offsets and bytes are those of `libblkid` (util-linux), whose source names the format documents.

use crate::file::LABEL_BYTES;
use gemelo_base::read_exact_at;
use std::fs::File;
use std::io;

/// The byte at which the metadata disk of a pool has the second copy of its first mark: the first
/// MiB may be damaged.
pub const FAR_POOL_MARK_BYTE: u64 = 512 * 4096;
pub(crate) const POOL_MARK: &[u8] = b"GEMELOSB";
pub(crate) const DATA_MARK: &[u8] = b"GEMELODS";
const POOL_NAME: &str = "the metadata of a pool";

/// A mark: its bytes, their offset from the beginning, and its name.
struct Mark {
    offset: usize,
    bytes: &'static [u8],
    name: &'static str,
}

const fn mark(offset: usize, bytes: &'static [u8], name: &'static str) -> Mark {
    Mark { offset, bytes, name }
}

/// The more specific marks come first: a partition table has its own mark and that of boot sectors,
/// which file systems of other operating systems have as well.
const MARKS: &[Mark] = &[
    mark(0, POOL_MARK, POOL_NAME),
    mark(0, DATA_MARK, "the data store of a pool"),
    mark(0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    mark(0x4000, b"SKUL\xba\xbe", "an encrypted volume (LUKS)"),
    mark(0, b"LABELONE", "an LVM physical volume"),
    mark(512, b"LABELONE", "an LVM physical volume"),
    mark(1024, b"LABELONE", "an LVM physical volume"),
    mark(1536, b"LABELONE", "an LVM physical volume"),
    mark(0, b"XFSB", "an XFS file system"),
    mark(0x1_0040, b"_BHRfS_M", "a btrfs file system"),
    mark(1080, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    mark(1024, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    mark(1024, &[0xe2, 0xe1, 0xf5, 0xe0], "an EROFS file system"),
    mark(0, b"hsqs", "a squashfs file system"),
    mark(0x8001, b"CD001", "an ISO 9660 file system"),
    mark(4096 - 10, b"SWAPSPACE2", "swap"),
    mark(65_536 - 10, b"SWAPSPACE2", "swap"),
    mark(0, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of an MD RAID"),
    mark(4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of an MD RAID"),
    mark(4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca", "a bcache device"),
    mark(4120, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9", "a bcachefs file system"),
    mark(0, b"bluestore block device", "a Ceph OSD"),
    mark(3, b"NTFS    ", "an NTFS file system"),
    mark(3, b"EXFAT   ", "an exFAT file system"),
    mark(82, b"FAT32   ", "a FAT file system"),
    mark(54, b"FAT1", "a FAT file system"),
    mark(512, b"EFI PART", "a partition table (GPT)"),
    mark(4096, b"EFI PART", "a partition table (GPT)"),
    mark(510, &[0x55, 0xaa], "a partition table (MBR) or a boot sector"),
];

/// ZFS has its uberblocks here, one in each KiB, in either byte order.
const ZFS_UBERBLOCKS: std::ops::Range<usize> = 128 << 10..256 << 10;
const ZFS_STEP: usize = 1024;
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// Describes the data in the ranges of labels of a device of this length. Returns `None` if they
/// are blank.
pub(crate) fn found_on(device: &File, length: u64) -> io::Result<Option<String>> {
    let mut part = vec![0; LABEL_BYTES.min(length) as usize];
    read_exact_at(device, &mut part, 0)?;
    if let Some(name) = named(&part) {
        return Ok(Some(name.to_owned()));
    }
    let mut far = [0; POOL_MARK.len()];
    if length >= FAR_POOL_MARK_BYTE + far.len() as u64 {
        read_exact_at(device, &mut far, FAR_POOL_MARK_BYTE)?;
        if far == *POOL_MARK {
            return Ok(Some(POOL_NAME.to_owned()));
        }
    }
    if has_bytes(&part) {
        return Ok(Some("data".to_owned()));
    }
    let end_at = length - part.len() as u64;
    read_exact_at(device, &mut part, end_at)?;
    Ok(has_bytes(&part)
        .then(|| "data at its end, as partition tables and RAID members do".to_owned()))
}

fn named(head: &[u8]) -> Option<&'static str> {
    let has =
        |mark: &&Mark| head.get(mark.offset..).is_some_and(|from| from.starts_with(mark.bytes));
    let found = MARKS.iter().find(has).map(|mark| mark.name);
    found.or_else(|| has_uberblock(head).then_some("a member of a ZFS pool"))
}

fn has_uberblock(head: &[u8]) -> bool {
    let words = ZFS_UBERBLOCKS.step_by(ZFS_STEP).filter_map(|at| head.get(at..)?.first_chunk());
    words
        .copied()
        .any(|word| [u64::from_le_bytes(word), u64::from_be_bytes(word)].contains(&ZFS_MAGIC))
}

fn has_bytes(part: &[u8]) -> bool {
    part.iter().any(|byte| *byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// Makes a file with these bytes at an offset.
    fn with(length: u64, offset: u64, bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        file
    }

    #[test]
    fn every_mark_is_found_by_its_name() {
        for mark in MARKS {
            let file = with(4 << 20, mark.offset as u64, mark.bytes);
            assert_eq!(found_on(&file, 4 << 20).unwrap().as_deref(), Some(mark.name));
        }
        let file = with(4 << 20, 130 << 10, &ZFS_MAGIC.to_be_bytes());
        assert_eq!(found_on(&file, 4 << 20).unwrap().as_deref(), Some("a member of a ZFS pool"));
    }

    #[test]
    fn a_pool_is_recognised_by_the_far_copy_of_its_mark() {
        let file = with(4 << 20, FAR_POOL_MARK_BYTE, POOL_MARK);
        assert_eq!(found_on(&file, 4 << 20).unwrap().as_deref(), Some(POOL_NAME));
        file.write_all_at(&[7; 1 << 20], 0).unwrap();
        assert_eq!(found_on(&file, 4 << 20).unwrap().as_deref(), Some(POOL_NAME));
    }

    #[test]
    fn data_without_a_name_counts_at_both_ends_and_a_blank_device_has_none() {
        let length = 4 << 20;
        for (offset, is_found) in [(0, true), (LABEL_BYTES - 1, true), (LABEL_BYTES, false)] {
            assert_eq!(
                found_on(&with(length, offset, &[1]), length).unwrap().is_some(),
                is_found,
                "{offset}"
            );
        }
        for (offset, is_found) in [(length - 1, true), (length - LABEL_BYTES, true)] {
            let found = found_on(&with(length, offset, &[1]), length).unwrap();
            assert_eq!(found.is_some_and(|what| what.contains("at its end")), is_found, "{offset}");
        }
        assert_eq!(found_on(&with(1000, 0, &[]), 1000).unwrap(), None);
        assert_eq!(found_on(&with(0, 0, &[]), 0).unwrap(), None);
    }
}
