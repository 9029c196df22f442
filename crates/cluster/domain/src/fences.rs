//! The fences of earlier holders of a member, and their end. The member's object remembers each
//! fenced client with its process, because only a process of the same machine knows when that one
//! has ended.

use crate::codec::{Reader, Writer};
use crate::entry::MemberId;
use crate::error::Result;
use crate::tenure::{Client, member_object};
use gemelo_base::Clock;
use gemelo_base::process::ProcessIdentity;
use gemelo_objects::{Fenced, Instance, KeyRange, MAX_PAGE_KEYS, ObjectError, Update};
use std::io;

/// The prefix of the keys of fenced clients.
const PREFIX: &str = "fenced.";
/// The time after which nothing takes effect any more that an ended process has sent. The system
/// sends what is left in its sockets for up to 16 minutes (`tcp_retries2`). A storage server that
/// has got it reads it in the rest, or the cluster has given the server up (`osd_heartbeat_grace`,
/// 20 seconds).
pub(crate) const QUIET_NS: u64 = 20 * 60 * 1_000_000_000;

/// A fenced client whose process is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FencedHolder {
    pub(crate) instance: Instance,
    pub(crate) process: ProcessIdentity,
    /// The time since the machine was started at which the process had ended.
    pub(crate) ended_ns: Option<u64>,
}

/// Looks after the fences of earlier holders of the member whose processes have ended, as far as
/// this machine knows: their fences are shortened, and ended 20 minutes later. Returns the number
/// of fences that were ended. The clock is that of the machine.
///
/// # Errors
/// Fails if the store does. The fences then last for longer.
pub fn tend_fences(
    client: &(impl Client + ?Sized),
    clock: &dyn Clock,
    member: MemberId,
) -> Result<usize> {
    let object = member_object(member);
    let range = KeyRange { after: "", prefix: PREFIX, limit: MAX_PAGE_KEYS };
    let page = client.keys_if_there(&object, range)?;
    let mut update = Update::default();
    // A fence whose value is damaged ends by itself.
    let known = page.entries.iter().filter_map(|(key, value)| FencedHolder::decode(key, value));
    for fenced in known.filter(|fenced| fenced.process.has_ended()) {
        let now_ns = clock.now_ns();
        match fenced.ended_ns {
            None => {
                client.fence(&fenced.instance, Fenced::Ended)?;
                let noted = FencedHolder { ended_ns: Some(now_ns), ..fenced };
                update.set.push(noted.entry());
            }
            Some(ended_ns) if now_ns.saturating_sub(ended_ns) >= QUIET_NS => {
                end(client, &fenced.instance)?;
                update.remove.push(fenced.entry().0);
            }
            Some(_) => {}
        }
    }
    let ended = update.remove.len();
    if !update.set.is_empty() || ended > 0 {
        client.update(&object, &update)?;
    }
    Ok(ended)
}

fn end(client: &(impl Client + ?Sized), instance: &Instance) -> Result<()> {
    match client.unfence(instance) {
        // The fence of a process that has ended also ends by itself.
        Err(ObjectError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            Ok(())
        }
        ended => Ok(ended?),
    }
}

impl FencedHolder {
    /// Returns the key and the value that remember the client.
    pub(crate) fn entry(&self) -> (String, Vec<u8>) {
        let key = format!("{PREFIX}{}", self.instance);
        let value = Writer::new(u8::from(self.ended_ns.is_some()))
            .u64(self.ended_ns.unwrap_or(0))
            .bytes(self.process.text().as_bytes())
            .finish(&key);
        (key, value)
    }

