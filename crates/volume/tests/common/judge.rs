//! Compares the contents of a pool with those that the history allows.

use super::BLOCK;
use super::history::{BlockHistory, Flushes, Moments, NEVER, Time, View};
use super::storm::{Change, Log, VolumeEvent};
use gemelo_volume::Pool;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The volumes of a pool with their contents.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    pub volumes: BTreeMap<String, VolumeContent>,
}

#[derive(Debug, Clone)]
pub struct VolumeContent {
    pub read_only: bool,
    pub bytes: Vec<u8>,
}

impl Contents {
    pub fn of(pool: &Pool) -> Self {
        let volumes = pool.volumes().into_iter().map(|summary| {
            let volume = pool.volume(&summary.record.name).unwrap();
            let bytes = super::read(&volume, 0, summary.record.size_bytes as usize);
            let bytes = bytes.unwrap_or_else(|error| panic!("{}: {error}", summary.record.name));
            (summary.record.name, VolumeContent { read_only: summary.record.read_only, bytes })
        });
        Self { volumes: volumes.collect() }
    }
}

/// A value that was changed by one thread, one change after another.
#[derive(Debug)]
struct Register<T> {
    changes: Vec<(Time, Time, T)>,
}

impl<T: PartialEq> Register<T> {
    /// Returns whether the value is possible after a power cut at that moment.
    fn allows(&self, value: &T, at: Time) -> bool {
        let begun = self.changes.iter().filter(|(start, ..)| *start < at);
        let newest_first: Vec<_> = begun.collect();
        for (_, done, candidate) in newest_first.into_iter().rev() {
            if candidate == value {
                return true;
            }
            if *done < at {
                return false;
            }
        }
        false
    }
}

struct VolumeHistory {
    names: Register<String>,
    sizes: Register<usize>,
    /// `true` while the volume exists.
    exists: Register<bool>,
    read_only: bool,
    blocks: Vec<BlockHistory>,
    copy: Option<Copy>,
}

/// The source of a copied volume, and the moments between which the copy was made.
struct Copy {
    source: usize,
    start: Time,
    end: Time,
    /// The initial contents, if a thread has read them.
    bytes: Option<Vec<u8>>,
}

/// All requests and commands since the pool was opened.
pub struct History {
    volumes: Vec<VolumeHistory>,
}

fn blocks_of(bytes: &[u8], since: Time) -> Vec<BlockHistory> {
    bytes.chunks(BLOCK).map(|block| BlockHistory::new(block.into(), since)).collect()
}

/// Adds blocks that were never written, up to this many.
fn extend(blocks: &mut Vec<BlockHistory>, count: usize, since: Time) {
    let zeros: Arc<[u8]> = vec![0; BLOCK].into();
    blocks.resize_with(count.max(blocks.len()), || BlockHistory::new(Arc::clone(&zeros), since));
}

impl History {
    /// Begins the history of a pool that had these contents when it was opened, at moment 0.
    pub fn new(contents: &Contents) -> Self {
        let volume = |(name, content): (&String, &VolumeContent)| VolumeHistory {
            names: Register { changes: vec![(0, 0, name.clone())] },
            sizes: Register { changes: vec![(0, 0, content.bytes.len() / BLOCK)] },
            exists: Register { changes: vec![(0, 0, true)] },
            read_only: content.read_only,
            blocks: blocks_of(&content.bytes, 0),
            copy: None,
        };
        Self { volumes: contents.volumes.iter().map(volume).collect() }
    }

    /// Adds a log, and checks the reads and copies in it.
    pub fn add(&mut self, log: Log) -> Result<(), String> {
        let flushes = Flushes::new(log.flushes.iter().copied());
        let mut events = log.volumes;
        events.sort_by_key(|event| event.start);
        for event in events {
            self.add_event(event);
        }
        for write in &log.writes {
            self.volumes[write.volume].blocks[write.block].add(write, &flushes);
        }
        for read in &log.reads {
            let view = View::Read { start: read.start, end: read.end };
            for (number, bytes) in read.bytes.chunks(BLOCK).enumerate() {
                let block = read.block + number;
                let result = self.volumes[read.volume].blocks[block].explain(bytes, view);
                result.map_err(|why| format!("read of block {block} of {}: {why}", read.volume))?;
            }
        }
        for (id, volume) in self.volumes.iter().enumerate() {
            if let Some(copy) = &volume.copy
                && let Some(bytes) = &copy.bytes
            {
                self.check_copy(copy, bytes, copy.end)
                    .map_err(|why| format!("copy {id}: {why}"))?;
            }
        }
        Ok(())
    }

