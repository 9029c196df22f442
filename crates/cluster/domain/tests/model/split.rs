//! Splits of the shard by its members. The updates are those of the crate.

use crate::member::Phase;
use crate::state::{Message, Protocol, State, Subject, Weakness};
use gemelo_domain::{Shard, ShardHeader, ShardState, SplitStep};

/// Keys of the shard with their values.
pub(crate) type Page = Vec<(String, Vec<u8>)>;

/// The progress of a process that splits the shard. It knows the header that it has read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Splitting {
    /// It reads the header next.
    Look,
    /// The seal was sent.
    Sealing,
    /// The entries of the sealed shard were read.
    Copy(ShardHeader, Page),
    /// They were sent to a half.
    Copying(ShardHeader, u64),
    /// The opening of that half was sent.
    Opening(ShardHeader),
    /// The mark of the shard as split was sent.
    Marking(ShardHeader),
}

impl Splitting {
    pub(crate) const fn is_waiting(&self) -> bool {
        !matches!(self, Self::Look | Self::Copy(..))
    }
}

/// The halves. All contents of the model belong to the first one.
fn halves() -> [Shard; 2] {
    Shard::ALL.halves().expect("a shard of many")
}

impl State {
    /// Returns whether an idle process may begin a split or finish one.
    pub(crate) fn may_split(&self) -> bool {
        let ShardHeader { state, entries, .. } = self.header();
        match state {
            ShardState::Open => self.splits > 0,
            ShardState::Sealed => true,
            ShardState::Split => entries > 0,
            ShardState::Filling => unreachable!("the shard is not a half"),
        }
    }

    /// Returns the keys of the shard that begin with one of these prefixes.
    fn page(&self, prefixes: &[&str]) -> Page {
        let keys = self.objects[&Shard::ALL.object()].iter();
        let keys = keys.filter(|(key, _)| prefixes.iter().any(|prefix| key.starts_with(prefix)));
        keys.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn set_splitting(&mut self, member: usize, splitting: Splitting) {
        self.members[member].phase = Phase::Splitting(splitting);
    }

    /// Creates the halves and reads the entries.
    fn read_entries(&mut self, member: usize, sealed: ShardHeader) {
        halves().into_iter().for_each(|half| self.take_step(member, half, SplitStep::Create));
        let page = self.page(&["f."]);
        self.set_splitting(member, Splitting::Copy(sealed, page));
    }

    /// The process reads the header again.
    pub(crate) fn split_again(&mut self, member: usize) {
        self.members[member].attempt += 1;
        self.set_splitting(member, Splitting::Look);
    }
}

impl Protocol {
    /// Takes the next step of a split.
    pub(crate) fn split(&self, state: &mut State, member: usize) {
        match &state.members[member].phase {
            Phase::Splitting(Splitting::Copy(sealed, page)) => {
                let (sealed, page) = (*sealed, page.clone());
                self.send_copy(state, member, sealed, &page);
            }
            _ => self.look(state, member),
        }
    }

    fn look(&self, state: &mut State, member: usize) {
        state.touch(member, Shard::ALL);
        let header = state.header();
        match header.state {
            ShardState::Open if state.splits > 0 => {
                state.splits -= 1;
                self.send_step(state, member, Shard::ALL, SplitStep::Seal(header));
                state.set_splitting(member, Splitting::Sealing);
                if self.lacks(Weakness::CopyBeforeSeal) {
                    // It does not wait for the answer.
                    state.members[member].attempt += 1;
                    let (sealed, version) = (ShardState::Sealed, header.version + 1);
                    state.read_entries(member, ShardHeader { state: sealed, version, ..header });
                }
            }
            ShardState::Sealed => state.read_entries(member, header),
            ShardState::Split => self.clean(state, member, header),
            _ => state.members[member].phase = Phase::Idle,
        }
    }

    fn send_copy(&self, state: &mut State, member: usize, sealed: ShardHeader, page: &Page) {
        let [half, _] = halves();
        let step = SplitStep::Copy { half, entries: page };
        assert_eq!(step.update().set.len(), page.len(), "all contents are of one half");
        if page.is_empty() {
            self.open(state, member, sealed, 0);
        } else {
            self.send_step(state, member, half, step);
            state.set_splitting(member, Splitting::Copying(sealed, page.len() as u64));
        }
    }

    fn open(&self, state: &mut State, member: usize, sealed: ShardHeader, entries: u64) {
        let [half, other] = halves();
        state.take_step(member, other, SplitStep::Open { entries: 0 });
        self.send_step(state, member, half, SplitStep::Open { entries });
        state.set_splitting(member, Splitting::Opening(sealed));
    }

    fn clean(&self, state: &mut State, member: usize, split: ShardHeader) {
        let keeps_receipts = !self.lacks(Weakness::RemoveReceipts);
        let page = state.page(if keeps_receipts { &["f."] } else { &["f.", "r."] });
        state.take_step(member, Shard::ALL, SplitStep::Remove(&page));
        state.take_step(member, Shard::ALL, SplitStep::NoteRemoved(split));
        state.members[member].phase = Phase::Idle;
    }

    /// A call of a split is answered. If its guard failed, another process has done it.
    fn answered(&self, state: &mut State, member: usize) {
        let Phase::Splitting(splitting) = state.members[member].phase.clone() else { return };
        match splitting {
            Splitting::Sealing => state.split_again(member),
            Splitting::Copying(sealed, entries) => self.open(state, member, sealed, entries),
            Splitting::Opening(sealed) => {
                self.send_step(state, member, Shard::ALL, SplitStep::MarkSplit(sealed));
                state.set_splitting(member, Splitting::Marking(sealed));
            }
            Splitting::Marking(_) => {
                let split = state.header();
                self.clean(state, member, split);
            }
            Splitting::Look | Splitting::Copy(..) => unreachable!("nothing was sent"),
        }
    }

    fn send_step(&self, state: &mut State, member: usize, shard: Shard, step: SplitStep<'_>) {
        let process = &state.members[member];
        let (instance, subject) = (process.instance, Subject::Split(process.attempt));
        let is_copy = matches!(step, SplitStep::Copy { .. });
        let is_guarded = !(is_copy && self.lacks(Weakness::NoCopyGuard));
        let (object, update) = (shard.object(), step.update());
        state.push(Message::new((member, instance), subject, object, update, is_guarded));
    }

    /// Takes note of the answer to a call of a split, or that none comes.
    pub(crate) fn answer_split(&self, state: &mut State, message: &Message, is_lost: bool) {
        let process = &state.members[message.sender];
        let is_waiting =
            matches!(&process.phase, Phase::Splitting(splitting) if splitting.is_waiting());
        let awaited = (process.instance, Subject::Split(process.attempt));
        if !is_waiting || awaited != (message.instance, message.subject.clone()) {
            return;
        }
        if is_lost {
            state.split_again(message.sender);
        } else {
            self.answered(state, message.sender);
        }
    }
}
