//! A debug build's check that each block has one owner at a time; nothing in a release build.
//!
//! A block goes from free to taken, from taken to mapped or back to free, from mapped to retired,
//! and from retired to free. A veto may hold a retired block before it is free. The bitmap of
//! the space knows free blocks from others. This keeps the taken, the retired and the held ones
//! apart from the mapped ones.

use gemelo_format::Pbn;

#[cfg(debug_assertions)]
#[derive(Debug, Default)]
pub(super) struct Owners {
    owners: gemelo_base::locks::Mutex<std::collections::HashMap<Pbn, Owner>>,
}

#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Taken,
    Retired,
    Held,
}

#[cfg(debug_assertions)]
impl Owners {
    /// A free block is allocated to a content.
    pub(super) fn take(&self, pbn: Pbn) {
        let before = self.owners.lock().insert(pbn, Owner::Taken);
        assert!(before.is_none(), "block {} is taken and {before:?}", pbn.number());
    }

    /// The metadata refer to a taken block from now on.
    pub(super) fn map(&self, pbn: Pbn) {
        self.leave(pbn, Owner::Taken);
    }

    /// A taken block is free again.
    pub(super) fn give_back(&self, pbn: Pbn) {
        self.leave(pbn, Owner::Taken);
    }

    /// A mapped block lost its last reference, durably.
    pub(super) fn retire(&self, pbn: Pbn) {
        let before = self.owners.lock().insert(pbn, Owner::Retired);
        assert!(before.is_none(), "block {} is retired and {before:?}", pbn.number());
    }

    /// A retired block is free.
    pub(super) fn free(&self, pbn: Pbn) {
        self.leave(pbn, Owner::Retired);
    }

    /// The veto holds a block that was retired.
    pub(super) fn hold(&self, pbn: Pbn) {
        self.leave(pbn, Owner::Retired);
        self.hold_unused(pbn);
    }

    /// The veto holds a block that nothing refers to since the pool was opened.
    pub(super) fn hold_unused(&self, pbn: Pbn) {
        let before = self.owners.lock().insert(pbn, Owner::Held);
        assert!(before.is_none(), "block {} is held and {before:?}", pbn.number());
    }

    /// A block that the veto held is free.
    pub(super) fn free_held(&self, pbn: Pbn) {
        self.leave(pbn, Owner::Held);
    }

    fn leave(&self, pbn: Pbn, owner: Owner) {
        let before = self.owners.lock().remove(&pbn);
        assert!(before == Some(owner), "block {} is {before:?}, not {owner:?}", pbn.number());
    }
}

#[cfg(not(debug_assertions))]
#[derive(Debug, Default)]
pub(super) struct Owners;

#[cfg(not(debug_assertions))]
impl Owners {
    pub(super) const fn take(&self, _: Pbn) {}
    pub(super) const fn map(&self, _: Pbn) {}
    pub(super) const fn give_back(&self, _: Pbn) {}
    pub(super) const fn retire(&self, _: Pbn) {}
    pub(super) const fn free(&self, _: Pbn) {}
    pub(super) const fn hold(&self, _: Pbn) {}
    pub(super) const fn hold_unused(&self, _: Pbn) {}
    pub(super) const fn free_held(&self, _: Pbn) {}
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn a_block_goes_its_way() {
        let (owners, pbn) = (Owners::default(), Pbn::FIRST);
        for is_used in [true, false] {
            owners.take(pbn);
            if is_used {
                owners.map(pbn);
                owners.retire(pbn);
                owners.free(pbn);
            } else {
                owners.give_back(pbn);
            }
        }
    }

    #[test]
    #[should_panic(expected = "block 1 is retired and Some(Taken)")]
    fn a_taken_block_is_not_retired() {
        let owners = Owners::default();
        owners.take(Pbn::FIRST);
        owners.retire(Pbn::FIRST);
    }

    #[test]
    #[should_panic(expected = "block 1 is None, not Taken")]
    fn only_a_taken_block_is_mapped() {
        Owners::default().map(Pbn::FIRST);
    }
}
