//! Iteration over the counted contents in ascending order, with temporary runs and memory merged.

use super::spill::{Run, RunReader, SpillFile};
use super::table::{Counted, Table};
use super::{CountingSet, Runs, locked};
use std::io;

impl CountingSet {
    /// Passes every content to `each`, in ascending order of fingerprints.
    ///
    /// # Errors
    /// Fails if the temporary file cannot be read, or if `each` fails.
    pub(crate) fn for_each<E: From<io::Error>>(
        &self,
        mut each: impl FnMut(Counted) -> Result<(), E>,
    ) -> Result<(), E> {
        let runs = self.spill.as_ref().map(|spill| (spill.memory_bytes, locked(&spill.runs)));
        for (index, lock) in self.shards.iter().enumerate() {
            let table = locked(lock);
            let spilled = runs.as_ref().and_then(|(memory_bytes, runs)| {
                let Runs { file, shards } = &**runs;
                Some((
                    file.as_ref()?,
                    shards.get(index).filter(|runs| !runs.is_empty())?,
                    *memory_bytes,
                ))
            });
            match spilled {
                None => table.iter().try_for_each(&mut each)?,
                Some((file, runs, memory_bytes)) => {
                    merge(&table, file, runs, memory_bytes, &mut each)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the last 64 bits of the fingerprints in memory.
    pub(crate) fn lows(&self) -> Vec<u64> {
        let mut lows = Vec::new();
        for shard in &self.shards {
            lows.extend(locked(shard).iter().map(|entry| entry.fingerprint.low));
        }
        lows
    }
}

/// The next content of a source, with the reader of its run; the table has no reader.
type SourceHead<'file> = (Counted, Option<RunReader<'file>>);

fn merge<E: From<io::Error>>(
    table: &Table,
    file: &SpillFile,
    runs: &[Run],
    memory_bytes: u64,
    each: &mut impl FnMut(Counted) -> Result<(), E>,
) -> Result<(), E> {
    let read_bytes = SpillFile::read_bytes(runs.len(), memory_bytes / 2);
    let mut memory = table.iter();
    let mut heads: Vec<SourceHead<'_>> = Vec::with_capacity(runs.len() + 1);
    for run in runs {
        let mut reader = file.reader(*run, read_bytes);
        if let Some(first) = reader.next()? {
            heads.push((first, Some(reader)));
        }
    }
    heads.extend(memory.next().map(|first| (first, None)));
    let mut heap: std::collections::BinaryHeap<_> = heads
        .iter()
        .enumerate()
        .map(|(index, (content, _))| std::cmp::Reverse((content.fingerprint, index)))
        .collect();
    let mut pending: Option<Counted> = None;
    while let Some(std::cmp::Reverse((_, index))) = heap.pop() {
        let Some((content, reader)) = heads.get_mut(index) else { continue };
        match &mut pending {
            Some(same) if same.fingerprint == content.fingerprint => same.copies += content.copies,
            _ => {
                if let Some(done) = pending.replace(*content) {
                    each(done)?;
                }
            }
        }
        let next = match reader {
            Some(reader) => reader.next()?,
            None => memory.next(),
        };
        if let Some(next) = next {
            *content = next;
            heap.push(std::cmp::Reverse((next.fingerprint, index)));
        }
    }
    pending.map_or(Ok(()), each)
}
