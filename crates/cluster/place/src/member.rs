//! A member of a domain as the place of a pool.

use crate::error::Result;
use crate::runtime;
use gemelo_base::{BootClock, Clock, StopFlag};
use gemelo_domain::DomainError;
use gemelo_member::{DomainClient, MemberError, MemberUri, Service};
use gemelo_volume::VolumeError;
use parking_lot::Mutex;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The time after which another host may take a member whose process does not renew its lease. A
/// storage server that died is noticed after 20 seconds (`osd_heartbeat_grace`), and until then a
/// renewal may have to wait.
const LEASE: Duration = Duration::from_secs(30);

/// Interval between two looks at a member that is being handed over.
const HAND_OVER_LOOK: Duration = Duration::from_millis(50);

/// A member of a domain. Copies share one connection, which the first use makes.
#[derive(Clone)]
pub struct MemberPlace {
    uri: MemberUri,
    lease: Duration,
    client: Arc<Mutex<Option<Arc<DomainClient>>>>,
    /// `true` if the connection was given, so that no other one can be made.
    is_given: bool,
}

impl MemberPlace {
    /// Returns the place. Nothing is connected.
    #[must_use]
    pub fn new(uri: MemberUri) -> Self {
        Self { uri, lease: LEASE, client: Arc::default(), is_given: false }
    }

    /// Returns the same place, to be served with another lease.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Returns the same place, with a connection that is there already.
    #[must_use]
    pub fn with_client(self, client: Arc<DomainClient>) -> Self {
        Self { client: Arc::new(Mutex::new(Some(client))), is_given: true, ..self }
    }

    /// Returns the name by which commands find the member.
    #[must_use]
    pub const fn uri(&self) -> &MemberUri {
        &self.uri
    }

    /// Returns the lease with which it is served.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns the connection to the domain.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or if there is no domain.
    pub fn client(&self) -> Result<Arc<DomainClient>> {
        let mut client = self.client.lock();
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        // An operation that took longer than the lease would come too late in any case.
        let connected = Arc::new(DomainClient::connect(&self.uri.domain, self.lease)?);
        *client = Some(Arc::clone(&connected));
        Ok(connected)
    }

    /// Gives the connection up, so that the next use makes another one. A client that was fenced,
    /// or whose changes may still be on their way, takes no member any more.
    pub fn reconnect(&self) {
        if !self.is_given {
            *self.client.lock() = None;
        }
    }

    /// Finds out if this process may fence others, which a fail-over needs.
    ///
    /// # Errors
    /// Fails if it may not, or if the cluster does not answer.
    pub fn try_fence(&self) -> Result<()> {
        Ok(self.client()?.try_fence()?)
    }

    /// Takes the member, and keeps its lease until the value is released.
    ///
    /// # Errors
    /// Fails if another client serves the member, or if the cluster does not answer.
    pub(crate) fn take(&self) -> Result<Service> {
        let clock: Arc<dyn Clock> = Arc::new(BootClock);
        let mut service = Service::take(&self.client()?, &self.uri.name, &clock, self.lease)?;
        service.keep()?;
        Ok(service)
    }

    /// Returns how often a client took the member.
    ///
    /// # Errors
    /// Fails if there is no such member, or if the cluster does not answer.
    pub fn epoch(&self) -> Result<u64> {
        Ok(self.client()?.look(&self.uri.name)?.epoch)
    }

    /// Waits until the client that has taken the member as the given one has given it up.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or if the wait was stopped.
    pub fn wait_for_hand_over(&self, epoch: u64, stop: &StopFlag) -> Result<()> {
        let client = self.client()?;
        loop {
            let look = client.look(&self.uri.name)?;
            if look.holder.is_none() || look.epoch != epoch {
                return Ok(());
            }
            if stop.is_raised() {
                return Err(VolumeError::Interrupted.into());
            }
            gemelo_base::pause(HAND_OVER_LOOK);
        }
    }

    pub(crate) fn host_directory(&self) -> Result<PathBuf> {
        runtime::directory_of(&self.uri)
    }

    pub(crate) fn read_text(&self, name: &str) -> Result<io::Result<Option<String>>> {
        let client = self.client()?;
        let member = match client.look(&self.uri.name) {
            Err(MemberError::Domain(DomainError::NoMember { .. })) => return Ok(Ok(None)),
            look => look?.member,
        };
        let Some(bytes) = client.value(member, name)? else { return Ok(Ok(None)) };
        let text = String::from_utf8(bytes);
        Ok(text.map(Some).map_err(|_| io::ErrorKind::InvalidData.into()))
    }
}

impl PartialEq for MemberPlace {
    fn eq(&self, other: &Self) -> bool {
        self.uri == other.uri
    }
}

impl Eq for MemberPlace {}

impl fmt::Debug for MemberPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("MemberPlace").field(&self.uri).finish()
    }
}
