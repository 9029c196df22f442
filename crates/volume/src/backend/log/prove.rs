//! Counting again: whether counts, totals and index are what maps and records say.

use super::LogBackend;
use crate::types::Place;

impl LogBackend {
    pub(super) fn prove_counts(&self, most: usize) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut counted = vec![0u32; usize::try_from(self.data_blocks).unwrap_or(0)];
        let mut references = 0;
        for (id, volume) in &self.volumes {
            let mut mapped = 0;
            for word in volume.map.pages().flat_map(|(_, page)| page.words) {
                mapped += u64::from(word != 0);
                if let Place::Stored(pbn) = Place::from_word(word) {
                    references += 1;
                    match counted.get_mut(pbn.index()) {
                        Some(count) => *count += 1,
                        None => wrong.push(format!("volume {id} refers to block {}", pbn.number())),
                    }
                }
            }
            if mapped != volume.map.mapped() {
                wrong.push(format!("volume {id} maps {mapped} blocks, not {}", volume.map.mapped()));
            }
        }
        let physical = counted.iter().filter(|count| **count > 0).count() as u64;
        if (references, physical) != (self.references, self.physical) {
            wrong.push(format!(
                "there are {references} references to {physical} blocks, not {} to {}",
                self.references, self.physical
            ));
        }
        self.records.visit(&mut |pbn, record| {
            let right = counted.get_mut(pbn.index()).map_or(0, std::mem::take);
            if record.references != right {
                let number = pbn.number();
                wrong.push(format!("block {number} has {right} references, not {}", record.references));
            }
        });
        wrong.extend(counted.iter().any(|count| *count > 0).then(|| "a block has no record".to_owned()));
        self.prove_index(&mut wrong);
        wrong.truncate(most);
        wrong
    }

    /// Every entry leads to a referenced block, and is the one found for its fingerprint. An entry may be missing: a content
    /// that is stored twice has one, which goes when its block does.
    fn prove_index(&self, wrong: &mut Vec<String>) {
        for pbn in self.index.pbns() {
            let record = self.records.get(pbn);
            if record.references == 0 || self.index.find(record.fingerprint, &self.records) != Some(pbn) {
                wrong.push(format!("the index has block {}, which it should not", pbn.number()));
            }
        }
    }
}
