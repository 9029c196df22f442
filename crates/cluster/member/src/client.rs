//! A client of a domain: its connection, what its members share, and its members.

use crate::disk::{DiskContext, MemberDisk, ObjectDisk};
use crate::error::{MemberError, Result};
use crate::home::context_to_read;
use crate::traffic::Traffic;
use crate::uri::DomainUri;
use crate::watched::Watched;
use gemelo_base::random;
use gemelo_domain::{
    Client, Damage, DomainConfig, DomainError, IndexStats, MemberId, MemberValues, Members,
    NamedMember, NewMember, SharedSettings, Tenure, member_object,
};
use gemelo_objects::rados::{Rados, RadosOptions};
use gemelo_objects::{Holder, ObjectError, Objects};
use gemelo_store::PoolDisks;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Linux's number of the error for an operation that a pool does not have (EOPNOTSUPP).
const NOT_SUPPORTED: i32 = 95;

/// A connection to a domain.
pub struct DomainClient {
    pub(crate) index: Arc<dyn Client>,
    pub(crate) data: Arc<dyn Objects>,
    config: DomainConfig,
    shared: SharedSettings,
    /// Set by any call that finds this client fenced.
    is_fenced: Arc<AtomicBool>,
    traffic: Arc<Traffic>,
    /// Set when a change of unknown fate may be on its way, or when the client was fenced: this
    /// client must not serve a member again.
    is_spent: AtomicBool,
}

/// A new domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDomain {
    /// The bytes of a block.
    pub block_bytes: u32,
    /// The bits of a fingerprint that choose a shard.
    pub depth: u8,
    /// The kind of the fingerprints.
    pub fingerprint: gemelo_format::FingerprintKind,
    /// The pool that holds contents; `None` for the pool of the index.
    pub data_pool: Option<String>,
}

/// A member as its domain knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberLook {
    /// The number that the domain gave the member.
    pub member: MemberId,
    /// The client that serves it now.
    pub holder: Option<Holder>,
    /// The number of times that it was taken.
    pub epoch: u64,
    /// `true` if it has a pool.
    pub has_pool: bool,
}

fn connect(uri: &DomainUri, timeout: Duration) -> Result<Rados> {
    let configuration = uri.configuration();
    Ok(Rados::connect(&RadosOptions {
        configuration: configuration.as_deref(),
        user: uri.user(),
        pool: &uri.pool,
        namespace: &uri.namespace,
        timeout,
    })?)
}

fn open_data_pool(index: &Rados, pool: &str, namespace: &str) -> Result<Rados> {
    let data = index.open_pool(pool, namespace)?;
    if !data.allows_overwrites()? {
        return Err(MemberError::NoOverwrites { pool: pool.to_owned() });
    }
    Ok(data)
}

/// Removes a domain without members. Returns the number of objects that were removed.
///
/// # Errors
/// Fails if there is no domain, if it has members, or if the store fails.
pub fn remove_domain(uri: &DomainUri, timeout: Duration) -> Result<u64> {
    Ok(gemelo_domain::remove_domain(&connect(uri, timeout)?)?)
}

impl NewDomain {
    /// Creates the domain in a namespace. A creation that was interrupted is continued by another
    /// one of the same settings.
    ///
    /// # Errors
    /// Fails if a domain with other settings exists, or if a pool cannot hold its part.
    pub fn create(&self, uri: &DomainUri, timeout: Duration) -> Result<()> {
        let index = connect(uri, timeout)?;
        let data_pool = self.data_pool.as_deref().unwrap_or(&uri.pool);
        open_data_pool(&index, data_pool, &uri.namespace)?;
        self.create_in(&index).map_err(|error| match &error {
            MemberError::Domain(DomainError::Object(ObjectError::Io { source, .. }))
                if source.raw_os_error() == Some(NOT_SUPPORTED) =>
            {
                MemberError::NoKeys { pool: uri.pool.clone() }
            }
            _ => error,
        })
    }

    /// Creates the domain in these objects.
    ///
    /// # Errors
    /// Fails as [`Self::create`] does.
    pub fn create_in(&self, index: &dyn Objects) -> Result<()> {
        let key = match DomainConfig::unfinished(index)? {
            Some(_) => SharedSettings::open(index)?.key,
            None => random::fresh_bytes().map_err(MemberError::Random)?,
        };
        let (fingerprint, data_pool) = (self.fingerprint, self.data_pool.clone());
        let shared = SharedSettings { fingerprint, key, data_pool };
        let fingerprint_id = shared.fingerprint_id();
        let (block_bytes, depth) = (self.block_bytes, self.depth);
        let config = DomainConfig {
            block_bytes,
            depth,
            fingerprint_id,
            unknown: gemelo_format::Features::NONE,
        };
        Ok(config.create_shared(index, &shared)?)
    }
}

