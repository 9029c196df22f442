//! Applies the changes of the journal to the state of the checkpoint.

use crate::walk::{Walk, WalkVolume};
use crate::{CheckError, packed};
use gemelo_format::{
    Change, FormatError, Identity, Lbn, MAX_VOLUME_BLOCKS, MapEntry, Pbn, ReplayedCommit, VolumeId,
};
use std::collections::HashSet;
use std::sync::Arc;

impl Walk {
    /// Applies the changes of a commit.
    pub(crate) fn replay_commit(&mut self, commit: ReplayedCommit) -> Result<(), CheckError> {
        let replayed_data = commit.changes.iter().filter_map(|change| match change {
            Change::JournalData { pbn, .. } => Some(*pbn),
            _ => None,
        });
        let replayed_data: HashSet<Pbn> = replayed_data.collect();
        if commit.is_proven {
            let kept = Arc::make_mut(&mut self.replayed_data);
            let written = commit.changes.iter().filter_map(Change::written_block);
            written.for_each(|pbn| drop(kept.remove(&pbn)));
            return commit.changes.into_iter().try_for_each(|change| self.replay(change));
        }
        let mut written = commit.changes.iter().filter_map(Change::written_block);
        if written.any(|pbn| !replayed_data.contains(&pbn)) {
            // The data store was synced before the commit was written.
            Arc::make_mut(&mut self.replayed_data).clear();
        }
        commit.changes.into_iter().try_for_each(|change| self.replay(change))
    }

    /// Applies one change.
    fn replay(&mut self, change: Change) -> Result<(), CheckError> {
        match change {
            Change::Store { volume, lbn, pbn, fingerprint, checksum } => {
                self.check_pbn(pbn)?;
                self.sharers.check_store(pbn, (&self.volumes, &self.source))?;
                self.identities.set(pbn.number(), Identity::of(fingerprint));
                self.set(volume, lbn, MapEntry::Stored(pbn, checksum))?;
                self.sharers.note(pbn, (volume, lbn));
            }
            Change::Share { volume, lbn, pbn, checksum } => {
                self.check_pbn(pbn)?;
                self.sharers.check_share(pbn, (&self.volumes, &self.source))?;
                self.set(volume, lbn, MapEntry::Stored(pbn, checksum))?;
                self.sharers.note(pbn, (volume, lbn));
            }
            Change::Unmap { volume, first, count } => {
                let end = first.0.saturating_add(count);
                self.volume(volume)?.map.remove(first.0..end);
            }
            Change::Create(record) => {
                self.check_new(record.id)?;
                self.check_size(record.size_bytes)?;
                self.volumes.insert(record.id, WalkVolume::new(record));
            }
            Change::Remove { volume } => {
                self.volume(volume)?;
                self.volumes.remove(&volume);
            }
            Change::Rename { volume, name } => self.volume(volume)?.record.name = name,
            Change::Resize { volume, size_bytes, padding_bytes } => {
                self.resize(volume, (size_bytes, padding_bytes))?;
            }
            Change::Clone { source, volume, name, read_only, created_s } => {
                self.check_new(volume)?;
                let source = self.volume(source)?;
                let record = source.record.cloned(volume, &name, read_only, created_s);
                let copy = WalkVolume { record, map: source.map.clone() };
                self.volumes.insert(volume, copy);
            }
            Change::Shrink { volume, size_bytes, padding_bytes } => {
                self.check_size(size_bytes)?;
                self.volume(volume)?.record.resize(size_bytes, padding_bytes);
            }
            Change::SetMode { volume, mode } => self.volume(volume)?.record.mode = mode,
            Change::SetCompression { volume, compression } => {
                self.volume(volume)?.record.compression = compression;
            }
            Change::SetLimits { volume, limits } => self.volume(volume)?.record.limits = limits,
            Change::Hold { volume, tag, is_held } => {
                self.volume(volume)?.record.holds.set(&tag, is_held);
            }
            Change::Rollback { volume, source, left } => self.roll_back(volume, source, left)?,
            Change::Hide { volume } => self.volume(volume)?.record.is_hidden = true,
            Change::Receive { volume, name, identity, source, created_s, receiving } => {
                let record = &mut self.volume(volume)?.record;
                record.receive(&name, (identity, source), created_s, receiving);
            }
            Change::Suspect { pbn, is_suspect } => self.suspect(pbn, is_suspect)?,
            Change::Lose { volume, first, count } => self.lose(volume, first, count)?,
            Change::JournalData { pbn, content } => self.journal_contents(pbn, content)?,
            Change::Grow { data_blocks } => self.grow(data_blocks)?,
            Change::Cut { data_blocks } => self.cut(data_blocks)?,
            Change::Move { from, to, .. } => self.move_content(from, to)?,
            Change::Identify { pbn, fingerprint } => {
                self.check_pbn(pbn)?;
                self.identities.set(pbn.number(), Identity::of(fingerprint));
            }
        }
        Ok(())
    }

