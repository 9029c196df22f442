//! The values of trees that are no maps, and of the pages of records: read again, page after page.

use crate::source::Source;
use crate::{CheckError, Work};
use gemelo_format::{Identity, Node, NodeRef, Page, Part, array_value, bucket_entries};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages that are read in one list, first and at most: a caller may want few values.
const FIRST_PAGES: usize = 2;
const MAX_PAGES: usize = 256;

/// The leaves of a tree, by the first of their keys.
pub(crate) struct Leaves {
    part: Part,
    is_array: bool,
    all: Vec<(u64, NodeRef)>,
    /// Keys whose pages are lost.
    pub(crate) lost: Vec<Range<u64>>,
}

/// The values of a leaf that are not 0, by key. `None` if the page is malformed.
pub(crate) fn values_of(
    page: &Page,
    part: Part,
    is_array: bool,
    first: u64,
) -> Option<Vec<(u64, u128)>> {
    if !is_array {
        return Some(Node::of(page, part, 0)?.entries().collect());
    }
    if part == Part::Index {
        return Some(bucket_entries(page)?.into_iter().map(|entry| (entry, 1)).collect());
    }
    let values = (0..part.array_entries()).map(|at| array_value(page, at, part.value_bytes()));
    Some((first..).zip(values).filter(|(_, value)| *value != 0).collect())
}

impl Leaves {
    pub(crate) const fn new(part: Part, is_array: bool) -> Self {
        Self { part, is_array, all: Vec::new(), lost: Vec::new() }
    }

    /// Adds a leaf, which follows those before it.
    pub(crate) fn add(&mut self, first: u64, at: NodeRef) {
        self.all.push((first, at));
    }

    pub(crate) fn pages(&self) -> u64 {
        self.all.len() as u64
    }

    /// The values whose keys are at or after `from`, in their order. The index of an array has no
    /// order, and is read from 0 on.
    pub(crate) fn from<'l>(
        &'l self,
        (source, work): (&'l Source, Work<'l>),
        from: u64,
    ) -> Values<'l> {
        let next = self.all.partition_point(|(first, _)| *first <= from).saturating_sub(1);
        Values {
            leaves: self,
            source,
            work,
            next,
            at_once: FIRST_PAGES,
            from,
            ready: Vec::new().into_iter(),
            peeked: None,
        }
    }
}

/// The values of a tree; see [`Leaves::from`].
pub(crate) struct Values<'l> {
    leaves: &'l Leaves,
    source: &'l Source,
    work: Work<'l>,
    next: usize,
    at_once: usize,
    from: u64,
    ready: std::vec::IntoIter<(u64, u128)>,
    peeked: Option<(u64, u128)>,
}

impl Values<'_> {
    pub(crate) fn next(&mut self) -> Result<Option<(u64, u128)>, CheckError> {
        if let Some(value) = self.peeked.take() {
            return Ok(Some(value));
        }
        loop {
            let from = self.from;
            if let Some(value) = self.ready.find(|(key, _)| *key >= from) {
                return Ok(Some(value));
            }
            let rest = self.leaves.all.get(self.next..).unwrap_or_default();
            let some = rest.get(..self.at_once).unwrap_or(rest);
            self.at_once = (2 * self.at_once).min(MAX_PAGES);
            if some.is_empty() {
                return Ok(None);
            }
            self.next += some.len();
            self.work.go_on(some.len() as u64)?;
            let pages =
                self.source.read_all(&some.iter().map(|(_, at)| *at).collect::<Vec<_>>())?;
            let Leaves { part, is_array, .. } = *self.leaves;
            let values = some.iter().zip(&pages);
            let values =
                values.filter_map(|((first, _), page)| values_of(page, part, is_array, *first));
            self.ready = values.flatten().collect::<Vec<_>>().into_iter();
        }
    }

    /// The next value, which stays.
    pub(crate) fn peek(&mut self) -> Result<Option<(u64, u128)>, CheckError> {
        self.peeked = self.next()?;
        Ok(self.peeked)
    }
}