impl DomainClient {
    /// Connects to a domain.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or if there is no domain.
    pub fn connect(uri: &DomainUri, timeout: Duration) -> Result<Self> {
        let index = connect(uri, timeout)?;
        let data_pool = SharedSettings::open(&index)?.data_pool;
        let data_pool = data_pool.as_deref().unwrap_or(&uri.pool);
        let data = open_data_pool(&index, data_pool, &uri.namespace)?;
        Self::new(Arc::new(index), Arc::new(data))
    }

    /// Returns the client of a domain whose index and contents are in these objects. Both belong to
    /// one client of the store, so that a fence holds for both.
    ///
    /// # Errors
    /// Fails if there is no domain.
    pub fn new(index: Arc<dyn Client>, data: Arc<dyn Objects>) -> Result<Self> {
        let config = DomainConfig::open(&*index)?;
        let shared = SharedSettings::open(&*index)?;
        let (is_fenced, traffic) = (Arc::default(), Arc::default());
        let index: Arc<dyn Client> = Arc::new(Watched::new(index, &is_fenced, &traffic));
        let data: Arc<dyn Objects> = Arc::new(Watched::new(data, &is_fenced, &traffic));
        let is_spent = AtomicBool::new(false);
        Ok(Self { index, data, config, shared, is_fenced, traffic, is_spent })
    }

    /// Returns the settings of the index.
    #[must_use]
    pub const fn config(&self) -> &DomainConfig {
        &self.config
    }

    /// Returns what the members share besides the index.
    #[must_use]
    pub const fn shared(&self) -> &SharedSettings {
        &self.shared
    }

    /// Returns the objects of the index.
    #[must_use]
    pub fn index(&self) -> &dyn Objects {
        &*self.index
    }

    /// Returns the same objects. They may outlive the client.
    #[must_use]
    pub fn objects(&self) -> Arc<dyn Objects> {
        Arc::clone(&self.index) as Arc<dyn Objects>
    }

    /// Returns the objects of the contents. They may outlive the client.
    #[must_use]
    pub fn data_objects(&self) -> Arc<dyn Objects> {
        Arc::clone(&self.data)
    }

    /// Returns the counters of the traffic with the store.
    #[must_use]
    pub const fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Finds out if this client may fence others, which a fail-over needs.
    ///
    /// # Errors
    /// Fails if the user of the store has no right to do so, or if the store does not answer.
    pub fn try_fence(&self) -> Result<()> {
        self.index.try_fence().map_err(|error| match error {
            ObjectError::NotPermitted { .. } => MemberError::MayNotFence,
            error => error.into(),
        })
    }

    pub(crate) const fn is_fenced(&self) -> &Arc<AtomicBool> {
        &self.is_fenced
    }

