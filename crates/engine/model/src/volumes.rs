//! Changes of whole volumes: create, remove, clone, change the mode.

use crate::bounds::spend;
use crate::change::{Change, twin};
use crate::guard::Guard;
use crate::numbers::{Cell, Content, Mode};
use crate::protocol::Step;
use crate::state::Volume;

/// Returns whether a change of the whole volume may be made: none of its requests is under way.
fn is_closed(step: &Step<'_>, volume: u8) -> bool {
    !step.has(Guard::GateClosed) || !step.state.is_entered(volume.into())
}

const fn is_absent(step: &Step<'_>, volume: u8) -> bool {
    matches!(step.state.live.volumes[volume as usize], Volume::Absent)
}

/// Marks a volume for the finder as a whole, if the finder looks after it.
fn mark_all(step: &mut Step<'_>, volume: u8) {
    let is_offline = step.state.mode(volume.into()) == Some(Mode::Offline);
    for cell in Cell::of(volume.into()) {
        if is_offline && step.state.live.map[cell.at()].is_some() {
            step.state.dirty.add(cell.0);
        } else {
            step.state.dirty.remove(cell.0);
        }
    }
}

/// An empty volume is made. The finder has nothing to examine there.
pub(crate) fn create(step: &mut Step<'_>, volume: u8, mode: Mode) -> Option<()> {
    if !is_absent(step, volume) || !spend(&mut step.state.budget.volumes) {
        return None;
    }
    step.apply(Change::Create { volume, mode });
    Cell::of(volume.into()).for_each(|cell| step.acknowledge(cell, Content::ZEROS));
    Some(())
}

/// A volume is removed.
pub(crate) fn remove(step: &mut Step<'_>, volume: u8) -> Option<()> {
    if step.state.mode(volume.into()).is_none()
        || !is_closed(step, volume)
        || !spend(&mut step.state.budget.volumes)
    {
        return None;
    }
    step.apply(Change::Remove { volume });
    mark_all(step, volume);
    Cell::of(volume.into()).for_each(|cell| step.acknowledge(cell, Content::ABSENT));
    Some(())
}

/// A volume is copied at once.
pub(crate) fn clone_volume(step: &mut Step<'_>, from: u8, to: u8) -> Option<()> {
    // It waits for no request: each change comes before it or after it.
    may_copy(step, from, to)?;
    step.apply(Change::Clone { from, to });
    mark_all(step, to);
    for cell in Cell::of(from.into()) {
        let content = step.state.live.content(cell);
        step.acknowledge(twin(cell, to), content);
    }
    Some(())
}

fn may_copy(step: &mut Step<'_>, from: u8, to: u8) -> Option<()> {
    let may = step.state.mode(from.into()).is_some()
        && is_absent(step, to)
        && spend(&mut step.state.budget.volumes);
    may.then_some(())
}

/// A large volume is hidden. It is cleared later, after a crash as well.
pub(crate) fn hide(step: &mut Step<'_>, volume: u8) -> Option<()> {
    if step.state.mode(volume.into()).is_none()
        || !is_closed(step, volume)
        || !spend(&mut step.state.budget.volumes)
    {
        return None;
    }
    step.apply(Change::Hide { volume });
    mark_all(step, volume);
    Cell::of(volume.into()).for_each(|cell| step.acknowledge(cell, Content::ABSENT));
    Some(())
}

/// A hidden volume is removed.
pub(crate) fn clear_hidden(step: &mut Step<'_>, volume: u8) -> Option<()> {
    let is_hidden = matches!(step.state.live.volumes[usize::from(volume)], Volume::Hidden);
    if !is_hidden || !step.has(Guard::HiddenAreCleared) {
        return None;
    }
    step.apply(Change::Remove { volume });
    Some(())
}

/// A volume gets another mode.
pub(crate) fn set_mode(step: &mut Step<'_>, volume: u8, mode: Mode) -> Option<()> {
    if step.state.mode(volume.into()).is_none_or(|before| before == mode)
        || !is_closed(step, volume)
        || !spend(&mut step.state.budget.modes)
    {
        return None;
    }
    step.apply(Change::SetMode { volume, mode });
    mark_all(step, volume);
    Some(())
}
