//! The removal of a domain without members.
//!
//! The list of members is closed first, so that none is registered meanwhile, and the object with
//! the settings goes last: a removal that was interrupted is completed by another one.

use crate::config::{DOMAIN_OBJECT, DomainConfig};
use crate::error::{DomainError, Result};
use crate::members::{MEMBERS_OBJECT, Members};
use crate::shard::SHARD_PREFIX;
use gemelo_objects::{ObjectError, Objects, Operation, Request};

/// Objects that are removed at once.
const REMOVED_AT_ONCE: usize = 256;
/// The first parts of the names of objects that a removed member may leave.
const LEFT_PREFIXES: [&str; 3] = ["member.", "mail.", "doubt."];
/// The first parts of the names of objects that only a member has.
const MEMBER_PREFIXES: [&str; 3] = ["ledger.", "meta.", "data."];

/// Removes the domain in these objects. Returns the number of objects that were removed.
///
/// # Errors
/// Fails if there is no domain, if it has members, or if the store fails.
pub fn remove_domain(objects: &dyn Objects) -> Result<u64> {
    if !DomainConfig::is_there(objects)? {
        return Err(DomainError::NoDomain);
    }
    DomainConfig::check_writable_there(objects)?;
    let members = Members::new(objects);
    members.close()?;
    if let Err(error) = expect_none(objects, &members) {
        members.open()?;
        return Err(error);
    }
    // From now on nothing opens it.
    DomainConfig::unfinish(objects)?;
    let mut removed = 0;
    for prefix in LEFT_PREFIXES.into_iter().chain([SHARD_PREFIX]) {
        removed += remove_all(objects, &objects.list(prefix)?)?;
    }
    removed += remove_all(objects, &[MEMBERS_OBJECT.to_owned()])?;
    Ok(removed + remove_all(objects, &[DOMAIN_OBJECT.to_owned()])?)
}

/// Fails if the domain has members, or objects of members that its list has lost.
fn expect_none(objects: &dyn Objects, members: &Members<'_>) -> Result<()> {
    let names: Vec<String> = members.list()?.into_iter().map(|(name, _)| name).collect();
    if !names.is_empty() {
        return Err(DomainError::HasMembers { names: names.join(", ") });
    }
    for prefix in MEMBER_PREFIXES {
        if let Some(object) = objects.list(prefix)?.into_iter().next() {
            return Err(DomainError::HasObjects { object });
        }
    }
    Ok(())
}

fn remove_all(objects: &dyn Objects, names: &[String]) -> Result<u64> {
    let mut removed = 0;
    for names in names.chunks(REMOVED_AT_ONCE) {
        let request = |name| Request::new(name, Operation::Remove);
        let mut requests: Vec<_> = names.iter().map(String::as_str).map(request).collect();
        objects.execute(&mut requests);
        for request in requests {
            match request.outcome {
                Ok(()) => removed += 1,
                // An earlier attempt removed it.
                Err(ObjectError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::NewMember;
    use gemelo_objects::simulated::{Faults, World};

    const CONFIG: DomainConfig = DomainConfig {
        block_bytes: 4096,
        depth: 3,
        fingerprint_id: [7; 16],
        unknown: gemelo_format::Features::NONE,
    };

    #[test]
    fn a_domain_goes_when_its_last_member_has_gone() {
        let world = World::new(1, Faults::NONE);
        let client = world.client();
        assert!(matches!(remove_domain(&client), Err(DomainError::NoDomain)));
        CONFIG.create(&client).unwrap();
        let members = Members::new(&client);
        let member = members.add(&NewMember { name: "web", token: 1 }).unwrap();
        let refused = remove_domain(&client).unwrap_err();
        assert!(refused.to_string().contains("web"), "{refused}");
        // A refusal leaves the list open.
        let other = members.add(&NewMember { name: "db", token: 2 }).unwrap();
        members.remove("db", other).unwrap();
        members.remove("web", member).unwrap();
        client.create("data.1.0").unwrap();
        assert!(matches!(remove_domain(&client), Err(DomainError::HasObjects { .. })));
        client.remove("data.1.0").unwrap();
        // An object of somebody else stays.
        client.create("other").unwrap();
        assert_eq!(remove_domain(&client).unwrap(), 8 + 2);
        assert_eq!(client.list("").unwrap(), ["other"]);
    }

    #[test]
    fn a_removal_that_was_interrupted_is_completed_and_lets_nobody_in_meanwhile() {
        let world = World::new(1, Faults::NONE);
        let client = world.client();
        CONFIG.create(&client).unwrap();
        Members::new(&client).close().unwrap();
        DomainConfig::unfinish(&client).unwrap();
        client.remove("index.000").unwrap();
        assert!(matches!(DomainConfig::open(&client), Err(DomainError::NoDomain)));
        let added = Members::new(&client).add(&NewMember { name: "web", token: 1 });
        assert!(matches!(added, Err(DomainError::BeingRepaired)), "{added:?}");
        remove_domain(&client).unwrap();
        assert_eq!(client.list("").unwrap(), Vec::<String>::new());
        CONFIG.create(&client).unwrap();
    }
}
