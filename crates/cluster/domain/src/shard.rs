//! Shards: the objects of the index, each for the fingerprints that begin with certain bits.

use gemelo_format::Fingerprint;

/// Most bits that name a shard: 16 million shards hold 10^12 entries.
pub const MAX_DEPTH: u8 = 24;

/// The prefix of the names of all shards.
pub(crate) const SHARD_PREFIX: &str = "index.";
/// The prefix of the keys of entries.
pub(crate) const ENTRY_PREFIX: &str = "f.";

/// A shard: the leading bits that its fingerprints have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    bits: u32,
    depth: u8,
}

impl Shard {
    /// The shard of all fingerprints.
    pub const ALL: Self = Self { bits: 0, depth: 0 };

    /// Returns the shard of a fingerprint that has this many bits.
    #[must_use]
    pub fn of(fingerprint: Fingerprint, depth: u8) -> Self {
        let depth = depth.min(MAX_DEPTH);
        let bits = leading_word(fingerprint).checked_shr(32 - u32::from(depth)).unwrap_or(0);
        Self { bits, depth }
    }

    /// Returns all shards with this many bits.
    pub fn all(depth: u8) -> impl Iterator<Item = Self> {
        let depth = depth.min(MAX_DEPTH);
        (0..1 << depth).map(move |bits| Self { bits, depth })
    }

    /// Returns how many bits the fingerprints have in common.
    #[must_use]
    pub const fn depth(self) -> u8 {
        self.depth
    }

    /// Returns the leading bits, right-aligned.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// Returns the shard with these leading bits.
    #[must_use]
    pub const fn new(depth: u8, bits: u32) -> Option<Self> {
        if depth > MAX_DEPTH || bits >> depth != 0 { None } else { Some(Self { bits, depth }) }
    }

    /// Returns the two halves, unless the shard has the most bits.
    #[must_use]
    pub const fn halves(self) -> Option<[Self; 2]> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        let depth = self.depth + 1;
        Some([Self { bits: self.bits << 1, depth }, Self { bits: self.bits << 1 | 1, depth }])
    }

    /// Returns whether the shard holds the fingerprint, if it is in use.
    #[must_use]
    pub fn contains(self, fingerprint: Fingerprint) -> bool {
        Self::of(fingerprint, self.depth) == self
    }

    /// Returns the name of the shard's object: `index.` and the bits.
    #[must_use]
    pub fn object(self) -> String {
        let mut name = String::from(SHARD_PREFIX);
        for bit in (0..self.depth).rev() {
            name.push(if self.bits >> bit & 1 == 1 { '1' } else { '0' });
        }
        name
    }
}

/// The first 32 bits in the order of the key's digits.
fn leading_word(fingerprint: Fingerprint) -> u32 {
    (fingerprint.low() as u32).swap_bytes()
}

/// The digits of keys: 6 bits each, in the order of ASCII, so that keys sort as fingerprints do.
/// Short keys matter: the speed of the index is that of the store's servers handling keys.
const DIGITS: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
/// The digits of a fingerprint of 128 bits.
const KEY_DIGITS: usize = 22;

/// Returns the key of a fingerprint's entry: the digits of its bytes.
#[must_use]
pub fn fingerprint_key(fingerprint: Fingerprint) -> String {
    let mut key = String::with_capacity(ENTRY_PREFIX.len() + KEY_DIGITS);
    key.push_str(ENTRY_PREFIX);
    push_digits(&mut key, fingerprint);
    key
}

pub(crate) fn push_digits(text: &mut String, fingerprint: Fingerprint) {
    let mut word = u128::from_be_bytes(fingerprint.to_bytes());
    for _ in 0..KEY_DIGITS {
        let digit = DIGITS.get((word >> 122) as usize).copied().unwrap_or_default();
        text.push(char::from(digit));
        word <<= 6;
    }
}

/// Reads the key of an entry.
#[must_use]
pub fn fingerprint_of_key(key: &str) -> Option<Fingerprint> {
    key.strip_prefix(ENTRY_PREFIX).and_then(fingerprint_of_digits)
}

/// Reads the digits at the beginning of a letter's key.
pub(crate) fn leading_fingerprint(key: &str) -> Option<Fingerprint> {
    fingerprint_of_digits(key.get(..KEY_DIGITS)?)
}

fn fingerprint_of_digits(digits: &str) -> Option<Fingerprint> {
    let digits: &[u8; KEY_DIGITS] = digits.as_bytes().try_into().ok()?;
    let mut word: u128 = 0;
    for (place, digit) in (1_u32..).zip(digits) {
        let value = DIGITS.binary_search(digit).ok()? as u128;
        // The last digit has the last two bits.
        word |= if place < 22 { value << (128 - 6 * place) } else { value >> 4 };
    }
    Some(Fingerprint::from_bytes(word.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_shard_is_named_by_the_leading_bits_of_the_key(hash: u128, depth in 0..=MAX_DEPTH) {
            let fingerprint = Fingerprint::of_hash(hash);
            let key = fingerprint_key(fingerprint);
            prop_assert_eq!(fingerprint_of_key(&key), Some(fingerprint));
            let word = u128::from_be_bytes(fingerprint.to_bytes());
            let digits = &format!("{word:0128b}")[..usize::from(depth)];
            let shard = Shard::of(fingerprint, depth);
            prop_assert_eq!(shard.object(), format!("index.{digits}"));
            prop_assert_eq!(Shard::new(shard.depth(), shard.bits()), Some(shard));
            if let Some(halves) = shard.halves() {
                let holders = halves.iter().filter(|half| half.contains(fingerprint));
                prop_assert_eq!(holders.count(), 1);
            }
        }
    }

    proptest! {
        #[test]
        fn keys_sort_as_the_bytes_of_fingerprints(one: u128, two: u128) {
            let (one, two) = (Fingerprint::of_hash(one), Fingerprint::of_hash(two));
            let order = one.to_bytes().cmp(&two.to_bytes());
            prop_assert_eq!(fingerprint_key(one).cmp(&fingerprint_key(two)), order);
        }
    }

    #[test]
    fn all_shards_are_different_and_other_keys_are_of_no_fingerprint() {
        assert_eq!(Shard::all(0).collect::<Vec<_>>(), [Shard::ALL]);
        let names: Vec<String> = Shard::all(2).map(Shard::object).collect();
        assert_eq!(names, ["index.00", "index.01", "index.10", "index.11"]);
        for key in ["f.", "f.0123456789", "f.012345678901234567890", "f.0123456789012345678901+"] {
            assert_eq!(fingerprint_of_key(key), None, "{key}");
        }
    }
}