/// The change of an identity by the journal.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    new: Option<Identity>,
    /// The block that had the identity at the checkpoint, if its content was moved here.
    origin: Option<u64>,
    is_suspect: Option<bool>,
}

impl Change {
    fn of(self, stored: Identity) -> Identity {
        let identity = self.new.unwrap_or(stored);
        self.is_suspect.map_or(identity, |is_suspect| identity.with_suspect(is_suspect))
    }
}

/// The identities of blocks: their fingerprints, and whether they are marked as damaged.
pub(crate) struct Identities {
    pub(crate) stored: Leaves,
    changed: BTreeMap<u64, Change>,
}

impl Identities {
    pub(crate) const fn new(stored: Leaves) -> Self {
        Self { stored, changed: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, pbn: u64, identity: Identity) {
        self.changed.insert(pbn, Change { new: Some(identity), ..Change::default() });
    }

    /// Gives a block the identity of another one.
    pub(crate) fn move_to(&mut self, from: u64, to: u64) {
        let mut moved = self.changed.get(&from).copied().unwrap_or_default();
        if moved.new.is_none() {
            moved.origin.get_or_insert(from);
        }
        self.changed.insert(to, moved);
    }

    /// Looks up the identities that were moved, in the order of their origins.
    pub(crate) fn find_moved(&mut self, read: (&Source, Work<'_>)) -> Result<(), CheckError> {
        let moved = self.changed.iter();
        let moved = moved.filter_map(|(to, change)| Some((change.origin?, *to)));
        let mut moved: Vec<(u64, u64)> = moved.collect();
        moved.sort_unstable();
        let Some((first, _)) = moved.first() else { return Ok(()) };
        let mut stored = self.stored.from(read, *first);
        for (origin, to) in moved {
            while stored.peek()?.is_some_and(|(pbn, _)| pbn < origin) {
                stored.next()?;
            }
            let found = stored.peek()?.filter(|(pbn, _)| *pbn == origin);
            let bits = found.map_or(0, |(_, bits)| bits);
            let change = self.changed.entry(to).or_default();
            (change.new, change.origin) = (Some(Identity::from_bytes(bits.to_le_bytes())), None);
        }
        Ok(())
    }

    pub(crate) fn suspect(&mut self, pbn: u64, is_suspect: bool) {
        self.changed.entry(pbn).or_default().is_suspect = Some(is_suspect);
    }

    /// Calls `visit` with all PBNs from `from` on that have an identity, in order, until it returns
    /// `false`.
    pub(crate) fn each(
        &self,
        read: (&Source, Work<'_>),
        from: u64,
        visit: &mut dyn FnMut(u64, Identity) -> bool,
    ) -> Result<(), CheckError> {
        let mut stored = self.stored.from(read, from);
        let mut changed = self.changed.range(from..).peekable();
        loop {
            let next =
                stored.peek()?.map(|(pbn, bits)| (pbn, Identity::from_bytes(bits.to_le_bytes())));
            let change = changed.peek().map(|(pbn, change)| (**pbn, **change));
            let (pbn, identity) = match (next, change) {
                (None, None) => return Ok(()),
                (Some((pbn, identity)), None) => (pbn, identity),
                (Some((pbn, identity)), Some((other, _))) if pbn < other => (pbn, identity),
                (Some((pbn, identity)), Some((other, change))) if pbn == other => {
                    (pbn, change.of(identity))
                }
                (_, Some((pbn, change))) => (pbn, change.of(Identity::NONE)),
            };
            if next.is_some_and(|(stored, _)| stored == pbn) {
                stored.next()?;
            }
            changed.next_if(|(other, _)| **other == pbn);
            if !visit(pbn, identity) {
                return Ok(());
            }
        }
    }
}
