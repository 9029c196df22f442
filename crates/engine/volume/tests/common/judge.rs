//! Compares the contents of a pool with those that the history allows.

use super::BLOCK;
use super::history::{BlockHistory, Flushes, Moments, NEVER, Rotten, Time, View};
use super::storm::{Change, Log, VolumeEvent};
use gemelo_volume::{Pool, Volume};
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
    /// The content of each block, or [`None`] if the block cannot be read.
    pub blocks: Vec<Option<Arc<[u8]>>>,
}

/// Reads the blocks of a volume.
fn read_blocks(volume: &Volume, size_bytes: u64) -> Vec<Option<Arc<[u8]>>> {
    if let Ok(bytes) = super::read(volume, 0, size_bytes as usize) {
        return bytes.chunks(BLOCK).map(|block| Some(block.into())).collect();
    }
    let offsets = (0..size_bytes).step_by(BLOCK);
    let block = |offset| super::read(volume, offset, BLOCK).ok().map(Into::into);
    offsets.map(block).collect()
}

impl Contents {
    pub fn of(pool: &Pool) -> Self {
        let volumes = pool.volumes().into_iter().map(|summary| {
            let volume = pool.volume(&summary.record.name).unwrap();
            let blocks = read_blocks(&volume, summary.record.size_bytes);
            (summary.record.name, VolumeContent { read_only: summary.record.read_only, blocks })
        });
        Self { volumes: volumes.collect() }
    }

