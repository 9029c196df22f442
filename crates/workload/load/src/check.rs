//! Compares a block that was read with the content its place should hold.

use crate::contents::Contents;
use crate::history::Expected;
use gemelo_content::{BlockContent, ContentId, Examination};

/// Mismatches of a run that are kept. Further ones are only counted, which bounds the result file.
pub(crate) const MAX_MISMATCHES: usize = 100;

/// A block that does not hold what it should.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrongBlock {
    pub(crate) block: u64,
    pub(crate) expected: Expected,
    pub(crate) found: Examination,
}

/// Checks blocks, and keeps the first wrong ones.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    contents: &'a Contents,
    scratch: Vec<u8>,
    pub(crate) checked: u64,
    /// Blocks whose expected content is unknown; they were not compared.
    pub(crate) unknown: u64,
    pub(crate) wrong_count: u64,
    pub(crate) wrong: Vec<WrongBlock>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(contents: &'a Contents) -> Self {
        let scratch = vec![0; contents.generator.block_bytes()];
        Self { contents, scratch, checked: 0, unknown: 0, wrong_count: 0, wrong: Vec::new() }
    }

    #[inline]
    pub(crate) fn check(&mut self, block: u64, expected: Expected, bytes: &[u8]) {
        let found = match expected {
            Expected::Unknown => {
                self.unknown += 1;
                return;
            }
            Expected::Content(BlockContent::Zeros) => self.examine_zeros(bytes),
            Expected::Content(content) => {
                self.contents.generator.examine(content, bytes, &mut self.scratch)
            }
        };
        self.checked += 1;
        if found != Examination::Match {
            self.remember(WrongBlock { block, expected, found });
        }
    }

    /// Returns what a block holds, if it is a content or zeros.
    pub(crate) fn held(&mut self, bytes: &[u8]) -> Expected {
        if gemelo_base::is_zero(bytes) {
            return Expected::Content(BlockContent::Zeros);
        }
        self.holds_content(bytes).map_or(Expected::Unknown, |id| Expected::Content(id.into()))
    }

    #[cold]
    pub(crate) fn remember(&mut self, wrong: WrongBlock) {
        self.wrong_count += 1;
        if self.wrong.len() < MAX_MISMATCHES {
            self.wrong.push(wrong);
        }
    }

    fn examine_zeros(&mut self, bytes: &[u8]) -> Examination {
        let Some(first_difference) = bytes.iter().position(|byte| *byte != 0) else {
            return Examination::Match;
        };
        if let Some(id) = self.holds_content(bytes) {
            return Examination::Other(id);
        }
        let different_bytes = bytes.iter().filter(|byte| **byte != 0).count();
        Examination::Garbage { first_difference, different_bytes }
    }

    fn holds_content(&mut self, bytes: &[u8]) -> Option<ContentId> {
        let id = self.contents.generator.identify(bytes)?;
        self.contents.generator.fill(id, &mut self.scratch);
        (bytes == self.scratch).then_some(id)
    }
}
