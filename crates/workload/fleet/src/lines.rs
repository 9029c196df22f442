//! Messages as lines. A line has a limit, so that a stream of garbage fills no memory.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, Read};

/// Longest line in bytes. A result with the histograms of a day of seconds has less.
const MAX_LINE_BYTES: u64 = 1 << 30;
/// Longest greeting in bytes.
const MAX_GREETING_BYTES: u64 = 64 << 10;
/// Bytes of a line that is no message which an error shows.
const SHOWN_BYTES: usize = 120;

/// Returns a message as a line.
pub(crate) fn to_line<T: Serialize>(message: &T) -> io::Result<String> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    Ok(line)
}

/// Reads the next message; `None` at the end of the stream.
///
/// # Errors
/// Fails if the stream fails, or if a line is too long or no message.
pub(crate) fn read<T: DeserializeOwned>(stream: &mut impl BufRead) -> io::Result<Option<T>> {
    read_within(stream, MAX_LINE_BYTES)
}

/// Reads the first message, which is short: another program may be at the other end.
///
/// # Errors
/// Fails as [`read`] does.
pub(crate) fn read_greeting<T: DeserializeOwned>(
    stream: &mut impl BufRead,
) -> io::Result<Option<T>> {
    read_within(stream, MAX_GREETING_BYTES)
}

fn read_within<T: DeserializeOwned>(
    stream: &mut impl BufRead,
    max_bytes: u64,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    stream.take(max_bytes).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let garbage = |why: &str| {
        let shown = String::from_utf8_lossy(line.get(..SHOWN_BYTES).unwrap_or(&line));
        let text = format!("it sent {why}: '{}'", shown.trim_end());
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    if line.last() != Some(&b'\n') {
        let is_long = line.len() as u64 == max_bytes;
        return Err(garbage(if is_long { "a line without end" } else { "a part of a line" }));
    }
    serde_json::from_slice(&line).map(Some).map_err(|_| garbage("a line that is no message"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{FromHost, ToHost};
    use proptest::prelude::*;

    #[test]
    fn messages_survive_their_lines() {
        let all = [ToHost::Go, ToHost::Start { run: 3, at_ns: u64::MAX }, ToHost::Beat];
        let text: String = all.iter().map(|message| to_line(message).unwrap()).collect();
        let mut stream = text.as_bytes();
        for message in all {
            assert_eq!(read::<ToHost>(&mut stream).unwrap(), Some(message));
        }
        assert_eq!(read::<ToHost>(&mut stream).unwrap(), None);
    }

    #[test]
    fn what_is_no_message_is_shown_in_short() {
        let told =
            |mut bytes: &[u8]| read_within::<FromHost>(&mut bytes, 1000).unwrap_err().to_string();
        assert_eq!(told(b"Welcome!\n"), "it sent a line that is no message: 'Welcome!'");
        assert_eq!(told(b"{\"say\":\"be"), "it sent a part of a line: '{\"say\":\"be'");
        let long = told(&[b'x'; 5000]);
        assert!(long.starts_with("it sent a line without end: 'xxx") && long.len() < 200, "{long}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut stream = bytes.as_slice();
            while let Ok(Some(_)) = read::<FromHost>(&mut stream) {}
        }
    }
}
