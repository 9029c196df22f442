//! The removal of a pool that is a member.

use crate::error::{PlaceError, Result};
use crate::member::MemberPlace;
use crate::sharing::MemberSharing;
use gemelo_domain::{Members, doubts_name, mailbox_name};
use gemelo_member::{MemberError, Service};
use gemelo_objects::ObjectError;
use gemelo_sharing::remove_ledger;

/// A member that can be removed, taken by this process until then.
#[must_use = "a removal that is not run removes nothing"]
pub struct MemberRemoval {
    service: Service,
    name: String,
}

impl MemberPlace {
    /// Takes the member, so that it can be removed.
    ///
    /// # Errors
    /// Fails if another client serves the member, if there is none, or if it still shares contents
    /// with other members.
    pub fn plan_removal(&self) -> Result<MemberRemoval> {
        let service = self.take()?;
        service.note_use();
        let kept = MemberSharing::load(&self.client()?, service.member())?.stat(None).blocks.kept;
        if kept > 0 {
            return Err(PlaceError::Shares { blocks: kept });
        }
        Ok(MemberRemoval { service, name: self.uri().name.clone() })
    }
}

impl MemberRemoval {
    /// Removes the objects of the member, and its name in the domain.
    ///
    /// # Errors
    /// Fails if the store does. Another removal removes the rest.
    pub fn run(self) -> Result<()> {
        let Self { service, name } = self;
        let member = service.member();
        remove_ledger(service.client().index(), member)?;
        service.clear()?;
        let index = service.client().index();
        // It has no letter and no doubt that matters: the member keeps nothing for others.
        for name in [mailbox_name(member), doubts_name(member)] {
            match index.remove(&name) {
                Ok(()) | Err(ObjectError::NotFound { .. }) => {}
                Err(error) => return Err(MemberError::from(error).into()),
            }
        }
        Members::new(index).remove(&name, member).map_err(MemberError::from)?;
        Ok(service.release()?)
    }
}