    /// Returns the number of blocks that cannot be read.
    pub fn damaged_blocks(&self) -> usize {
        let blocks = self.volumes.values().flat_map(|volume| &volume.blocks);
        blocks.filter(|block| block.is_none()).count()
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

/// Damage that a history allows.
#[derive(Debug, Clone)]
pub enum Rot {
    /// Blocks that may show one of these contents may be damaged, and nothing else.
    Contents(Vec<Rotten>),
    /// Metadata may be damaged: every block may be unreadable.
    Metadata,
}

/// All requests and commands since the pool was opened.
pub struct History {
    volumes: Vec<VolumeHistory>,
    rot: Rot,
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
        Self { volumes: Vec::new(), rot: Rot::Contents(Vec::new()) }.successor(contents)
    }

    /// Begins the history of the pool after this one, when it had these contents. A block that
    /// cannot be read has one of the contents that rot has destroyed: it may be healed.
    pub fn successor(&self, contents: &Contents) -> Self {
        let volume = |(name, content): (&String, &VolumeContent)| {
            let block = |(number, block): (usize, &Option<Arc<[u8]>>)| match block {
                Some(bytes) => BlockHistory::new(Arc::clone(bytes), 0),
                None => BlockHistory::of_one(self.lost_contents(name, number), 0),
            };
            VolumeHistory {
                names: Register { changes: vec![(0, 0, name.clone())] },
                sizes: Register { changes: vec![(0, 0, content.blocks.len())] },
                exists: Register { changes: vec![(0, 0, true)] },
                read_only: content.read_only,
                blocks: content.blocks.iter().enumerate().map(block).collect(),
                copy: None,
            }
        };
        let mut rot = self.rot.clone();
        if let Rot::Contents(rotten) = &mut rot {
            rotten.iter_mut().for_each(|rotten| rotten.at = 0);
        }
        Self { volumes: contents.volumes.iter().map(volume).collect(), rot }
    }

    /// Allows damage of these contents, too.
    pub fn add_rotten(&mut self, more: impl IntoIterator<Item = Rotten>) {
        if let Rot::Contents(rotten) = &mut self.rot {
            rotten.extend(more);
        }
    }

    /// Makes a check that allows damage of these contents, too.
    pub fn with_rotten<T>(&mut self, more: Vec<Rotten>, check: impl FnOnce(&Self) -> T) -> T {
        let before = self.rot.clone();
        self.add_rotten(more);
        let result = check(self);
        self.rot = before;
        result
    }

    /// Allows every block to be unreadable.
    pub fn allow_damaged_metadata(&mut self) {
        self.rot = Rot::Metadata;
    }

    /// The contents that a block may have that cannot be read after the end.
    pub fn lost_contents(&self, name: &str, number: usize) -> Vec<Arc<[u8]>> {
        let volume =
            self.volumes.iter().find(|volume| volume.names.allows(&name.to_owned(), NEVER));
        let volume = volume.unwrap_or_else(|| panic!("an unknown volume {name}"));
        match &volume.copy {
            Some(copy) if copy.bytes.is_none() => {
                let view = View::Read { start: copy.start, end: copy.end };
                self.lost(&self.volumes[copy.source].blocks[number], view, NEVER)
            }
            _ => self.lost(&volume.blocks[number], View::Crash { at: NEVER }, NEVER),
        }
    }

    /// The contents that rot has destroyed until a moment and that a block may show.
    fn lost(&self, block: &BlockHistory, view: View, until: Time) -> Vec<Arc<[u8]>> {
        let Rot::Contents(rotten) = &self.rot else { return Vec::new() };
        let before = rotten.iter().filter(|rotten| rotten.at <= until);
        let may_be_shown = before.filter(|rotten| block.explain(&rotten.content, view).is_ok());
        may_be_shown.map(|rotten| Arc::clone(&rotten.content)).collect()
    }

    /// Checks what was seen of a block at a moment: its content, or that it is damaged.
    fn explain(
        &self,
        block: &BlockHistory,
        seen: Option<&[u8]>,
        (view, at): (View, Time),
    ) -> Result<Moments, String> {
        match seen {
            Some(content) => block.explain(content, view),
            None if matches!(self.rot, Rot::Metadata) => Ok(Moments { first: 0, last: NEVER }),
            None if self.lost(block, view, at).is_empty() => {
                Err("it is damaged, and rot has destroyed no content that it may have".to_owned())
            }
            None => Ok(Moments { first: 0, last: NEVER }),
        }
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
        for read in &log.damaged_reads {
            let view = View::Read { start: read.start, end: read.end };
            let result =
                self.explain(&self.volumes[read.volume].blocks[read.block], None, (view, read.end));
            result
                .map_err(|why| format!("read of block {} of {}: {why}", read.block, read.volume))?;
        }
        for (id, volume) in self.volumes.iter().enumerate() {
            if let Some(copy) = &volume.copy
                && let Some(bytes) = &copy.bytes
            {
                self.check_copy(copy, bytes.chunks(BLOCK).map(Some), NEVER)
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
    fn check_copy<'b>(
        &self,
        copy: &Copy,
        blocks: impl Iterator<Item = Option<&'b [u8]>>,
        at: Time,
    ) -> Result<(), String> {
        let end = copy.end.min(at);
        let view = View::Read { start: copy.start, end };
        let mut moments = Moments { first: copy.start, last: end };
        for (number, seen) in blocks.enumerate() {
            let explained =
                self.explain(&self.volumes[copy.source].blocks[number], seen, (view, at));
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
            let is_lost = content.is_none() && matches!(self.rot, Rot::Metadata);
            if !is_lost && !volume.exists.allows(&content.is_some(), at) {
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
        let blocks = content.blocks.len();
        if !volume.sizes.allows(&blocks, at) || volume.read_only != content.read_only {
            return Err(format!("{blocks} blocks at {at}: {:?}", volume.sizes));
        }
        let seen = content.blocks.iter().map(Option::as_deref);
        match &volume.copy {
            Some(copy) if copy.bytes.is_none() => {
                return self.check_copy(copy, seen, at);
            }
            _ => {}
        }
        for (number, seen) in seen.enumerate() {
            let explained = self.explain(&volume.blocks[number], seen, (View::Crash { at }, at));
            explained.map_err(|why| format!("block {number}: {why}"))?;
        }
        Ok(())
    }
}
