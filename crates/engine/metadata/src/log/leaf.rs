//! The leaves of maps: a word for each of 512 LBNs where most are mapped, and else the mapped LBNs
//! of any stretch with their words.

use super::nodes::{Content, Node, Tally, Words};
use super::walk::first_of;
use gemelo_format::{DENSE_BITS, MAP_PAGE_ENTRIES, WordForm};

/// Mapped LBNs of 512 from which a leaf has a word for each LBN.
const DENSE_FROM: usize = 128;
/// Mapped LBNs of 512 down to which such a leaf stays as it is.
const DENSE_DOWN_TO: u16 = 64;
impl Node {
    #[inline]
    pub(super) fn word(&self, lbn: u64) -> u64 {
        match &self.content {
            Content::Dense(words, _) => words[lbn as usize % MAP_PAGE_ENTRIES],
            Content::Sparse(entries) => {
                entries.binary_search_by_key(&lbn, |entry| entry.0).map_or(0, |at| entries[at].1)
            }
            Content::Lost => WordForm::DAMAGED,
            Content::Inner(_) | Content::Gone => unreachable!("only a leaf has words"),
        }
    }

    /// The LBNs below a node that are mapped.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        match &self.content {
            Content::Inner(inner) => tally = inner.tally,
            Content::Dense(words, _) => {
                words.iter().for_each(|word| tally.add(Tally::of_word(*word)));
            }
            Content::Sparse(entries) => {
                entries.iter().for_each(|(_, word)| tally.add(Tally::of_word(*word)));
            }
            Content::Lost => tally.mapped = 1 << self.bits,
            Content::Gone => {}
        }
        tally
    }
}

pub(super) fn is_empty(content: &Content) -> bool {
    match content {
        Content::Dense(_, mapped) => *mapped == 0,
        Content::Sparse(entries) => entries.is_empty(),
        _ => false,
    }
}

pub(super) fn sparse_or_dense(entries: Vec<(u64, u64)>, bits: u8) -> Content {
    if bits > DENSE_BITS || entries.len() < DENSE_FROM {
        return Content::Sparse(entries);
    }
    let mut words: Box<Words> = Box::new([0; MAP_PAGE_ENTRIES]);
    for (lbn, word) in &entries {
        words[*lbn as usize % MAP_PAGE_ENTRIES] = *word;
    }
    Content::Dense(words, entries.len() as u16)
}

/// Sets a word of a leaf that has room for it. Returns the word before.
pub(super) fn set_in_leaf(content: &mut Content, bits: u8, lbn: u64, word: u64) -> u64 {
    if matches!(content, Content::Lost) {
        let damaged = [WordForm::DAMAGED; MAP_PAGE_ENTRIES];
        *content = Content::Dense(Box::new(damaged), MAP_PAGE_ENTRIES as u16);
    }
    match content {
        Content::Dense(words, mapped) => {
            let held = &mut words[lbn as usize % MAP_PAGE_ENTRIES];
            let before = std::mem::replace(held, word);
            *mapped = *mapped + u16::from(word != 0) - u16::from(before != 0);
            if word == 0 && (1..DENSE_DOWN_TO).contains(mapped) {
                let first = first_of(bits, lbn);
                let entries = (first..).zip(words.iter().copied()).filter(|(_, word)| *word != 0);
                *content = Content::Sparse(entries.collect());
            }
            before
        }
        Content::Sparse(entries) => {
            match (entries.binary_search_by_key(&lbn, |entry| entry.0), word) {
                (Ok(at), 0) => entries.remove(at).1,
                (Ok(at), word) => std::mem::replace(&mut entries[at].1, word),
                (Err(_), 0) => 0,
                (Err(at), word) => {
                    entries.insert(at, (lbn, word));
                    if bits == DENSE_BITS && entries.len() >= DENSE_FROM {
                        *content = sparse_or_dense(std::mem::take(entries), bits);
                    }
                    0
                }
            }
        }
        _ => unreachable!("only a leaf has words"),
    }
}
