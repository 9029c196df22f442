//! Reads of files that are shorter than they should be.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Returns the error of a read beyond the end of something of this length: it says which bytes were
/// expected, and how many of them are there. The caller adds the name.
#[must_use]
pub fn short_read(length: u64, offset: u64, expected: usize) -> io::Error {
    let found = length.saturating_sub(offset).min(expected as u64);
    let text = format!(
        "it ends at byte {length}: {expected} bytes were expected at byte {offset}, \
         {found} are there"
    );
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

/// Fills a buffer from a file, as [`FileExt::read_exact_at`] does.
///
/// # Errors
/// Fails if a system call fails, or with [`short_read`] if the file ends before.
pub fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    match file.read_exact_at(buffer, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let length = file.metadata().map_or(0, |status| status.len());
            Err(short_read(length, offset, buffer.len()))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_short_read_says_what_was_expected_and_what_is_there() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 1000]).unwrap();
        let mut buffer = [0; 600];
        read_exact_at(&file, &mut buffer, 400).unwrap();
        assert_eq!(buffer, [7; 600]);
        for (offset, there) in [(500, 500), (1000, 0), (4000, 0)] {
            let error = read_exact_at(&file, &mut buffer, offset).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            let text = format!(
                "it ends at byte 1000: 600 bytes were expected at byte {offset}, {there} are there"
            );
            assert_eq!(error.to_string(), text);
        }
    }
}
