//! The removal of a pool that is a member.

use crate::error::Result;
use crate::member::MemberPlace;
use gemelo_domain::Members;
use gemelo_member::Service;

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
    /// Fails if another client serves the member, or if there is none.
    pub fn plan_removal(&self) -> Result<MemberRemoval> {
        Ok(MemberRemoval { service: self.take()?, name: self.uri().name.clone() })
    }
}

impl MemberRemoval {
    /// Removes the objects of the member, and its name in the domain.
    ///
    /// # Errors
    /// Fails if the store does. Another removal removes the rest.
    pub fn run(self) -> Result<()> {
        let Self { service, name } = self;
        service.clear()?;
        let member = service.member();
        Members::new(service.client().index())
            .remove(&name, member)
            .map_err(gemelo_member::MemberError::from)?;
        Ok(service.release()?)
    }
}
