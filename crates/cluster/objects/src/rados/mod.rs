//! Ceph RADOS: the objects of one namespace of a pool, through `librados`, which is loaded when the
//! first connection is made.

mod connect;
mod sys;

pub use connect::{ConnectError, RadosOptions};

use crate::request::scatter;
use crate::{
    Fenced, Holder, Instance, KeyPage, LockName, Locks, ObjectError, Objects, Operation, Request,
    Result,
};
use std::ffi::CString;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use sys::{Answer, Cluster, Code, InFlight, Parts, Pool, ReadWhat, WriteWhat, c_text};

/// Error numbers of Linux, which librados uses on every system.
const NOT_PERMITTED: i32 = 1;
const NOT_FOUND: i32 = 2;
const NO_ACCESS: i32 = 13;
const BUSY: i32 = 16;
const EXISTS: i32 = 17;
const INVALID: i32 = 22;
const NO_SPACE: i32 = 28;
const EXCLUDED: i32 = 108;
const TIMED_OUT: i32 = 110;
const QUOTA: i32 = 122;
const CANCELED: i32 = 125;

/// The cookie of all locks: a client holds a lock at most once.
const COOKIE: &str = "gemelo";
/// The time for which a process is fenced that may still run. The monitors keep fences in a map
/// that every client gets, so they must end. A process that runs ends itself within a lease; one
/// that is stopped, or whose machine is paused, goes on where it was and resends what was not
/// answered, and nothing else bounds how late. It must not be woken after this time.
const LOST_SPAN: Duration = Duration::from_secs(30 * 24 * 3600);
/// The time for which a process is fenced that has ended, if nobody ends the fence before. The
/// system sends what is left in its sockets for up to 16 minutes (`tcp_retries2`), and a storage
/// server holds no request for longer than that.
const ENDED_SPAN: Duration = Duration::from_secs(3600);
/// An address of no client (RFC 5737), by whose fence the right to fence is tested.
const NOBODY: &std::ffi::CStr = c"192.0.2.1:0/1";
/// The time of that fence, the shortest one.
const TRIAL_SPAN: Duration = Duration::from_secs(1);

/// A client of a RADOS cluster.
#[derive(Debug)]
pub struct Rados {
    cluster: Arc<Cluster>,
    pool: Pool,
    instance: Instance,
}

impl Rados {
    fn error(&self, code: Code, action: &'static str, object: &str) -> ObjectError {
        let object = object.to_owned();
        match code.0 {
            NOT_PERMITTED | NO_ACCESS => ObjectError::NotPermitted { action, object },
            NOT_FOUND => ObjectError::NotFound { object },
            EXISTS => ObjectError::Exists { object },
            NO_SPACE | QUOTA => ObjectError::Full { object },
            EXCLUDED => ObjectError::Fenced { instance: self.instance.clone() },
            TIMED_OUT => ObjectError::TimedOut { action, object },
            number => {
                ObjectError::Io { action, object, source: io::Error::from_raw_os_error(number) }
            }
        }
    }