    pub(crate) fn decode(key: &str, value: &[u8]) -> Option<Self> {
        let instance = Instance(key.strip_prefix(PREFIX)?.to_owned());
        let mut reader = Reader::new(key, value).ok()?;
        let has_ended = reader.tag != 0;
        let ended_ns = reader.u64().ok()?;
        let process = ProcessIdentity::parse(std::str::from_utf8(reader.rest()).ok()?)?;
        Some(Self { instance, process, ended_ns: has_ended.then_some(ended_ns) })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use gemelo_objects::simulated::{Client, Faults, World};
    use gemelo_objects::{Locks as _, Objects as _};

    pub(crate) const MEMBER: MemberId = MemberId(1);

    /// The identity of a process that had the number of this one before.
    pub(crate) fn ended_process() -> ProcessIdentity {
        let own = ProcessIdentity::of_this_process().unwrap().text();
        let (rest, _started) = own.rsplit_once(' ').unwrap();
        ProcessIdentity::parse(&format!("{rest} 1")).unwrap()
    }

    fn remember(client: &Client, fenced: &FencedHolder) {
        let update = Update { set: vec![fenced.entry()], ..Update::default() };
        client.update(&member_object(MEMBER), &update).unwrap();
    }

    fn remembered(client: &Client) -> Vec<FencedHolder> {
        let range = KeyRange { after: "", prefix: PREFIX, limit: MAX_PAGE_KEYS };
        let page = client.list_keys(&member_object(MEMBER), range).unwrap();
        let decode = |(key, value): &(String, Vec<u8>)| FencedHolder::decode(key, value).unwrap();
        page.entries.iter().map(decode).collect()
    }

    fn is_fenced(client: &Client) -> bool {
        matches!(client.write("object", 0, b"late"), Err(ObjectError::Fenced { .. }))
    }

    /// A store with the object of the member, a fenced client, and another one.
    fn fenced_client() -> (World, Client, Client) {
        let world = World::new(1, Faults::NONE);
        let (one, two) = (world.client(), world.client());
        one.create(&member_object(MEMBER)).unwrap();
        two.fence(&one.instance(), Fenced::Lost).unwrap();
        two.write("object", 0, b"first").unwrap();
        (world, one, two)
    }

    #[test]
    fn a_fence_ends_when_nothing_of_an_ended_process_can_arrive_any_more() {
        let (world, one, two) = fenced_client();
        let own = ProcessIdentity::of_this_process().unwrap();
        let running = FencedHolder { instance: one.instance(), process: own, ended_ns: None };
        remember(&two, &running);
        assert_eq!(tend_fences(&two, &world, MEMBER).unwrap(), 0);
        assert_eq!(remembered(&two), std::slice::from_ref(&running));
        world.sleep_until_ns(10 * QUIET_NS);
        assert_eq!(tend_fences(&two, &world, MEMBER).unwrap(), 0);
        assert!(is_fenced(&one), "the process still runs");

        remember(&two, &FencedHolder { process: ended_process(), ..running });
        let seen_ns = world.now_ns();
        assert_eq!(tend_fences(&two, &world, MEMBER).unwrap(), 0);
        let noted_ns = remembered(&two)[0].ended_ns.unwrap();
        assert!(noted_ns >= seen_ns);
        world.sleep_until_ns(noted_ns + QUIET_NS - 1_000_000_000);
        assert_eq!(tend_fences(&two, &world, MEMBER).unwrap(), 0);
        assert!(is_fenced(&one), "what it sent may still be on its way");
        world.sleep_until_ns(noted_ns + QUIET_NS);
        assert_eq!(tend_fences(&two, &world, MEMBER).unwrap(), 1);
        assert!(!is_fenced(&one) && remembered(&two).is_empty());
    }

    #[test]
    fn nothing_is_known_of_processes_of_another_machine_and_by_damaged_values() {
        let (world, one, two) = fenced_client();
        let text = ended_process().text();
        let (_boot, rest) = text.split_once(' ').unwrap();
        let process = ProcessIdentity::parse(&format!("another {rest}")).unwrap();
        let fenced = FencedHolder { instance: one.instance(), process, ended_ns: Some(0) };
        remember(&two, &fenced);
        let damaged = vec![(format!("{PREFIX}client.7"), vec![1, 0, 0, 0])];
        let update = Update { set: damaged, ..Update::default() };
        two.update(&member_object(MEMBER), &update).unwrap();
        world.sleep_until_ns(10 * QUIET_NS);
        assert_eq!(tend_fences(&two, &world, MEMBER).unwrap(), 0);
        assert!(is_fenced(&one));
        assert_eq!(tend_fences(&two, &world, MemberId(2)).unwrap(), 0, "it has no object");
    }
}
