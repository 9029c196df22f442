//! Reads fields of a line: splitting, numbers, times, hashes. All functions work on bytes; none
//! allocates or panics.

use crate::record::ContentHash;
use memchr::memchr;

/// Parses a text that consists of decimal digits only. Returns `None` for any other text and above
/// 64 bits.
#[inline]
pub(crate) fn whole(text: &[u8]) -> Option<u64> {
    // A number of 19 digits fits into 64 bits.
    const SAFE_DIGITS: usize = 19;
    if text.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    if text.len() <= SAFE_DIGITS {
        for byte in text {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Parses a whole number of at most 32 bits.
#[inline]
pub(crate) fn whole32(text: &[u8]) -> Option<u32> {
    whole(text).and_then(|value| u32::try_from(value).ok())
}

const NANOSECONDS: u64 = 1_000_000_000;

/// Parses seconds with any fraction as nanoseconds. Digits below a nanosecond are dropped.
#[inline]
pub(crate) fn seconds_as_ns(text: &[u8]) -> Option<u64> {
    match memchr(b'.', text) {
        Some(point) => decimal(text.get(..point)?, text.get(point + 1..)?, NANOSECONDS),
        None => decimal(text, b"", NANOSECONDS),
    }
}

/// Parses milliseconds with a fraction, which may not be missing, as nanoseconds.
#[inline]
pub(crate) fn milliseconds_as_ns(text: &[u8]) -> Option<u64> {
    const MILLISECOND_NS: u64 = 1_000_000;
    let point = memchr(b'.', text)?;
    decimal(text.get(..point)?, text.get(point + 1..)?, MILLISECOND_NS)
}

/// Returns a number with a fraction as a count of the unit's parts, of which there are `parts`.
#[inline]
fn decimal(integer: &[u8], fraction: &[u8], parts: u64) -> Option<u64> {
    let mut fraction_parts = 0;
    let mut unit = parts / 10;
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        fraction_parts += u64::from(digit) * unit;
        unit /= 10;
    }
    whole(integer)?.checked_mul(parts)?.checked_add(fraction_parts)
}

/// Marks bytes that are not hexadecimal digits.
const NO_DIGIT: u8 = 0xff;

const HEX: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        let lower = b"0123456789abcdef"[digit];
        table[lower as usize] = digit as u8;
        table[lower.to_ascii_uppercase() as usize] = digit as u8;
        digit += 1;
    }
    table
};

/// Hexadecimal digits of a 128-bit hash.
pub(crate) const HASH_DIGITS: usize = 32;

/// Parses one hash of 1 to 64 hexadecimal digits; the first 32 are used.
#[inline]
pub(crate) fn hash(text: &[u8]) -> Option<ContentHash> {
    const MAX_DIGITS: usize = 64;
    if text.is_empty() || text.len() > MAX_DIGITS {
        return None;
    }
    let (head, tail) = text.split_at(text.len().min(HASH_DIGITS));
    if tail.iter().any(|byte| HEX[*byte as usize] == NO_DIGIT) {
        return None;
    }
    if let Ok(whole) = head.try_into() {
        return whole_hash(whole);
    }
    let mut value = 0;
    for byte in head {
        let digit = HEX[*byte as usize];
        if digit == NO_DIGIT {
            return None;
        }
        value = (value << 4) | u128::from(digit);
    }
    Some(ContentHash(value))
}

/// Parses a hash of exactly 32 digits. Such hashes are most of the bytes of a trace with hashes.
#[inline]
fn whole_hash(text: &[u8; HASH_DIGITS]) -> Option<ContentHash> {
    let mut value = 0;
    let (words, _) = text.as_chunks::<8>();
    for word in words {
        value = (value << 32) | u128::from(eight_digits(*word)?);
    }
    Some(ContentHash(value))
}

/// Parses eight hexadecimal digits at once, each in a byte of a word. The top bit of a byte shows
/// the result of a comparison: it is set first, and stays set if the subtraction below it does not
/// borrow.
#[inline]
fn eight_digits(text: [u8; 8]) -> Option<u32> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOP: u64 = 0x80 * EACH;
    let within = |word: u64, first: u8, last: u8| {
        let from = (word | TOP).wrapping_sub(u64::from(first) * EACH);
        let to = ((u64::from(last) * EACH) | TOP).wrapping_sub(word);
        from & to & TOP
    };
    let word = u64::from_be_bytes(text);
    let digits = within(word, b'0', b'9');
    let letters = within(word | (0x20 * EACH), b'a', b'f');
    if word & TOP != 0 || digits | letters != TOP {
        return None;
    }
    // The low four bits are the value of a digit, or the number of a letter counted from 1.
    let values = (word & (0x0f * EACH)) + (letters >> 7) * 9;
    let pairs = (values | (values >> 4)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | (pairs >> 8)) & 0x0000_ffff_0000_ffff;
    Some((fours | (fours >> 16)) as u32)
}

/// Parses hashes of 32 digits each without separators, or of any length with `-` between them.
#[inline]
pub(crate) fn hashes(text: &[u8], into: &mut Vec<ContentHash>) -> Option<()> {
    into.clear();
    if memchr(b'-', text).is_some() {
        for part in text.split(|byte| *byte == b'-') {
            into.push(hash(part)?);
        }
        return Some(());
    }
    if text.len() <= HASH_DIGITS || !text.len().is_multiple_of(HASH_DIGITS) {
        into.push(hash(text)?);
        return Some(());
    }
    let (parts, _) = text.as_chunks::<HASH_DIGITS>();
    for part in parts {
        into.push(whole_hash(part)?);
    }
    Some(())
}

