//! Counts the references again and compares counts, totals and index with the maps and records.

use super::LogBackend;
use super::apply::FULL_COUNT;
use gemelo_format::Place;
use std::collections::HashSet;
use std::sync::Arc;

impl LogBackend {
    pub(super) fn prove_counts(&self, most: usize) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut counted = vec![0u32; usize::try_from(self.pbn_end()).unwrap_or(0)];
        let mut seen = HashSet::new();
        let mut shared_pages = 0;
        for (id, volume) in &self.volumes {
            let (mut mapped, mut stored) = (0, 0);
            for (_, page) in volume.map.pages() {
                let is_first = seen.insert(Arc::as_ptr(page));
                shared_pages += u64::from(!is_first);
                for word in page.words {
                    mapped += u64::from(word != 0);
                    let Some(pbn) = Place::from_word(word).pbn() else { continue };
                    stored += 1;
                    match counted.get_mut(pbn.index()) {
                        Some(count) => *count = count.saturating_add(u32::from(is_first)),
                        None => wrong.push(format!("volume {id} refers to block {}", pbn.number())),
                    }
                }
            }
            let map = &volume.map;
            if (mapped, stored) != (map.mapped(), map.stored()) {
                let (counted, known) = (map.mapped(), map.stored());
                wrong.push(format!(
                    "volume {id} maps {mapped} blocks, {stored} known, not {counted}, {known}"
                ));
            }
        }
        let physical = counted.iter().filter(|count| **count > 0).count() as u64;
        if physical != self.physical {
            wrong.push(format!(
                "there are references to {physical} blocks, not to {}",
                self.physical
            ));
        }
        if shared_pages != self.shared_pages {
            wrong.push(format!("{shared_pages} pages are shared, not {}", self.shared_pages));
        }
        self.records.visit(&mut |pbn, record| {
            let right = counted.get_mut(pbn.index()).map_or(0, std::mem::take);
            if record.references != right && record.references != FULL_COUNT {
                let number = pbn.number();
                wrong.push(format!(
                    "block {number} has {right} references, not {}",
                    record.references
                ));
            }
        });
        wrong.extend(
            counted.iter().any(|count| *count > 0).then(|| "a block has no record".to_owned()),
        );
        self.prove_index(&mut wrong);
        wrong.truncate(most);
        wrong
    }

    /// Checks that every index entry leads to a referenced block, and that the fingerprint of that
    /// block leads to an entry. An entry may be missing: a content that is stored twice may have
    /// one entry, which goes with its block.
    fn prove_index(&self, wrong: &mut Vec<String>) {
        for pbn in self.index.pbns() {
            let record = self.records.get(pbn);
            if record.references == 0
                || self.index.find(record.fingerprint, &self.records).is_none()
            {
                wrong.push(format!("the index has block {}, which it should not", pbn.number()));
            }
        }
    }
}
