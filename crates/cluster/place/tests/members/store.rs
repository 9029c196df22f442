//! A client of the simulated store with the faults of one test.

use gemelo_objects::simulated::{Client, World};
use gemelo_objects::{
    Fenced, Holder, Instance, LockName, Locks, ObjectError, Objects, Operation, Request, Result,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

type Hook = Box<dyn FnMut() + Send>;
type Watcher = Arc<dyn Fn(&[Request<'_>]) + Send + Sync>;

/// A client of the store.
pub(crate) struct Store {
    client: Client,
    /// `true` to lose changes of ledgers, as if they never arrived.
    pub(crate) loses_ledger: AtomicBool,
    /// `true` to refuse changes of ledgers, as a full store does.
    pub(crate) refuses_ledger: AtomicBool,
    /// `true` to lose changes of the index.
    pub(crate) loses_index: AtomicBool,
    /// `true` to lose listings of objects.
    pub(crate) loses_lists: AtomicBool,
    /// The beginning of the names of objects whose removals are lost.
    pub(crate) lost_removals: Mutex<Option<String>>,
    /// The beginning of the names of objects whose reads are lost.
    pub(crate) lost_reads: Mutex<Option<String>>,
    /// Called before each change of the index.
    pub(crate) before_index: Mutex<Option<Hook>>,
    /// Called before the next change of the list of members.
    pub(crate) before_members: Mutex<Option<Hook>>,
    /// Sees all requests before they are executed, by several threads at once.
    pub(crate) watcher: Mutex<Option<Watcher>>,
    /// Changes of the index.
    pub(crate) index_changes: AtomicU64,
}

impl Store {
    pub(crate) fn new(world: &World) -> Arc<Self> {
        Arc::new(Self {
            client: world.client(),
            loses_ledger: AtomicBool::new(false),
            refuses_ledger: AtomicBool::new(false),
            loses_index: AtomicBool::new(false),
            loses_lists: AtomicBool::new(false),
            lost_removals: Mutex::default(),
            lost_reads: Mutex::default(),
            before_index: Mutex::default(),
            before_members: Mutex::default(),
            watcher: Mutex::default(),
            index_changes: AtomicU64::new(0),
        })
    }

    fn is_change_of(request: &Request<'_>, prefix: &str, flag: &AtomicBool) -> bool {
        let is_change = matches!(request.operation, Operation::Update(_));
        is_change && request.object.starts_with(prefix) && flag.load(Ordering::Relaxed)
    }

    fn is_lost(&self, request: &Request<'_>) -> bool {
        let is_removal = matches!(request.operation, Operation::Remove);
        let is_read =
            matches!(request.operation, Operation::Read { .. } | Operation::ReadParts { .. });
        let prefix = self.lost_removals.lock();
        let unread = self.lost_reads.lock();
        Self::is_change_of(request, "ledger.", &self.loses_ledger)
            || Self::is_change_of(request, "index.", &self.loses_index)
            || is_read && unread.as_ref().is_some_and(|one| request.object.starts_with(one))
            || is_removal && prefix.as_ref().is_some_and(|one| request.object.starts_with(one))
    }

    fn note_index(&self, requests: &[Request<'_>]) {
        let is_index = |request: &&Request<'_>| {
            request.object.starts_with("index.")
                && matches!(request.operation, Operation::Update(_))
        };
        let count = requests.iter().filter(is_index).count() as u64;
        if count > 0 {
            self.index_changes.fetch_add(count, Ordering::Relaxed);
            // The hook may change the index itself.
            let hook = self.before_index.lock().take();
            if let Some(mut hook) = hook {
                hook();
                self.before_index.lock().get_or_insert(hook);
            }
        }
    }
}

impl Objects for Store {
    fn execute(&self, requests: &mut [Request<'_>]) {
        let watcher = self.watcher.lock().clone();
        watcher.into_iter().for_each(|watcher| watcher(requests));
        self.note_index(requests);
        let is_members = |request: &Request<'_>| {
            request.object == "members" && matches!(request.operation, Operation::Update(_))
        };
        if requests.iter().any(is_members) {
            let hook = self.before_members.lock().take();
            hook.into_iter().for_each(|mut hook| hook());
        }
        let is_refused =
            |request: &Request<'_>| Self::is_change_of(request, "ledger.", &self.refuses_ledger);
        if requests.iter().any(is_refused) {
            for request in requests {
                request.outcome = Err(ObjectError::Full { object: request.object.to_owned() });
            }
            return;
        }
        if requests.iter().any(|request| self.is_lost(request)) {
            for request in requests {
                let (action, object) = (request.operation.verb(), request.object.to_owned());
                request.outcome = Err(ObjectError::TimedOut { action, object });
            }
            return;
        }
        self.client.execute(requests);
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        if self.loses_lists.load(Ordering::Relaxed) {
            return Err(ObjectError::TimedOut { action: "list", object: prefix.to_owned() });
        }
        self.client.list(prefix)
    }
}

pass_on_locks!(Store);