/// Splits a line at commas.
#[derive(Debug, Clone)]
pub(crate) struct Commas<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Commas<'a> {
    #[inline]
    pub(crate) const fn new(line: &'a [u8]) -> Self {
        Self { rest: Some(line) }
    }

    /// Returns the next field without surrounding white space, or `None` after the last one.
    #[inline]
    pub(crate) fn field(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        // Fields are short, so a loop is faster than a call of memchr.
        let (field, rest) = match rest.iter().position(|byte| *byte == b',') {
            Some(comma) => (rest.get(..comma)?, rest.get(comma + 1..)),
            None => (rest, None),
        };
        self.rest = rest;
        Some(field.trim_ascii())
    }

    /// Returns whether all fields were taken.
    pub(crate) const fn is_at_end(&self) -> bool {
        self.rest.is_none()
    }
}

/// Splits a line at white space.
#[derive(Debug, Clone)]
pub(crate) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    #[inline]
    pub(crate) const fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// Returns the next field, or an empty one after the last.
    #[inline]
    pub(crate) fn field(&mut self) -> &'a [u8] {
        let rest = self.rest.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let (field, rest) = rest.split_at(end);
        self.rest = rest;
        field
    }

    /// Returns the rest of the line without surrounding white space.
    #[inline]
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest.trim_ascii()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_fill_their_field() {
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(whole(b"0007"), Some(7));
        for text in ["", "-1", "+1", "1.0", "x", "18446744073709551616", "99999999999999999999999"]
        {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn seconds_keep_nanoseconds() {
        assert_eq!(seconds_as_ns(b"1456135200.013118000"), Some(1_456_135_200_013_118_000));
        assert_eq!(seconds_as_ns(b"5"), Some(5_000_000_000));
        assert_eq!(seconds_as_ns(b"0.0000000019"), Some(1));
        for text in ["", ".", "1.x", "x.1", "99999999999.0"] {
            assert_eq!(seconds_as_ns(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn hashes_are_concatenated_or_joined() {
        let mut found = Vec::new();
        let md5 = "3df1244f6143869f52abf2a1d73d0c0f";
        assert_eq!(
            hash(md5.as_bytes()),
            Some(ContentHash(0x3df1_244f_6143_869f_52ab_f2a1_d73d_0c0f))
        );
        for (text, count) in [
            (md5.to_owned(), 1),
            (md5.repeat(8), 8),
            (format!("{md5}-{md5}-ff"), 3),
            (format!("{md5}{md5}"), 2),
        ] {
            assert_eq!(hashes(text.as_bytes(), &mut found), Some(()), "{text}");
            assert_eq!(
                (found.len(), found[0]),
                (count, ContentHash(0x3df1_244f_6143_869f_52ab_f2a1_d73d_0c0f))
            );
        }
        // SHA-1 has 40 digits; the first 32 are used.
        assert_eq!(hashes(b"3df1244f6143869f52abf2a1d73d0c0f01234567", &mut found), Some(()));
        assert_eq!(found, [ContentHash(0x3df1_244f_6143_869f_52ab_f2a1_d73d_0c0f)]);
        for text in ["", "-", "xyz", "3df1244f6143869f52abf2a1d73d0c0g", "ff-", "ff--ff"] {
            assert_eq!(hashes(text.as_bytes(), &mut found), None, "{text}");
        }
    }

    #[test]
    fn words_and_commas_split() {
        let mut words = Words::new(b"  a\tbc  d e ");
        assert_eq!(
            (words.field(), words.field(), words.rest()),
            (&b"a"[..], &b"bc"[..], &b"d e"[..])
        );
        let mut commas = Commas::new(b"a,, b ");
        let fields: Vec<_> = std::iter::from_fn(|| commas.field()).collect();
        assert_eq!(fields, [&b"a"[..], b"", b"b"]);
        assert!(commas.is_at_end());
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_field_panic(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (whole(&text), whole32(&text), seconds_as_ns(&text), hash(&text));
            let _ = hashes(&text, &mut Vec::new());
            let mut words = Words::new(&text);
            while !words.field().is_empty() {}
            let mut commas = Commas::new(&text);
            while commas.field().is_some() {}
        }

        /// Compares parsing eight digits at once with parsing one at a time.
        #[test]
        fn only_digits_are_digits(text in proptest::array::uniform8(any::<u8>())) {
            let one_by_one = text.iter().try_fold(0u32, |value, byte| {
                char::from(*byte).to_digit(16).map(|digit| (value << 4) | digit)
            });
            prop_assert_eq!(eight_digits(text), one_by_one);
        }

        #[test]
        fn numbers_and_hashes_are_what_they_were_written_as(value: u64, hashed: u128) {
            prop_assert_eq!(whole(value.to_string().as_bytes()), Some(value));
            prop_assert_eq!(hash(format!("{hashed:032x}").as_bytes()), Some(ContentHash(hashed)));
            prop_assert_eq!(hash(format!("{hashed:032X}").as_bytes()), Some(ContentHash(hashed)));
        }
    }
}
