//! Contents of the domain as copies of what a member has lost.
//!
//! The index leads to the home of a content. A member that lost a block of its own, such as one
//! that it has not published or has written again itself, finds the content there.

use crate::foreign::ForeignRead;
use crate::shared::Shared;
use gemelo_domain::{DomainConfig, Entry, find_content};
use gemelo_format::Fingerprint;
use gemelo_objects::Objects;
use gemelo_store::{ContentRead, Copies};
use std::sync::Arc;

/// The contents of the domain, as one member reads them.
pub(crate) struct DomainCopies {
    pub(crate) shared: Arc<Shared>,
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) config: DomainConfig,
}

impl Copies for DomainCopies {
    fn read(&self, wanted: &[Fingerprint], found: &mut dyn FnMut(&[u8])) {
        let mut content = vec![0; self.config.block_bytes as usize];
        for fingerprint in wanted {
            // A store that does not answer has no copies at present.
            if let Ok(Some(entry)) = find_content(&*self.objects, &self.config, *fingerprint)
                && self.read_at(entry, &mut content)
            {
                found(&content);
            }
        }
    }
}

impl DomainCopies {
    /// Reads a content at its home. Returns whether that was possible.
    fn read_at(&self, entry: Entry, content: &mut [u8]) -> bool {
        let Entry { home, pbn, .. } = entry;
        if home == self.shared.member {
            let Ok(below) = self.shared.below() else { return false };
            let mut reads = [ContentRead::new(pbn, 0, content)];
            below.read(&mut reads);
            let [read] = reads;
            return read.outcome.is_ok();
        }
        let mut reads = [ForeignRead { home, pbn, within: 0, buffer: content, outcome: Ok(()) }];
        self.shared.foreign.read(&mut reads);
        let [read] = reads;
        read.outcome.is_ok()
    }
}
