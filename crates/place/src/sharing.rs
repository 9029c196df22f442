//! A member that shares contents with its domain: its ledger, the contents of other members, and
//! the thread that publishes and releases.

use crate::error::Result;
use gemelo_base::{StopFlag, SystemClock};
use gemelo_domain::MemberId;
use gemelo_format::read_superblock;
use gemelo_member::DomainClient;
use gemelo_sharing::{
    BlockFigures, Figures, ForeignContents, ForeignRead, Sharing, SharingError, SharingOptions,
    SharingParts,
};
use gemelo_store::{BlockStore, ContentRead, PoolDisks, Store};
use gemelo_volume::Pool;
use parking_lot::{Condvar, Mutex, RwLock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause after a round without work. The mailbox is looked at as often.
const IDLE: Duration = Duration::from_secs(1);

/// Pause after a round that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// What a member shares with its domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharingStat {
    /// Counts since the member was opened.
    #[serde(flatten)]
    pub counts: Figures,
    /// Counts of the member's blocks.
    #[serde(flatten)]
    pub blocks: BlockFigures,
    /// The reason for which the last round failed.
    pub failure: Option<String>,
}

/// The sharing of a member that is open.
#[derive(Clone)]
pub(crate) struct MemberSharing {
    sharing: Arc<Sharing>,
    failure: Arc<Mutex<Option<String>>>,
}

impl MemberSharing {
    /// Reads the ledger of a member. Its last holder is fenced, or it is only looked at.
    pub(crate) fn load(client: &Arc<DomainClient>, member: MemberId) -> Result<Self> {
        let foreign =
            Arc::new(Neighbours { client: Arc::clone(client), stores: RwLock::default() });
        let sharing = Sharing::load(SharingParts {
            objects: client.objects(),
            clock: Arc::new(SystemClock::new()),
            config: *client.config(),
            member,
            foreign,
            options: SharingOptions::default(),
        })?;
        Ok(Self { sharing: Arc::new(sharing), failure: Arc::default() })
    }

    /// Returns the disks with the keeper of the member's blocks.
    pub(crate) fn keep(&self, disks: PoolDisks) -> PoolDisks {
        disks.with_keeper(self.sharing.keeper())
    }

    /// Works until nothing is left to do, or until it is stopped.
    pub(crate) fn work_off(&self, pool: &Pool, stop: &StopFlag) -> Result<()> {
        while !stop.is_raised() && !self.work(pool)? {}
        Ok(())
    }

    /// Does one round. Returns whether there was nothing to do.
    fn work(&self, pool: &Pool) -> Result<bool> {
        let round = self.sharing.work(pool);
        *self.failure.lock() = round.as_ref().err().map(text_of);
        Ok(round?.is_idle())
    }

    pub(crate) fn stat(&self) -> SharingStat {
        SharingStat {
            counts: self.sharing.figures(),
            blocks: self.sharing.block_figures(),
            failure: self.failure.lock().clone(),
        }
    }
}

/// Returns an error with its causes in one line.
fn text_of(error: &SharingError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// The thread that shares, until the value is dropped.
pub(crate) struct Sharer {
    signal: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Sharer {
    pub(crate) fn start(sharing: MemberSharing, pool: Arc<Pool>) -> io::Result<Self> {
        let signal = Arc::new((Mutex::new(false), Condvar::new()));
        let heard = Arc::clone(&signal);
        let thread = std::thread::Builder::new().name("gemelo-sharer".into()).spawn(move || {
            let mut pause = Duration::ZERO;
            while !stopped_within(&heard, pause) {
                pause = match sharing.work(&pool) {
                    Ok(false) => Duration::ZERO,
                    Ok(true) => IDLE,
                    Err(_) => AFTER_FAILURE,
                };
            }
        })?;
        Ok(Self { signal, thread: Some(thread) })
    }
}

/// Waits for a time. Returns `true` if the thread has to stop.
fn stopped_within((stop, raised): &(Mutex<bool>, Condvar), time: Duration) -> bool {
    let mut stop = stop.lock();
    if !*stop && !time.is_zero() {
        raised.wait_for(&mut stop, time);
    }
    *stop
}

impl Drop for Sharer {
    fn drop(&mut self) {
        *self.signal.0.lock() = true;
        self.signal.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already, and the pool stays as it is.
            let _ = thread.join();
        }
    }
}

/// The stores of the other members, opened when they are first read.
struct Neighbours {
    client: Arc<DomainClient>,
    stores: RwLock<HashMap<MemberId, Arc<dyn Store>>>,
}

impl Neighbours {
    fn store(&self, member: MemberId) -> io::Result<Arc<dyn Store>> {
        if let Some(store) = self.stores.read().get(&member) {
            return Ok(Arc::clone(store));
        }
        let disks = self.client.disks_of(member).map_err(io::Error::other)?;
        let superblock = read_superblock(&*disks.metadata, &mut Vec::new());
        let store = BlockStore::open(disks.data, &superblock.map_err(io::Error::other)?);
        self.stores.write().insert(member, Arc::clone(&store));
        Ok(store)
    }

    fn read_of(&self, member: MemberId, reads: &mut [&mut ForeignRead<'_>]) {
        let store = match self.store(member) {
            Ok(store) => store,
            Err(error) => {
                for read in reads {
                    read.outcome = Err(io::Error::new(error.kind(), error.to_string()));
                }
                return;
            }
        };
        let mut list: Vec<ContentRead<'_>> = reads
            .iter_mut()
            .map(|read| ContentRead::new(read.pbn, read.within, &mut *read.buffer))
            .collect();
        store.read(&mut list);
        let outcomes: Vec<io::Result<()>> = list.into_iter().map(|read| read.outcome).collect();
        for (read, outcome) in reads.iter_mut().zip(outcomes) {
            read.outcome = outcome;
        }
    }
}

impl ForeignContents for Neighbours {
    fn read(&self, reads: &mut [ForeignRead<'_>]) {
        let mut by_home: BTreeMap<MemberId, Vec<&mut ForeignRead<'_>>> = BTreeMap::new();
        for read in reads {
            by_home.entry(read.home).or_default().push(read);
        }
        for (home, reads) in &mut by_home {
            self.read_of(*home, reads);
            let is_longer = |read: &&mut ForeignRead<'_>| {
                read.outcome
                    .as_ref()
                    .is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
            };
            // The disk of the home may have become longer since it was opened.
            if reads.iter().any(is_longer) && self.stores.write().remove(home).is_some() {
                self.read_of(*home, reads);
            }
        }
    }
}
