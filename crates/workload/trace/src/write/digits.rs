//! Appends numbers and hashes as text, without allocating.

use crate::record::ContentHash;

/// Digits of the largest 64-bit number.
const MAX_DIGITS: usize = 20;

/// Appends a whole number.
#[inline]
pub(crate) fn push_whole(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; MAX_DIGITS];
    let mut start = MAX_DIGITS;
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends nanoseconds as seconds with nine decimals.
#[inline]
pub(crate) fn push_seconds(out: &mut Vec<u8>, time_ns: u64) {
    push_decimal(out, time_ns, 1_000_000_000);
}

/// Appends nanoseconds as milliseconds with six decimals.
#[inline]
pub(crate) fn push_milliseconds(out: &mut Vec<u8>, time_ns: u64) {
    push_decimal(out, time_ns, 1_000_000);
}

/// Appends nanoseconds in a unit of a power of ten, with all decimals.
#[inline]
fn push_decimal(out: &mut Vec<u8>, time_ns: u64, mut unit_ns: u64) {
    push_whole(out, time_ns / unit_ns);
    out.push(b'.');
    while unit_ns > 1 {
        unit_ns /= 10;
        out.push(b'0' + (time_ns / unit_ns % 10) as u8);
    }
}

/// Appends a hash as 32 hexadecimal digits.
#[inline]
pub(crate) fn push_hash(out: &mut Vec<u8>, hash: ContentHash) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0u8; 32];
    for (byte, pair) in hash.0.to_be_bytes().iter().zip(digits.chunks_exact_mut(2)) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_is_what_formatting_gives(value: u64, hash: u128) {
            let text = |push: &dyn Fn(&mut Vec<u8>)| {
                let mut out = Vec::new();
                push(&mut out);
                String::from_utf8(out).unwrap()
            };
            prop_assert_eq!(text(&|out| push_whole(out, value)), value.to_string());
            let seconds = format!("{}.{:09}", value / 1_000_000_000, value % 1_000_000_000);
            prop_assert_eq!(text(&|out| push_seconds(out, value)), seconds);
            let milliseconds = format!("{}.{:06}", value / 1_000_000, value % 1_000_000);
            prop_assert_eq!(text(&|out| push_milliseconds(out, value)), milliseconds);
            prop_assert_eq!(text(&|out| push_hash(out, ContentHash(hash))), format!("{hash:032x}"));
        }
    }
}
