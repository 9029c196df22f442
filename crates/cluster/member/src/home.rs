//! The superblock of any member, which says in what form others read its contents.

use crate::disk::{DiskContext, MemberDisk, ObjectDisk, to_io};
use crate::flight::Flight;
use crate::lease_state::LeaseState;
use gemelo_base::ManualClock;
use gemelo_domain::{DomainError, MemberId};
use gemelo_format::{FormatError, Superblock, read_superblock};
use gemelo_objects::Objects;
use std::io;
use std::sync::Arc;

/// Returns what the disks of a member need that is only read, whoever serves it.
pub(crate) fn context_to_read(index: Arc<dyn Objects>, member: MemberId) -> DiskContext {
    DiskContext {
        index,
        member,
        lease_state: Arc::new(LeaseState::until(Arc::new(ManualClock::new()), u64::MAX)),
        flight: Flight::default(),
        read_only: true,
        epoch: 0,
    }
}

/// Reads the superblock of a member. It is the same for as long as the member exists.
///
/// # Errors
/// Fails with the kind `NotFound` if the member has no pool, and with `TimedOut` if the store does
/// not answer.
pub fn superblock_of(index: &Arc<dyn Objects>, member: MemberId) -> io::Result<Superblock> {
    let context = Arc::new(context_to_read(Arc::clone(index), member));
    let disk = ObjectDisk::open(MemberDisk::Metadata, Arc::clone(index), context);
    let disk = disk.map_err(|error| match error {
        DomainError::Object(error) => to_io(&error),
        error => io::Error::other(error),
    })?;
    read_superblock(&disk, &mut Vec::new()).map_err(|error| match error {
        FormatError::Io { source, .. } => source,
        error @ FormatError::NotAPool { .. } => io::Error::new(io::ErrorKind::NotFound, error),
        error => io::Error::other(error),
    })
}