    fn submit<'a>(
        &'a self,
        object: &str,
        operation: &'a mut Operation<'_>,
    ) -> std::result::Result<InFlight<'a>, Code> {
        let name = c_text(object);
        let what = match operation {
            Operation::Read { offset, buffer, .. } => {
                return InFlight::read(&self.pool, &name, ReadWhat::Bytes(*offset, buffer));
            }
            Operation::ReadParts { offset, parts, .. } => {
                return InFlight::read(
                    &self.pool,
                    &name,
                    ReadWhat::Parts(*offset, Parts::new(parts)),
                );
            }
            Operation::Stat { .. } => {
                return InFlight::read(&self.pool, &name, ReadWhat::Length);
            }
            Operation::GetKeys { keys, .. } => {
                return InFlight::read(&self.pool, &name, ReadWhat::Keys(keys));
            }
            Operation::ListKeys { range, .. } => {
                let limit = range.bounded_limit() as u64;
                let what = ReadWhat::Range(c_text(range.after), c_text(range.prefix), limit);
                return InFlight::read(&self.pool, &name, what);
            }
            Operation::Write { parts } => WriteWhat::Parts(parts),
            Operation::Append { bytes } => WriteWhat::Append(bytes),
            Operation::Zero { offset, length } => WriteWhat::Zero(*offset, *length),
            Operation::Truncate { length } => WriteWhat::Truncate(*length),
            Operation::Create => WriteWhat::Create,
            Operation::Remove => WriteWhat::Remove,
            Operation::Update(update) => WriteWhat::Keys(update),
        };
        InFlight::write(&self.pool, &name, what)
    }

    fn settle(
        &self,
        request: &mut Request<'_>,
        result: std::result::Result<(), Code>,
        answer: Answer,
    ) {
        let (verb, object) = (request.operation.verb(), request.object);
        request.outcome = match (result, &request.operation) {
            (Ok(()), _) => {
                answer.fill(&mut request.operation);
                Ok(())
            }
            (Err(Code(CANCELED)), Operation::Update(update)) => {
                let guard = update.guards.get(answer.failed_guard.unwrap_or(0));
                let key = guard.map(|guard| guard.key.clone()).unwrap_or_default();
                Err(ObjectError::Guard { object: object.into(), key })
            }
            (Err(code), _) => Err(self.error(code, verb, object)),
        };
    }
}

impl Answer {
    fn fill(self, operation: &mut Operation<'_>) {
        match operation {
            Operation::Read { buffer, filled, .. } => {
                assert!(self.filled <= buffer.len(), "no more is read than there is memory for");
                *filled = self.filled;
            }
            Operation::ReadParts { parts, filled, .. } => {
                let length = parts.iter().map(|part| part.len()).sum();
                assert!(self.filled <= length, "no more is read than there is memory for");
                *filled = self.filled;
                scatter(&self.bytes, parts);
            }
            Operation::Stat { length } => *length = self.length,
            Operation::ListKeys { page, .. } => *page = self.page,
            Operation::GetKeys { keys, values } => *values = in_order(keys, self.page),
            _ => {}
        }
    }
}

/// Brings values, which are sorted by key, into the order of the keys that were asked for.
fn in_order(keys: &[String], page: KeyPage) -> Vec<Option<Vec<u8>>> {
    let entries = page.entries;
    assert!(entries.is_sorted_by(|one, next| one.0 < next.0), "librados sorts keys");
    let place = |key: &String| entries.binary_search_by(|(found, _)| found.cmp(key)).ok();
    let value = |key| place(key).and_then(|place| entries.get(place));
    keys.iter().map(|key| value(key).map(|(_, value)| value.clone())).collect()
}