    fn add_event(&mut self, event: VolumeEvent) {
        let VolumeEvent { volume, what, start, end, is_done } = event;
        let done = if is_done { end } else { NEVER };
        if let Change::Create { name, blocks, read_only, copy } = what {
            assert_eq!(volume, self.volumes.len(), "volumes are made one after another");
            let known = copy.as_ref().and_then(|(_, bytes)| bytes.clone()).unwrap_or_default();
            let copy = copy.map(|(source, bytes)| Copy { source, start, end, bytes });
            let mut histories = blocks_of(&known, start);
            extend(&mut histories, blocks, start);
            self.volumes.push(VolumeHistory {
                names: Register { changes: vec![(0, 0, name)] },
                sizes: Register { changes: vec![(0, 0, blocks)] },
                exists: Register { changes: vec![(0, 0, false), (start, done, true)] },
                read_only,
                blocks: histories,
                copy,
            });
            return;
        }
        let volume = &mut self.volumes[volume];
        match what {
            Change::Resize { blocks } => {
                extend(&mut volume.blocks, blocks, 0);
                volume.sizes.changes.push((start, done, blocks));
            }
            Change::Rename { name } => volume.names.changes.push((start, done, name)),
            Change::Remove | Change::Create { .. } => {
                volume.exists.changes.push((start, done, false));
            }
        }
    }

    /// Checks that a copy shows its source at one moment.
    fn check_copy(&self, copy: &Copy, bytes: &[u8], end: Time) -> Result<(), String> {
        let view = View::Read { start: copy.start, end };
        let mut moments = Moments { first: copy.start, last: end };
        for (number, content) in bytes.chunks(BLOCK).enumerate() {
            let explained = self.volumes[copy.source].blocks[number].explain(content, view);
            let explained = explained.map_err(|why| format!("block {number}: {why}"))?;
            let before = moments;
            moments = moments.and(explained);
            if moments.first > moments.last {
                return Err(format!(
                    "block {number} was so in {explained:?}, others in {before:?}"
                ));
            }
        }
        Ok(())
    }

    /// Drops the writes that no power cut from this moment on can show.
    pub fn forget(&mut self, at: Time) {
        // A copy that was not read yet will be compared with the past of its source.
        let unread = self.volumes.iter().filter_map(|volume| volume.copy.as_ref());
        let unread = unread.filter(|copy| copy.bytes.is_none()).map(|copy| copy.start).min();
        let at = at.min(unread.unwrap_or(NEVER));
        self.volumes
            .iter_mut()
            .flat_map(|volume| &mut volume.blocks)
            .for_each(|block| block.forget(at));
    }

    /// Checks that a power cut at that moment may leave these contents.
    pub fn check(&self, found: &Contents, at: Time) -> Result<(), String> {
        let mut left: Vec<&String> = found.volumes.keys().collect();
        for (id, volume) in self.volumes.iter().enumerate() {
            let content = found.volumes.iter().find(|(name, _)| volume.names.allows(name, at));
            if !volume.exists.allows(&content.is_some(), at) {
                let is = if content.is_some() { "is" } else { "is not" };
                return Err(format!("volume {id} {is} there at {at}: {:?}", volume.exists));
            }
            if let Some((name, content)) = content {
                left.retain(|other| *other != name);
                self.check_volume(volume, content, at)
                    .map_err(|why| format!("volume {id}, {why}"))?;
            }
        }
        if left.is_empty() { Ok(()) } else { Err(format!("unknown volumes {left:?}")) }
    }

    fn check_volume(
        &self,
        volume: &VolumeHistory,
        content: &VolumeContent,
        at: Time,
    ) -> Result<(), String> {
        let blocks = content.bytes.len() / BLOCK;
        if !volume.sizes.allows(&blocks, at) || volume.read_only != content.read_only {
            return Err(format!("{blocks} blocks at {at}: {:?}", volume.sizes));
        }
        match &volume.copy {
            Some(copy) if copy.bytes.is_none() => {
                return self.check_copy(copy, &content.bytes, copy.end.min(at));
            }
            _ => {}
        }
        for (number, bytes) in content.bytes.chunks(BLOCK).enumerate() {
            let explained = volume.blocks[number].explain(bytes, View::Crash { at });
            explained.map_err(|why| format!("block {number}: {why}"))?;
        }
        Ok(())
    }
}
