//! The store of the model: the member's object with its lock and the record of its holder, an
//! object of its disk, and the fences of which the servers of both know.

use gemelo_objects::Update;

/// Some processes; bit p is set for the process p.
pub(crate) type Set = u8;

/// A call to the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Call {
    Lock { renews: bool },
    Unlock,
    ReadRecord,
    WriteRecord { guard: Option<Option<Vec<u8>>>, record: Vec<u8> },
    Fence(usize),
    Stat,
    Write(u8),
}

/// A call on its way, with the fences that its sender knew.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Message {
    pub(crate) sender: usize,
    /// The calls that the sender had given up before.
    pub(crate) number: u8,
    pub(crate) fences: Set,
    pub(crate) call: Call,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Done,
    Record(Option<Vec<u8>>),
    /// The fences that the store has now.
    Fences(Set),
    Held(usize),
    NotHeld,
    OtherRecord,
    Fenced,
    TimedOut,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// The process that has the lock, and the end of its lease.
    lock: Option<(usize, u8)>,
    record: Option<Vec<u8>>,
    /// The bytes of the disk.
    pub(crate) disk: u8,
    fences: Set,
    /// The fences that the servers of the member's object and of its disk know.
    known: [Set; 2],
}

impl Call {
    /// The update of a record, which guards nothing else.
    pub(crate) fn of_update(update: &Update, is_guarded: bool) -> Self {
        let [guard] = update.guards.as_slice() else { panic!("one guard: {update:?}") };
        let set = update.set.iter().find(|(key, _)| *key == guard.key);
        let record = set.expect("a new record").1.clone();
        Self::WriteRecord { guard: is_guarded.then(|| guard.expected.clone()), record }
    }

    /// The object of the call, by its place in [`Store::known`]; [`None`] for the monitor.
    const fn object(&self) -> Option<usize> {
        match self {
            Self::Fence(_) => None,
            Self::Stat | Self::Write(_) => Some(1),
            _ => Some(0),
        }
    }
}

impl Store {
    /// Applies a call, unless its sender is known to be fenced.
    pub(crate) fn receive(&mut self, message: &Message, (now, lease): (u8, u8)) -> Answer {
        if let Some(known) = message.call.object().map(|object| &mut self.known[object]) {
            *known |= message.fences;
            if *known & (1 << message.sender) != 0 {
                return Answer::Fenced;
            }
        }
        self.apply(message.sender, &message.call, (now, lease))
    }

    fn apply(&mut self, sender: usize, call: &Call, (now, lease): (u8, u8)) -> Answer {
        let held = self.lock.filter(|(_, until)| *until > now);
        match call {
            Call::Lock { .. } if held.is_some_and(|(holder, _)| holder != sender) => {
                held.map_or(Answer::NotHeld, |(holder, _)| Answer::Held(holder))
            }
            Call::Lock { renews: true } | Call::Unlock if held.is_none_or(|it| it.0 != sender) => {
                Answer::NotHeld
            }
            Call::Lock { .. } => self.set(|it| it.lock = Some((sender, now + lease))),
            Call::Unlock => self.set(|it| it.lock = None),
            Call::ReadRecord => Answer::Record(self.record.clone()),
            Call::WriteRecord { guard: Some(guard), .. } if *guard != self.record => {
                Answer::OtherRecord
            }
            Call::WriteRecord { record, .. } => self.set(|it| it.record = Some(record.clone())),
            Call::Fence(process) => {
                self.fences |= 1 << process;
                Answer::Fences(self.fences)
            }
            Call::Stat => Answer::Done,
            Call::Write(value) => self.set(|it| it.disk = *value),
        }
    }

    fn set(&mut self, change: impl FnOnce(&mut Self)) -> Answer {
        change(self);
        Answer::Done
    }
}
