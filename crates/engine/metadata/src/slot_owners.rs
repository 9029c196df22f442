//! A debug build's check that each slot has one owner at a time; nothing in a release build.
//!
//! It keeps its own account beside the bitmap of [`crate::slots::Slots`]. A slot goes from free to
//! new, when the checkpoint under way takes it, and to durable, when the root is. A durable or a
//! new one leaves when the state after the checkpoint does not need it, and is free when the root
//! is durable. A checkpoint that is given up takes all of this back.

use gemelo_format::Slot;

#[cfg(debug_assertions)]
#[derive(Debug, Default)]
pub(crate) struct SlotOwners {
    owners: gemelo_base::locks::Mutex<std::collections::HashMap<Slot, Owner>>,
}

#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The state of the last root.
    Durable,
    /// The state that the checkpoint under way makes.
    New,
    /// The state of the last root alone.
    Leaving,
    /// None: the checkpoint under way has taken and given up the slot.
    Spare,
}

#[cfg(debug_assertions)]
impl SlotOwners {
    /// The state that is opened has the slot.
    pub(crate) fn claim(&self, slot: Slot) {
        self.change(slot, None, Some(Owner::Durable));
    }

    /// The state that is opened does not need the slot after all.
    pub(crate) fn unclaim(&self, slot: Slot) {
        self.change(slot, Some(Owner::Durable), None);
    }

    /// The checkpoint under way takes a free slot.
    pub(crate) fn take(&self, slot: Slot) {
        self.change(slot, None, Some(Owner::New));
    }

    /// The state after the checkpoint does not need the slot.
    pub(crate) fn retire(&self, slot: Slot) {
        let before = self.owners.lock().get(&slot).copied();
        let after = if before == Some(Owner::New) { Owner::Spare } else { Owner::Leaving };
        let expected = if after == Owner::Spare { Owner::New } else { Owner::Durable };
        self.change(slot, Some(expected), Some(after));
    }

    /// The root of the checkpoint is durable.
    pub(crate) fn finish(&self, taken: &[Slot], retired: &[Slot], in_use: u64) {
        let mut owners = self.owners.lock();
        for slot in retired {
            let before = owners.remove(slot);
            let can_be = matches!(before, Some(Owner::Leaving | Owner::Spare));
            assert!(can_be, "slot {} is released and {before:?}", slot.number());
        }
        for slot in taken {
            if let Some(owner) = owners.get_mut(slot) {
                assert!(*owner == Owner::New, "slot {} is kept and {owner:?}", slot.number());
                *owner = Owner::Durable;
            }
        }
        assert!(owners.values().all(|owner| *owner == Owner::Durable), "a checkpoint left slots");
        assert_eq!(owners.len() as u64, in_use, "slots in use");
    }

    /// The checkpoint was given up.
    pub(crate) fn abandon(&self, taken: &[Slot], in_use: u64) {
        let mut owners = self.owners.lock();
        for slot in taken {
            let before = owners.remove(slot);
            let can_be = matches!(before, Some(Owner::New | Owner::Spare));
            assert!(can_be, "slot {} is given back and {before:?}", slot.number());
        }
        owners.values_mut().for_each(|owner| *owner = Owner::Durable);
        assert_eq!(owners.len() as u64, in_use, "slots in use");
    }

    fn change(&self, slot: Slot, expected: Option<Owner>, after: Option<Owner>) {
        let mut owners = self.owners.lock();
        let before = match after {
            Some(after) => owners.insert(slot, after),
            None => owners.remove(&slot),
        };
        assert!(before == expected, "slot {} is {before:?}, not {expected:?}", slot.number());
    }
}

#[cfg(not(debug_assertions))]
#[derive(Debug, Default)]
pub(crate) struct SlotOwners;

#[cfg(not(debug_assertions))]
impl SlotOwners {
    pub(crate) const fn claim(&self, _: Slot) {}
    pub(crate) const fn unclaim(&self, _: Slot) {}
    pub(crate) const fn take(&self, _: Slot) {}
    pub(crate) const fn retire(&self, _: Slot) {}
    pub(crate) const fn finish(&self, _: &[Slot], _: &[Slot], _: u64) {}
    pub(crate) const fn abandon(&self, _: &[Slot], _: u64) {}
}

#[cfg(test)]
#[cfg(debug_assertions)]
mod tests {
    use super::*;

    fn slot(number: u32) -> Slot {
        Slot::new(number).unwrap()
    }

    #[test]
    fn slots_go_their_way() {
        let owners = SlotOwners::default();
        owners.claim(slot(1));
        owners.take(slot(2));
        owners.take(slot(3));
        owners.retire(slot(1));
        owners.retire(slot(3));
        owners.abandon(&[slot(2), slot(3)], 1);
        owners.take(slot(2));
        owners.take(slot(3));
        owners.retire(slot(1));
        owners.retire(slot(3));
        owners.finish(&[slot(2), slot(3)], &[slot(1), slot(3)], 1);
        owners.unclaim(slot(2));
    }

    #[test]
    #[should_panic(expected = "slot 1 is None, not Some(Durable)")]
    fn a_free_slot_is_not_retired() {
        SlotOwners::default().retire(slot(1));
    }

    #[test]
    #[should_panic(expected = "slot 1 is Some(Leaving), not Some(Durable)")]
    fn a_slot_is_not_retired_twice() {
        let owners = SlotOwners::default();
        owners.claim(slot(1));
        owners.retire(slot(1));
        owners.retire(slot(1));
    }

    #[test]
    #[should_panic(expected = "slot 1 is Some(Durable), not None")]
    fn a_slot_in_use_is_not_taken() {
        let owners = SlotOwners::default();
        owners.claim(slot(1));
        owners.take(slot(1));
    }

    #[test]
    #[should_panic(expected = "a checkpoint left slots")]
    fn a_slot_that_was_taken_is_counted() {
        let owners = SlotOwners::default();
        owners.take(slot(1));
        owners.finish(&[], &[], 1);
    }
}