impl Objects for Rados {
    fn execute(&self, requests: &mut [Request<'_>]) {
        let mut answers = Vec::with_capacity(requests.len());
        {
            let mut in_flight = Vec::with_capacity(requests.len());
            for request in &mut *requests {
                in_flight.push(match request.operation.validate(request.object) {
                    Ok(()) => Ok(self.submit(request.object, &mut request.operation)),
                    Err(error) => Err(error),
                });
            }
            for submitted in in_flight {
                answers.push(submitted.map(|submitted| match submitted {
                    Ok(operation) => operation.finish(),
                    Err(code) => (Err(code), Answer::default()),
                }));
            }
        }
        assert_eq!(answers.len(), requests.len(), "each request has an answer");
        for (request, answer) in requests.iter_mut().zip(answers) {
            match answer {
                Ok((Ok(()), answer)) => {
                    let (result, answer) = self.skip_foreign_keys(request, answer);
                    self.settle(request, result, answer);
                }
                Ok((result, answer)) => self.settle(request, result, answer),
                Err(error) => request.outcome = Err(error),
            }
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let listed = self.pool.list(|name| {
            // No object of gemelo has a name that is no text.
            let name = std::str::from_utf8(name).ok().filter(|name| name.starts_with(prefix));
            names.extend(name.map(str::to_owned));
        });
        listed.map_err(|code| self.error(code, "list", prefix))?;
        names.sort_unstable();
        Ok(names)
    }
}

impl Rados {
    /// Goes on with a listing as long as a page has nothing but keys that are no text.
    fn skip_foreign_keys(
        &self,
        request: &Request<'_>,
        mut answer: Answer,
    ) -> (std::result::Result<(), Code>, Answer) {
        let Operation::ListKeys { range, .. } = &request.operation else {
            return (Ok(()), answer);
        };
        while answer.page.entries.is_empty() && answer.page.has_more {
            let Ok(after) = CString::new(answer.last_key) else {
                return (Err(Code(INVALID)), Answer::default());
            };
            let limit = range.bounded_limit() as u64;
            let what = ReadWhat::Range(after, c_text(range.prefix), limit);
            let submitted = InFlight::read(&self.pool, &c_text(request.object), what);
            answer = match submitted.map(InFlight::finish) {
                Ok((Ok(()), answer)) => answer,
                Ok(failed) => return failed,
                Err(code) => return (Err(code), Answer::default()),
            };
        }
        (Ok(()), answer)
    }

    fn lock_error(&self, code: Code, lock: LockName<'_>) -> ObjectError {
        match code.0 {
            NOT_FOUND => {
                ObjectError::NotHeld { object: lock.object.into(), lock: lock.name.into() }
            }
            _ => self.error(code, "lock", lock.object),
        }
    }

    fn take(&self, lock: LockName<'_>, lease: Duration, must_renew: bool) -> Result<()> {
        assert!(!lease.is_zero(), "a lock without a lease never ends");
        let names = (c_text(lock.object), c_text(lock.name), c_text(COOKIE));
        let taken = self.pool.lock(&names.0, &names.1, &names.2, lease, must_renew);
        match taken {
            Err(Code(BUSY)) if must_renew => Err(self.lock_error(Code(NOT_FOUND), lock)),
            Err(Code(BUSY)) => match self.holder(lock)? {
                Some(holder) => Err(ObjectError::Held {
                    object: lock.object.into(),
                    lock: lock.name.into(),
                    holder: Box::new(holder),
                }),
                // Its lease ended in between: the lock is free, and the caller tries again.
                None => Err(self.error(Code(TIMED_OUT), "lock", lock.object)),
            },
            taken => taken.map_err(|code| self.lock_error(code, lock)),
        }
    }
}

impl Locks for Rados {
    fn instance(&self) -> Instance {
        self.instance.clone()
    }

    fn lock(&self, lock: LockName<'_>, lease: Duration) -> Result<()> {
        self.take(lock, lease, false)
    }

    fn renew(&self, lock: LockName<'_>, lease: Duration) -> Result<()> {
        self.take(lock, lease, true)
    }

    fn unlock(&self, lock: LockName<'_>) -> Result<()> {
        let names = (c_text(lock.object), c_text(lock.name), c_text(COOKIE));
        let unlocked = self.pool.unlock(&names.0, &names.1, &names.2);
        unlocked.map_err(|code| self.lock_error(code, lock))
    }

    fn holder(&self, lock: LockName<'_>) -> Result<Option<Holder>> {
        match self.pool.holder(&c_text(lock.object), &c_text(lock.name)) {
            Err(Code(NOT_FOUND)) => Ok(None),
            holder => holder.map_err(|code| self.lock_error(code, lock)),
        }
    }

    fn fence(&self, instance: &Instance, fenced: Fenced) -> Result<()> {
        assert!(*instance != self.instance, "a client does not fence itself");
        let span = match fenced {
            Fenced::Lost => LOST_SPAN,
            Fenced::Ended => ENDED_SPAN,
        };
        let excluded = self.cluster.exclude(&c_text(&instance.0), span);
        excluded.map_err(|code| self.error(code, "fence a client of", "the cluster"))
    }

    fn unfence(&self, instance: &Instance) -> Result<()> {
        match self.cluster.admit(instance) {
            // The fence has ended by itself.
            Err(Code(NOT_FOUND)) => Ok(()),
            admitted => admitted.map_err(|code| self.error(code, "end a fence of", "the cluster")),
        }
    }

    fn try_fence(&self) -> Result<()> {
        let excluded = self.cluster.exclude(NOBODY, TRIAL_SPAN);
        excluded.map_err(|code| self.error(code, "fence a client of", "the cluster"))
    }
}
