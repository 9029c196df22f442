//! Telling the end of the journal from damage, and measuring what is lost.

use super::reader::{FoundCommit, RingPage, Unreadable};
use super::{GivenUp, JournalReader, LostHistory, Replayed};
use crate::error::FormatError;
use crate::{COPIES, Commit, DiskRole, FlushMarks, LAST_NUMBER};
use std::io;
use std::ops::Range;

/// Lost commits that a replay went past.
#[derive(Default)]
pub(super) struct Gaps {
    /// The number of the first lost commit, and of the commit that the replay went on with.
    pub(super) first: Option<(u64, u64)>,
    commits: u64,
    max_changes: Option<u64>,
}

impl JournalReader<'_> {
    /// Notes that commits before `next` are lost.
    pub(super) fn note_gap(&mut self, next: Option<&FoundCommit>, headers: &[Commit]) {
        let Some(next) = next.map(|found| found.commit.header.number) else { return };
        if next == self.number {
            return;
        }
        let most = max_changes(self.number..next, headers);
        let gaps = &mut self.gaps;
        gaps.max_changes = match gaps.first {
            None => most,
            Some(_) => gaps.max_changes.zip(most).map(|(a, b)| a.saturating_add(b)),
        };
        gaps.commits += next - self.number;
        gaps.first.get_or_insert((self.number, next));
    }

    /// Tells the end of the journal from damage. A crash breaks at most the last commit, and that
    /// only if no flush mark names it. If a later one is there, the one that should be next was
    /// damaged; if one of a later generation is there, the root that went with it was.
    pub(super) fn judge(mut self) -> Result<Replayed, FormatError> {
        let (next, marks) = (self.number, self.marks);
        let headers = match self.headers.take() {
            Some(headers) => headers,
            None => self.ring.search(next)?,
        };
        let left: Vec<Commit> =
            headers.iter().filter(|at| at.header.number >= next).copied().collect();
        let unreadable_pages = self.check_readable(&left)?;
        let newest = left.iter().map(|at| at.header.number).max();
        let marked = marks.newest.map(|mark| mark.commit).filter(|commit| *commit >= next);
        let generation = left.iter().map(|at| at.header.generation).max();
        let marked_root = marks.newest.map_or(0, |mark| mark.generation);
        let generation = generation.unwrap_or(0).max(self.root.generation).max(marked_root);
        let what = self.describe_loss(&left, newest, marks);
        let (mut next_commit, mut given_up, mut lost) = (next, GivenUp::default(), None);
        if let Some(what) = what {
            let after = newest.max(marked).unwrap_or(0).saturating_add(1);
            next_commit = next.max(after);
            given_up = self.ring.given_up(next, &headers)?;
            lost = Some(self.measure_loss(what, marked, &left)?);
        }
        if next_commit >= LAST_NUMBER {
            let what = format!("the journal: no number is left after commit {}", next_commit - 1);
            return Err(FormatError::damaged(what));
        }
        Ok(Replayed {
            next_commit,
            head: self.head,
            generation,
            lost,
            last: self.last,
            incomplete: self.incomplete,
            mended: self.mended,
            half_damaged: self.half_damaged,
            unreadable_pages,
            marks,
            given_up,
        })
    }

    /// Fails if the next commit may be in pages that the disk could not read. Such a commit begins
    /// at the head or at the ring's start, so its header is unreadable in both rings. If a header
    /// of it was found and no copy is good, one unreadable page is enough. Returns the number of
    /// unreadable pages.
    fn check_readable(&self, left: &[Commit]) -> Result<u64, FormatError> {
        let Unreadable { pages, error } = self.ring.unreadable.take();
        let outside = pages.iter().any(|page| !self.is_replayed(page.offset));
        let is_begun = left.iter().any(|at| at.header.number == self.number);
        let is_header_hidden =
            |offset: u64| (0..COPIES).all(|ring| pages.contains(&RingPage { ring, offset }));
        let is_hidden = is_begun && outside || [self.head, 0].into_iter().any(is_header_hidden);
        match error.filter(|_| is_hidden) {
            Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(FormatError::damaged("the journal: the metadata disk ends before it does"))
            }
            Some(error) => Err(FormatError::io(DiskRole::Metadata, "read")(error)),
            None => Ok(pages.len() as u64),
        }
    }

    /// Returns whether a page lies in the part of the ring that the replayed commits take.
    fn is_replayed(&self, page: u64) -> bool {
        let (tail, head) = (self.root.journal_offset, self.head);
        match head < tail {
            true => page >= tail || page < head,
            false => (tail..head).contains(&page),
        }
    }

    fn describe_loss(
        &self,
        left: &[Commit],
        newest: Option<u64>,
        marks: FlushMarks,
    ) -> Option<String> {
        let next = self.number;
        let is_lost = |generation: &u64| *generation > self.root.generation;
        if let Some(marked) = marks.newest.map(|mark| mark.generation).filter(is_lost) {
            return Some(format!(
                "the root of checkpoint {marked}, which a flush mark names; the newest one left is \
                 {}",
                self.root.generation
            ));
        }
        let later = left.iter().find(|at| at.header.generation > self.root.generation);
        if let Some(Commit { header, .. }) = later {
            return Some(format!(
                "the root of checkpoint {}, which commit {} follows; the newest one left is {}",
                header.generation, header.number, self.root.generation
            ));
        }
        let follower = newest.filter(|newest| *newest > next).map(|newest| (next, newest));
        if let Some((lost, follower)) = self.gaps.first.or(follower) {
            return Some(format!("commit {lost} of the journal, which commit {follower} follows"));
        }
        let marked = marks.newest.map(|mark| mark.commit).filter(|commit| *commit >= next);
        marked.map(|marked| {
            format!(
                "commit {next} of the journal: a flush mark says that commit {marked} is durable"
            )
        })
    }

    /// The extent of the loss: the commits that were skipped, or those at the end up to the first
    /// that can be read.
    fn measure_loss(
        &self,
        what: String,
        marked: Option<u64>,
        left: &[Commit],
    ) -> Result<LostHistory, FormatError> {
        let next = self.number;
        let follower = self.first_after(next, left)?.map(|found| found.commit.header.number);
        let newest = left.iter().map(|at| at.header.number).max();
        // A broken commit that nothing follows and no mark names is one that a crash tore.
        let last = newest.filter(|newest| *newest > next).max(marked);
        let end = follower.or(last.map(|last| last.saturating_add(1)));
        let range = next..end.unwrap_or(next).max(next);
        let max_at_end = max_changes(range.clone(), left);
        let Gaps { first, commits, max_changes } = &self.gaps;
        let max_changes = match first {
            None => max_at_end,
            Some(_) if range.is_empty() => *max_changes,
            Some(_) => max_changes.zip(max_at_end).map(|(a, b)| a.saturating_add(b)),
        };
        Ok(LostHistory {
            what,
            commits: commits + (range.end - range.start),
            max_changes,
            can_skip: follower.is_some() || first.is_some(),
        })
    }
}

/// The most changes that commits can hold together, if the headers of all of them are there.
fn max_changes(mut numbers: Range<u64>, headers: &[Commit]) -> Option<u64> {
    numbers.try_fold(0u64, |sum, number| {
        let at = headers.iter().find(|at| at.header.number == number)?;
        Some(sum.saturating_add(at.header.max_changes()))
    })
}
