//! The checksum of a set: XXH3-128 of the whole file, in which the checksum's own 32 digits count
//! as zeros.
//!
//! The checksum is a value in the file's footer, so the file stays plain Parquet. It detects
//! damage, but not forgery.

use super::CHECKSUM_KEY;
use super::error::SavedSetError;
use gemelo_base::read_exact_at;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use twox_hash::XxHash3_128;

/// The text before the digits. Nothing else in a footer looks like it.
const MARK: &str = "gemelo-file-xxh3-128:";

const DIGITS: usize = 32;

/// The last 4 bytes of a Parquet file. The footer's length stands before them, in 4 bytes.
const MAGIC: &[u8; 4] = b"PAR1";

/// The longest footer that is searched, in bytes: 64 MiB are enough for 10^11 contents.
const MAX_FOOTER_BYTES: u64 = 64 << 20;

/// The bytes that are read at once.
const READ_BYTES: usize = 1 << 18;

/// Returns the checksum's key, and its value while the checksum is unknown.
pub(super) fn placeholder() -> (String, String) {
    (CHECKSUM_KEY.to_owned(), format!("{MARK}{}", "0".repeat(DIGITS)))
}

/// The reason why the digits were not found.
enum Missing {
    Io(io::Error),
    Because(&'static str),
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Returns the offset of the digits in the file.
fn digits_at(file: &File) -> Result<u64, Missing> {
    let length = file.metadata()?.len();
    if length < 12 {
        return Err(Missing::Because(if length == 0 { "it is empty" } else { "it is too short" }));
    }
    let mut ends = [0; 8];
    read_exact_at(file, &mut ends, length - 8)?;
    let mut start = [0; 4];
    read_exact_at(file, &mut start, 0)?;
    let [a, b, c, d, magic @ ..] = ends;
    if &magic != MAGIC || &start != MAGIC {
        return Err(Missing::Because("it is not a Parquet file, or it was cut off"));
    }
    let footer_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    if footer_bytes > (length - 12).min(MAX_FOOTER_BYTES) {
        return Err(Missing::Because("its footer is longer than the file or than 64 MiB"));
    }
    let mut footer = vec![0; footer_bytes as usize];
    let footer_start = length - 8 - footer_bytes;
    read_exact_at(file, &mut footer, footer_start)?;
    let mut marks =
        footer.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK.as_bytes());
    match (marks.next(), marks.next()) {
        (Some((at, _)), None) if at + MARK.len() + DIGITS <= footer.len() => {
            Ok(footer_start + (at + MARK.len()) as u64)
        }
        _ => Err(Missing::Because("it has no checksum that gemelo wrote")),
    }
}

/// Returns the checksum, as digits, of a file whose checksum digits begin at `digits`.
fn checksum(file: &File, digits: u64) -> io::Result<String> {
    let mut hash = XxHash3_128::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    loop {
        let read = file.read_at(&mut buffer, at)?;
        let Some(data) = buffer.get_mut(..read).filter(|data| !data.is_empty()) else { break };
        for (place, byte) in (at..).zip(data.iter_mut()) {
            if place >= digits + DIGITS as u64 {
                break;
            }
            if place >= digits {
                *byte = b'0';
            }
        }
        hash.write(data);
        at += read as u64;
    }
    Ok(format!("{:032x}", hash.finish_128()))
}

/// Writes the checksum into a file that contains the placeholder.
pub(super) fn seal(file: &File) -> io::Result<()> {
    let at = digits_at(file).map_err(|missing| match missing {
        Missing::Io(error) => error,
        Missing::Because(what) => io::Error::other(what),
    })?;
    file.write_all_at(checksum(file, at)?.as_bytes(), at)
}

/// Checks the whole file against its checksum.
pub(super) fn verify(file: &File, path: &Path) -> Result<(), SavedSetError> {
    let read = |source| SavedSetError::Read { path: path.to_owned(), source };
    let at = digits_at(file).map_err(|missing| match missing {
        Missing::Io(error) => read(error),
        Missing::Because(what) => SavedSetError::NotASet { path: path.to_owned(), what },
    })?;
    let mut digits = [0; DIGITS];
    read_exact_at(file, &mut digits, at).map_err(read)?;
    if checksum(file, at).map_err(read)?.as_bytes() == digits {
        Ok(())
    } else {
        Err(SavedSetError::Checksum { path: path.to_owned() })
    }
}
