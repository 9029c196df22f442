//! A client that runs the crate's code call by call: it gives the answers that were recorded, and
//! stops at the first call that has none. The code is run again when the next answer is there.

use super::store::{Answer, Call};
use gemelo_base::Clock;
use gemelo_objects::{
    Fenced, Holder, Instance, LockName, Locks, ObjectError, Objects, Operation, Request, Result,
};
use std::io;
use std::sync::Mutex;
use std::time::Duration;

/// What the code has learnt, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    Time(u8),
    Answer(Answer),
}

/// A run of the code of one process.
pub(crate) struct Script {
    process: usize,
    now: u8,
    is_guarded: bool,
    run: Mutex<Run>,
}

struct Run {
    log: Vec<Entry>,
    /// Entries of the log that were used.
    used: usize,
    next: Option<Call>,
}

/// The name of a process in the store.
pub(crate) fn instance(process: usize) -> Instance {
    Instance(format!("client.{process}"))
}

fn number(instance: &Instance) -> usize {
    let number = instance.0.strip_prefix("client.").and_then(|number| number.parse().ok());
    number.expect("a process of the model")
}

impl Script {
    pub(crate) fn new(process: usize, now: u8, is_guarded: bool, log: Vec<Entry>) -> Self {
        let run = Mutex::new(Run { log, used: 0, next: None });
        Self { process, now, is_guarded, run }
    }

    /// Returns the log, and the call at which the code stopped.
    pub(crate) fn finish(self) -> (Vec<Entry>, Option<Call>) {
        let Run { log, used, next } = self.run.into_inner().expect("one thread");
        assert_eq!(used, log.len(), "the code repeats itself");
        (log, next)
    }

    fn call(&self, call: Call) -> Result<Answer> {
        let mut run = self.run.lock().expect("one thread");
        assert!(run.next.is_none(), "the code goes on without an answer");
        let Some(entry) = run.log.get(run.used).cloned() else {
            run.next = Some(call);
            return Err(stopped());
        };
        run.used += 1;
        match entry {
            Entry::Answer(answer) => self.outcome(answer),
            Entry::Time(_) => panic!("the code repeats itself"),
        }
    }

    fn outcome(&self, answer: Answer) -> Result<Answer> {
        let (object, lock) = (String::from("member"), String::from("serve"));
        match answer {
            Answer::Held(process) => {
                let (client, instance) = (format!("client.{process}"), instance(process));
                let holder = Box::new(Holder { client, instance });
                Err(ObjectError::Held { object, lock, holder })
            }
            Answer::NotHeld => Err(ObjectError::NotHeld { object, lock }),
            Answer::OtherRecord => Err(ObjectError::Guard { object, key: "holder".into() }),
            Answer::Fenced => Err(ObjectError::Fenced { instance: instance(self.process) }),
            Answer::TimedOut => Err(ObjectError::TimedOut { action: "call", object }),
            answer => Ok(answer),
        }
    }

    fn perform(&self, operation: &mut Operation<'_>) -> Result<()> {
        match operation {
            Operation::GetKeys { values, .. } => match self.call(Call::ReadRecord)? {
                Answer::Record(record) => *values = vec![record],
                answer => panic!("a record is not {answer:?}"),
            },
            Operation::Update(update) => {
                self.call(Call::of_update(update, self.is_guarded))?;
            }
            operation => panic!("a tenure does not {}", operation.verb()),
        }
        Ok(())
    }
}

fn stopped() -> ObjectError {
    let source = io::Error::other("the answer is awaited");
    ObjectError::Io { action: "call", object: String::new(), source }
}

impl Objects for Script {
    fn execute(&self, requests: &mut [Request<'_>]) {
        for request in requests {
            request.outcome = self.perform(&mut request.operation);
        }
    }

    fn list(&self, _prefix: &str) -> Result<Vec<String>> {
        panic!("a tenure lists no objects")
    }
}

impl Locks for Script {
    fn instance(&self) -> Instance {
        instance(self.process)
    }

    fn lock(&self, _lock: LockName<'_>, _lease: Duration) -> Result<()> {
        self.call(Call::Lock { renews: false }).map(drop)
    }

    fn renew(&self, _lock: LockName<'_>, _lease: Duration) -> Result<()> {
        self.call(Call::Lock { renews: true }).map(drop)
    }

    fn unlock(&self, _lock: LockName<'_>) -> Result<()> {
        self.call(Call::Unlock).map(drop)
    }

    fn holder(&self, _lock: LockName<'_>) -> Result<Option<Holder>> {
        panic!("a tenure does not ask for the holder")
    }

    fn fence(&self, instance: &Instance, _fenced: Fenced) -> Result<()> {
        self.call(Call::Fence(number(instance))).map(drop)
    }

    fn unfence(&self, _instance: &Instance) -> Result<()> {
        panic!("a tenure ends no fence")
    }
}

impl Clock for Script {
    fn now_ns(&self) -> u64 {
        let mut run = self.run.lock().expect("one thread");
        if run.used == run.log.len() {
            run.log.push(Entry::Time(self.now));
        }
        run.used += 1;
        match run.log[run.used - 1] {
            Entry::Time(now) => now.into(),
            Entry::Answer(_) => panic!("the code repeats itself"),
        }
    }

    fn sleep_until_ns(&self, _deadline_ns: u64) {
        panic!("a tenure does not sleep")
    }
}
