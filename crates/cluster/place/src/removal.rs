//! The removal of a pool that is a member.

use crate::error::{PlaceError, Result};
use crate::member::MemberPlace;
use crate::sharing::MemberSharing;
use gemelo_domain::{
    Claims as _, Effect, Finding, Intent, MemberId, Members, doubts_name, mailbox_name,
};
use gemelo_member::{DomainClient, MemberError, Service};
use gemelo_sharing::{LedgerClaims, remove_ledger};

/// A member that can be removed, taken by this process until then.
#[must_use = "a removal that is not run removes nothing"]
pub struct MemberRemoval {
    service: Service,
    name: String,
}

impl MemberRemoval {
    /// Takes a member, so that it can be removed.
    ///
    /// # Errors
    /// Fails if another client serves the member, if there is none, or if it still shares contents
    /// with other members.
    pub fn plan(place: &MemberPlace) -> Result<Self> {
        let service = place.take()?;
        service.note_use();
        let (client, member) = (place.client()?, service.member());
        let mut sharing = MemberSharing::look(&client, member)?;
        // A removal that was interrupted has removed the pool.
        if service.has_pool()? {
            sharing = sharing.compare_marks(&client, member)?;
        }
        sharing.expect_whole()?;
        let kept = sharing.stat(None).blocks.kept;
        if kept > 0 {
            return Err(PlaceError::Shares { blocks: kept });
        }
        Ok(Self { service, name: place.uri().name.clone() })
    }

    /// Removes the objects of the member, and its name in the domain.
    ///
    /// # Errors
    /// Fails if the store does. Another removal removes the rest.
    pub fn run(self) -> Result<()> {
        let Self { service, name } = self;
        remove(&service, &name)?;
        Ok(service.release()?)
    }
}

/// Fails if another member uses contents of this one, or if that is not known.
pub(crate) fn expect_no_borrowers(client: &DomainClient, member: MemberId) -> Result<()> {
    let mut contents = 0;
    let (members, damage) = client.readable_members()?;
    if let Some(damage) = damage.into_iter().next() {
        let finding = Finding::from(damage).to_string();
        return Err(PlaceError::UnknownBorrowers { finding });
    }
    for (_, other) in members.into_iter().filter(|(_, other)| *other != member) {
        let ledger = LedgerClaims::load(client.index(), other).map_err(MemberError::from)?;
        if let Some(damage) = ledger.damage().first() {
            let finding = Finding::from(damage.clone()).to_string();
            return Err(PlaceError::UnknownBorrowers { finding });
        }
        contents += ledger.all_claims().iter().filter(|claim| claim.home == member).count() as u64;
        let effects = ledger.intents().iter().flat_map(Intent::effects);
        let is_shared = |effect| matches!(effect, Effect::Shared(home, _) if home == member);
        contents += effects.filter(|(_, effect)| is_shared(*effect)).count() as u64;
    }
    if contents == 0 { Ok(()) } else { Err(PlaceError::Lends { contents }) }
}

/// Removes the objects of a member, and its name in the domain. If that fails, a change may still
/// be on its way, and the member is not handed over.
pub(crate) fn remove(service: &Service, name: &str) -> Result<()> {
    remove_all(service, name).inspect_err(|error| service.doubt("remove", error))
}

fn remove_all(service: &Service, name: &str) -> Result<()> {
    let (member, index) = (service.member(), service.client().index());
    // A pool without its ledger would take blocks that it shares for free ones.
    service.clear()?;
    remove_ledger(index, member)?;
    // Letters and doubts are about blocks that are gone.
    for object in [mailbox_name(member), doubts_name(member)] {
        index.remove_if_there(&object).map_err(MemberError::from)?;
    }
    Ok(Members::new(index).remove(name, member).map_err(MemberError::from)?)
}
