//! Reads of the index that change nothing, and the doubts that members exchange.

use super::{Index, SHARDS_AT_ONCE, numbers_of, set};
use crate::doubt::{self, Doubt, Doubts};
use crate::entry::{Entry, MemberId};
use crate::error::{DomainError, Result};
use crate::header::ShardState;
use crate::intent::{Action, Change};
use crate::wire::{MAX_ATTEMPTS, Read};
use gemelo_format::Fingerprint;
use std::collections::BTreeMap;

impl Index {
    /// Reads the entries of contents, in the order of the contents. A content that the index does
    /// not have, or whose entry is damaged, has none.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn entries(&mut self, contents: &[Fingerprint]) -> Result<Vec<Option<Entry>>> {
        let change =
            |fingerprint: &Fingerprint| Change { fingerprint: *fingerprint, action: Action::Share };
        let changes: Vec<Change> = contents.iter().map(change).collect();
        let mut entries: Vec<Option<Entry>> = vec![None; contents.len()];
        let mut open: Vec<usize> = (0..contents.len()).collect();
        for _ in 0..MAX_ATTEMPTS {
            let mut rest = Vec::new();
            let batches = self.batches(&changes, &open);
            for batches in batches.chunks(SHARDS_AT_ONCE) {
                let reads: Vec<Read> = batches
                    .iter()
                    .map(|(shard, changes)| Read::new(*shard, changes.clone()))
                    .collect();
                let values = self.wire.read(&reads)?;
                for (read, values) in reads.into_iter().zip(values) {
                    let Ok(decoded) = read.decode(values.as_ref()) else { continue };
                    // The entries of a shard stay until its halves are in use.
                    if decoded.header.state == ShardState::Split {
                        self.splits.insert(read.shard);
                        rest.extend(read.numbers());
                        continue;
                    }
                    for found in decoded.found {
                        set(&mut entries, found.number, found.before);
                    }
                }
            }
            let read = numbers_of(&batches);
            open.retain(|number| !read.contains(number));
            open.extend(rest);
            if open.is_empty() {
                return Ok(entries);
            }
        }
        Err(DomainError::Contended { changes: open.len(), rounds: MAX_ATTEMPTS })
    }

    /// Tells homes that blocks of theirs may be damaged.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn doubt(&self, doubts: &BTreeMap<MemberId, Vec<Doubt>>) -> Result<()> {
        self.wire.retry(|objects| doubt::send(objects, doubts))
    }

    /// Reads what others told about blocks of this member.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn doubts(&self, limit: usize) -> Result<Doubts> {
        self.wire.retry(|objects| doubt::read(objects, self.member, limit))
    }

    /// Removes doubts that were dealt with.
    ///
    /// # Errors
    /// Fails if the store does. The doubts are read again then.
    pub fn forget_doubts(&self, doubts: &Doubts) -> Result<()> {
        self.wire.retry(|objects| doubt::remove(objects, self.member, doubts))
    }
}
