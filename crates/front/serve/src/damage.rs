//! Marks in the pool for blocks that were found damaged while the pool was only read.

use gemelo_base::Monitor;
use gemelo_disk::DiskAccess;
use gemelo_place::{PlaceError, PoolPlace};
use gemelo_volume::record_damage;

/// Marks damaged blocks of a pool that nobody has open, so that no write shares them and a write of
/// their contents restores them. Warns if the pool cannot be written or is in use.
pub fn mark_damaged(place: &PoolPlace, blocks: &[u64], monitor: &dyn Monitor) {
    if blocks.is_empty() {
        return;
    }
    let mark = || -> Result<(), PlaceError> {
        let held = place.open_disks(DiskAccess::Exclusive)?;
        record_damage(&held.disks(), blocks)?;
        held.release()
    };
    if let Err(error) = mark() {
        monitor.warn(&format!(
            "the damaged blocks could not be marked in the pool, so that new writes of their \
             contents may be shared with them: {error}"
        ));
    }
}
