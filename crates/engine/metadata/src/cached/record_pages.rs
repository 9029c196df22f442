//! Reads the records on disk in the order of their PBNs, some pages at a time and past the cache.

use super::array;
use super::cache::Width;
use super::layout::Visitor;
use super::pages::Pages;
use super::stored::value;
use crate::error::{MetadataError, Result};
use gemelo_format::{Fingerprint, Identity, NodeRef, Part, Tree};
use std::ops::{ControlFlow, Range};

/// Pages of records, with the PBNs of each.
pub(super) struct RecordPages {
    most: usize,
    pages: Vec<(Range<u64>, NodeRef)>,
    /// The PBN at which the next pages begin, if there are more.
    pub(super) next: Option<u64>,
}

impl Visitor for RecordPages {
    fn wants_values(&self) -> bool {
        false
    }

    fn leaf(&mut self, pbns: Range<u64>, at: NodeRef) -> ControlFlow<()> {
        if self.pages.len() == self.most {
            self.next = Some(pbns.start);
            return ControlFlow::Break(());
        }
        self.pages.push((pbns, at));
        ControlFlow::Continue(())
    }

    /// The blocks of lost pages are not found as duplicates. The pool takes no writes any more.
    fn lost(&mut self, _pbns: Range<u64>, _error: MetadataError) -> Result<()> {
        Ok(())
    }
}

impl RecordPages {
    /// Finds the pages of records from a PBN on, at most `most`.
    pub(super) fn find(pages: &Pages, records: &Tree, first: u64, most: usize) -> Result<Self> {
        let mut part = Self { most, pages: Vec::new(), next: None };
        array::walk(pages, records, Part::Fingerprints, first, &mut part)?;
        Ok(part)
    }

    pub(super) fn places(&self) -> Vec<NodeRef> {
        self.pages.iter().map(|(_, at)| *at).collect()
    }

    /// The PBNs of these pages that have a fingerprint. The pages do not become cached.
    pub(super) fn read(&self, pages: &Pages) -> Result<Vec<(u64, Fingerprint)>> {
        let mut records = Vec::new();
        let ahead = pages.read_ahead(&self.places());
        for ((pbns, at), page) in self.pages.iter().zip(ahead) {
            let page = match page.map_or_else(|| pages.read(*at, Width::Narrow), Ok) {
                Err(MetadataError::Damaged { .. }) => continue,
                page => page?,
            };
            let identity = |pbn| {
                let bits = value(&page, Part::Fingerprints, pbn);
                Identity::from_bytes(bits.to_le_bytes())
            };
            let all = pbns.clone().map(|pbn| (pbn, identity(pbn).fingerprint()));
            records.extend(all.filter(|(_, fingerprint)| !fingerprint.is_none()));
        }
        Ok(records)
    }
}