    /// Returns the figures of the index.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn index_figures(&self) -> Result<IndexStats> {
        Ok(IndexStats::read(&*self.index)?)
    }

    /// Returns the number of a member, which is registered if the domain has none of this name.
    ///
    /// # Errors
    /// Fails if the name is too long, or if the store fails.
    pub fn register(&self, name: &str) -> Result<MemberId> {
        self.config.check_writable()?;
        let members = Members::new(&*self.index);
        match members.find(name) {
            Err(DomainError::NoMember { .. }) => {}
            found => return Ok(found?),
        }
        let token = u64::from_le_bytes(random::fresh_bytes().map_err(MemberError::Random)?);
        match members.add(&NewMember { name, token }) {
            // Another host was faster.
            Err(DomainError::MemberExists { .. }) => Ok(members.find(name)?),
            added => Ok(added?),
        }
    }

    /// Returns the names and numbers of all members.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn members(&self) -> Result<Vec<(String, MemberId)>> {
        Ok(Members::new(&*self.index).list()?)
    }

    /// Returns the members whose records can be read, and the damage of the others.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn readable_members(&self) -> Result<(Vec<NamedMember>, Vec<Damage>)> {
        Ok(Members::new(&*self.index).list_readable()?)
    }

    /// Looks at a member without taking it.
    ///
    /// # Errors
    /// Fails if there is no member of this name, or if the store does.
    pub fn look(&self, name: &str) -> Result<MemberLook> {
        self.look_at(Members::new(&*self.index).find(name)?)
    }

    /// Looks at the member of a number.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn look_at(&self, member: MemberId) -> Result<MemberLook> {
        let (holder, epoch) = Tenure::look(&*self.index, member)?;
        let has_pool = has_pool(&*self.index, member)?;
        Ok(MemberLook { member, holder, epoch, has_pool })
    }

    /// Returns a value that a member keeps, such as its settings.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn value(&self, member: MemberId, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(MemberValues::new(&*self.index, member).get(key)?)
    }

    /// Returns the names of objects of a member's metadata that should be there and are not, up to
    /// 1,000 of them; [`None`] if the member has no metadata.
    ///
    /// # Errors
    /// Fails if the store does, or if the length of the metadata is damaged.
    pub fn lost_objects(&self, member: MemberId) -> Result<Option<Vec<String>>> {
        let disk = MemberDisk::Metadata;
        let Some(length) = disk.recorded_length(&*self.index, member)? else { return Ok(None) };
        let present: BTreeSet<String> =
            self.index.list(&disk.prefix(member))?.into_iter().collect();
        let lost = disk.objects(member, length).filter(|name| !present.contains(name));
        Ok(Some(lost.take(MOST_LOST).collect()))
    }

    /// Opens the disks of a member that no client serves, for reading. Nothing keeps others from
    /// taking the member meanwhile: [`Inspection::check`] tells.
    ///
    /// # Errors
    /// Fails if a client serves the member, or if it has no pool.
    pub fn inspect(self: &Arc<Self>, name: &str) -> Result<Inspection> {
        let look = self.look(name)?;
        if let Some(holder) = look.holder {
            return Err(DomainError::InUse { holder: Box::new(holder) }.into());
        }
        if !look.has_pool {
            return Err(self.no_pool(name, look.member)?);
        }
        let context = context_to_read(self.objects(), look.member);
        let disks = self.open_disks(&Arc::new(context))?.0;
        Ok(Inspection { client: Arc::clone(self), member: look.member, epoch: look.epoch, disks })
    }

    /// Returns the error about a member without a pool. One that has objects has lost what its own
    /// object said, and a pool must not be created over it.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn no_pool(&self, name: &str, member: MemberId) -> Result<MemberError> {
        let name = name.to_owned();
        let is_new = MemberValues::new(&*self.index, member).get(CREATING_KEY)?.is_some();
        let prefixes = [MemberDisk::Metadata.prefix(member), format!("ledger.{member}")];
        for prefix in prefixes {
            if !is_new && !self.index.list(&prefix)?.is_empty() {
                return Ok(MemberError::MemberLost { name, object: member_object(member) });
            }
        }
        Ok(MemberError::NoPool { name })
    }

    pub(crate) fn open_disks(
        &self,
        context: &Arc<DiskContext>,
    ) -> Result<(PoolDisks, Arc<ObjectDisk>)> {
        let open = |which, objects: Arc<dyn Objects>| -> Result<Arc<ObjectDisk>> {
            Ok(Arc::new(ObjectDisk::open(which, objects, Arc::clone(context))?))
        };
        let data = open(MemberDisk::Data, Arc::clone(&self.data))?;
        let metadata = open(MemberDisk::Metadata, Arc::clone(&self.index) as Arc<dyn Objects>)?;
        Ok((PoolDisks::new(data, Arc::clone(&metadata) as Arc<_>), metadata))
    }

    /// Notes that this client must not serve a member again.
    pub(crate) fn spend(&self) {
        self.is_spent.store(true, Ordering::Release);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Acquire)
    }
}

/// Lost objects that are named: a length that is wrong may ask for millions.
pub(crate) const MOST_LOST: usize = 1000;
/// The key that a member has while its pool is being created.
pub(crate) const CREATING_KEY: &str = "creating";

/// Returns whether a member's metadata have a length, and its creation was finished.
pub(crate) fn has_pool(index: &dyn Objects, member: MemberId) -> Result<bool> {
    let values = MemberValues::new(index, member);
    let has_length = values.get(MemberDisk::Metadata.length_key())?.is_some();
    Ok(has_length && values.get(CREATING_KEY)?.is_none())
}

/// The disks of a member that nobody serves, opened for reading.
pub struct Inspection {
    client: Arc<DomainClient>,
    member: MemberId,
    epoch: u64,
    disks: PoolDisks,
}

impl Inspection {
    /// Returns the number of the member.
    #[must_use]
    pub const fn member(&self) -> MemberId {
        self.member
    }

    /// Returns the data and metadata disks of the member.
    #[must_use]
    pub fn disks(&self) -> PoolDisks {
        self.disks.clone()
    }

    /// Checks that nobody took the member since it was opened, so that what was read is consistent.
    ///
    /// # Errors
    /// Fails if a client took the member, or if the store does not answer.
    pub fn check(&self) -> Result<()> {
        let (holder, epoch) = Tenure::look(&*self.client.index, self.member)?;
        if holder.is_some() || epoch != self.epoch {
            return Err(MemberError::Taken);
        }
        Ok(())
    }
}
