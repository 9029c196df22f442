//! Changes of whole volumes: create, remove, clone, change the mode.

use crate::bounds::spend;
use crate::change::{Change, twin};
use crate::guard::Guard;
use crate::numbers::{Cell, Content, Mode};
use crate::protocol::Step;
use crate::state::Volume;

impl Step<'_> {
    /// Returns whether a change of the whole volume may be made: none of its requests is under way.
    fn is_closed(&self, volume: u8) -> bool {
        !self.has(Guard::GateClosed) || !self.state.is_entered(volume.into())
    }

    const fn is_absent(&self, volume: u8) -> bool {
        matches!(self.state.live.volumes[volume as usize], Volume::Absent)
    }

    /// Marks a volume for the finder as a whole, if the finder looks after it.
    fn mark_all(&mut self, volume: u8) {
        let is_offline = self.state.mode(volume.into()) == Some(Mode::Offline);
        for cell in Cell::of(volume.into()) {
            if is_offline && self.state.live.map[cell.at()].is_some() {
                self.state.dirty.add(cell.0);
            } else {
                self.state.dirty.remove(cell.0);
            }
        }
    }

    /// An empty volume is made. The finder has nothing to examine there.
    pub(crate) fn create(&mut self, volume: u8, mode: Mode) -> Option<()> {
        if !self.is_absent(volume) || !spend(&mut self.state.budget.volumes) {
            return None;
        }
        self.apply(Change::Create { volume, mode });
        Cell::of(volume.into()).for_each(|cell| self.acknowledge(cell, Content::ZEROS));
        Some(())
    }

    /// A volume is removed.
    pub(crate) fn remove(&mut self, volume: u8) -> Option<()> {
        if self.state.mode(volume.into()).is_none()
            || !self.is_closed(volume)
            || !spend(&mut self.state.budget.volumes)
        {
            return None;
        }
        self.apply(Change::Remove { volume });
        self.mark_all(volume);
        Cell::of(volume.into()).for_each(|cell| self.acknowledge(cell, Content::ABSENT));
        Some(())
    }

    /// A volume is copied at once.
    pub(crate) fn clone_volume(&mut self, from: u8, to: u8) -> Option<()> {
        // It waits for no request: each change comes before it or after it.
        self.may_copy(from, to)?;
        self.apply(Change::Clone { from, to });
        self.mark_all(to);
        for cell in Cell::of(from.into()) {
            let content = self.state.live.content(cell);
            self.acknowledge(twin(cell, to), content);
        }
        Some(())
    }

    fn may_copy(&mut self, from: u8, to: u8) -> Option<()> {
        let may = self.state.mode(from.into()).is_some()
            && self.is_absent(to)
            && spend(&mut self.state.budget.volumes);
        may.then_some(())
    }

    /// A large volume is hidden. It is cleared later, after a crash as well.
    pub(crate) fn hide(&mut self, volume: u8) -> Option<()> {
        if self.state.mode(volume.into()).is_none()
            || !self.is_closed(volume)
            || !spend(&mut self.state.budget.volumes)
        {
            return None;
        }
        self.apply(Change::Hide { volume });
        self.mark_all(volume);
        Cell::of(volume.into()).for_each(|cell| self.acknowledge(cell, Content::ABSENT));
        Some(())
    }

    /// A hidden volume is removed.
    pub(crate) fn clear_hidden(&mut self, volume: u8) -> Option<()> {
        let is_hidden = matches!(self.state.live.volumes[usize::from(volume)], Volume::Hidden);
        if !is_hidden || !self.has(Guard::HiddenAreCleared) {
            return None;
        }
        self.apply(Change::Remove { volume });
        Some(())
    }

    /// A volume gets another mode.
    pub(crate) fn set_mode(&mut self, volume: u8, mode: Mode) -> Option<()> {
        if self.state.mode(volume.into()).is_none_or(|before| before == mode)
            || !self.is_closed(volume)
            || !spend(&mut self.state.budget.modes)
        {
            return None;
        }
        self.apply(Change::SetMode { volume, mode });
        self.mark_all(volume);
        Some(())
    }
}