    /// Gives a volume the map of another one, and its own to a new, hidden volume.
    fn roll_back(
        &mut self,
        id: VolumeId,
        source: VolumeId,
        left: VolumeId,
    ) -> Result<(), CheckError> {
        self.check_new(left)?;
        let source = self.volume(source)?;
        let size = (source.record.size_bytes, source.record.padding_bytes);
        let map = source.map.clone();
        let volume = self.volume(id)?;
        let mut hidden = volume.record.clone();
        (hidden.id, hidden.is_hidden) = (left, true);
        volume.record.roll_back(size);
        let map = std::mem::replace(&mut volume.map, map);
        self.volumes.insert(left, WalkVolume { record: hidden, map });
        Ok(())
    }

    fn resize(
        &mut self,
        volume: VolumeId,
        (size_bytes, padding_bytes): (u64, u32),
    ) -> Result<(), CheckError> {
        self.check_size(size_bytes)?;
        let blocks = size_bytes / u64::from(self.superblock.block_bytes);
        let volume = self.volume(volume)?;
        volume.record.resize(size_bytes, padding_bytes);
        volume.map.remove(blocks..u64::MAX);
        Ok(())
    }

    fn lose(&mut self, volume: VolumeId, first: Lbn, count: u64) -> Result<(), CheckError> {
        let block_bytes = u64::from(self.superblock.block_bytes);
        let volume = self.volume(volume)?;
        let end = first.0.saturating_add(count).min(volume.blocks(block_bytes));
        (first.0..end).for_each(|lbn| volume.map.insert(lbn, MapEntry::Damaged));
        Ok(())
    }

    fn grow(&mut self, data_blocks: u64) -> Result<(), FormatError> {
        if data_blocks > self.superblock.max_blocks() {
            return Err(FormatError::damaged("a commit enlarges the data store beyond any pool"));
        }
        self.data_blocks = self.data_blocks.max(data_blocks);
        Ok(())
    }

    fn suspect(&mut self, pbn: Pbn, is_suspect: bool) -> Result<(), FormatError> {
        self.check_pbn(pbn)?;
        self.identities.suspect(pbn.number(), is_suspect);
        Ok(())
    }

    fn cut(&mut self, data_blocks: u64) -> Result<(), FormatError> {
        if data_blocks == 0 || data_blocks > self.data_blocks {
            return Err(FormatError::damaged("a commit cuts the data store to an impossible size"));
        }
        self.data_blocks = data_blocks;
        Ok(())
    }

    /// Lets all references to a block follow its content to another one.
    fn move_content(&mut self, from: Pbn, to: Pbn) -> Result<(), CheckError> {
        self.check_pbn(from)?;
        self.check_pbn(to)?;
        if from == to || self.source.moved.contains_key(&to) {
            let number = to.number();
            let what = format!("a commit moves a content to block {number}, which was moved");
            return Err(FormatError::damaged(what).into());
        }
        self.sharers.check_share(from, (&self.volumes, &self.source))?;
        self.sharers.check_store(to, (&self.volumes, &self.source))?;
        self.source.moved.insert(from, to);
        self.sharers.follow(from, to);
        self.identities.move_to(from.number(), to.number());
        Ok(())
    }

    /// Fails if the data store has no such block.
    fn check_pbn(&self, pbn: Pbn) -> Result<(), FormatError> {
        if self.superblock.store.has(pbn, self.data_blocks) {
            return Ok(());
        }
        let number = pbn.number();
        let what = format!("a commit refers to block {number}, which is outside of the data store");
        Err(FormatError::damaged(what))
    }

    /// Fails if there is a volume of this number.
    fn check_new(&self, id: VolumeId) -> Result<(), FormatError> {
        match self.volumes.contains_key(&id) {
            false => Ok(()),
            true => Err(FormatError::damaged(format!("a commit makes volume {id} twice"))),
        }
    }

    fn check_size(&self, size_bytes: u64) -> Result<(), FormatError> {
        if size_bytes / u64::from(self.superblock.block_bytes) <= MAX_VOLUME_BLOCKS {
            return Ok(());
        }
        let what = format!("a commit has a volume of {size_bytes} bytes, which is too large");
        Err(FormatError::damaged(what))
    }

    fn journal_contents(&mut self, pbn: Pbn, content: Vec<u8>) -> Result<(), FormatError> {
        let (content, bytes) = packed::content_in_the_journal(&self.superblock, pbn, content)
            .ok_or_else(|| {
                let number = pbn.number();
                let what = format!("a commit carries bytes that are no content of block {number}");
                FormatError::damaged(what)
            })?;
        Arc::make_mut(&mut self.replayed_data).insert(pbn, content);
        self.replayed_bytes.insert(pbn, bytes);
        Ok(())
    }

    fn volume(&mut self, id: VolumeId) -> Result<&mut WalkVolume, FormatError> {
        self.volumes.get_mut(&id).ok_or_else(|| {
            FormatError::damaged(format!("a commit changes volume {id}, which does not exist"))
        })
    }

    fn set(&mut self, id: VolumeId, lbn: Lbn, place: MapEntry) -> Result<(), FormatError> {
        let block_bytes = u64::from(self.superblock.block_bytes);
        let volume = self.volume(id)?;
        if lbn.0 >= volume.blocks(block_bytes) {
            return Err(FormatError::damaged(format!(
                "a commit maps block {} of volume {id}, beyond its end",
                lbn.0
            )));
        }
        volume.map.insert(lbn.0, place);
        Ok(())
    }
}
