//! A member of the model: its durable state, and what the running process knows.

use crate::split::Splitting;
use crate::state::{Budget, Letter, id, number};
use gemelo_domain::{Action, Effect, Intent};
use gemelo_format::Pbn;
use std::collections::{BTreeMap, BTreeSet};

/// A block of a member.
pub(crate) type Block = (usize, Pbn);

/// The durable knowledge of a member about one content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Local {
    /// `true` if the member's volumes have the content.
    pub(crate) is_used: bool,
    /// The block of its own that the volumes refer to, while no reference is taken.
    pub(crate) own: Option<Pbn>,
    /// The block that the member has a reference to.
    pub(crate) claim: Option<Block>,
    /// The block whose release is to be done, or done again.
    pub(crate) releasing: Option<Block>,
    /// The own block that is in the index, or may be.
    pub(crate) pinned: Option<Pbn>,
}

/// The progress of the running process with its one intent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    /// The shard was read.
    Planned(Intent),
    /// The intent is in the journal and was not sent.
    Recorded,
    /// The intent was sent, and no answer has come.
    Waiting,
    /// It is unknown if the intent was applied; also after a crash.
    Unknown,
    /// A guard failed, and nothing was changed.
    Refused,
    /// The fate is known, and letters are to be sent.
    Known(bool),
    /// Letters were sent.
    Told,
    /// The letters about this content that were read have to be removed.
    Dealt(usize),
    /// The process splits the shard and does nothing else.
    Splitting(Splitting),
}

/// A step that a process takes after another one has taken its member over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Late {
    /// The process of this instance records the intent and sends it.
    Record(u8, Intent),
    /// It sends letters to their homes.
    Post(Vec<(usize, Letter)>),
    /// It removes letters that it has dealt with.
    Remove(Vec<Letter>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) instance: u8,
    pub(crate) locals: Vec<Local>,
    /// The content of each block in use.
    pub(crate) blocks: BTreeMap<Pbn, usize>,
    /// The intent in the journal.
    pub(crate) journal: Option<Intent>,
    pub(crate) phase: Phase,
    /// Letters that the process has read, and not yet dealt with.
    pub(crate) letters: BTreeSet<Letter>,
    /// The next step of an old process of this member, which was cut off and still runs.
    pub(crate) ghost: Option<Late>,
    pub(crate) writes: u8,
    pub(crate) moves: u8,
    /// Attempts at splits.
    pub(crate) attempt: u8,
}

impl Member {
    pub(crate) fn new(contents: usize, budget: Budget) -> Self {
        Self {
            instance: 0,
            locals: vec![Local::default(); contents],
            blocks: BTreeMap::new(),
            journal: None,
            phase: Phase::Idle,
            letters: BTreeSet::new(),
            ghost: None,
            writes: budget.writes,
            moves: budget.moves,
            attempt: 0,
        }
    }

    /// A volume writes the content: into a block of its own, unless the member has the content.
    pub(crate) fn write(&mut self, content: usize, uses_releasing: bool) {
        let has_reference = self.locals[content].claim.is_some();
        let reuses = uses_releasing && self.locals[content].releasing.is_some();
        if !has_reference && !reuses && self.locals[content].own.is_none() {
            let pinned = self.locals[content].pinned;
            let pbn = pinned.unwrap_or_else(|| self.allocate(content));
            self.locals[content].own = Some(pbn);
        }
        let local = &mut self.locals[content];
        if reuses {
            local.claim = local.releasing;
        }
        local.is_used = true;
    }

    fn allocate(&mut self, content: usize) -> Pbn {
        let free =
            (1..).find_map(|number| Pbn::new(number).filter(|pbn| !self.blocks.contains_key(pbn)));
        let pbn = free.expect("PBNs are many");
        self.blocks.insert(pbn, content);
        pbn
    }

    /// A volume overwrites the content.
    pub(crate) fn overwrite(&mut self, content: usize) {
        self.locals[content].is_used = false;
        self.locals[content].own = None;
        self.free_unused(content);
    }

    /// Frees the content's blocks that neither the volumes nor the index refer to.
    pub(crate) fn free_unused(&mut self, content: usize) {
        let local = &self.locals[content];
        let kept = [local.own, local.pinned, self.planned()];
        self.blocks.retain(|pbn, held| *held != content || kept.contains(&Some(*pbn)));
    }

    /// The block that a plan would publish, which is kept meanwhile.
    fn planned(&self) -> Option<Pbn> {
        let Phase::Planned(intent) = &self.phase else { return None };
        match intent.steps[0].change.action {
            Action::Publish(pbn) => Some(pbn),
            _ => None,
        }
    }

    /// Applies the record of an intent to the member.
    pub(crate) fn record(&mut self, content: usize, intent: &Intent, pins: bool) {
        let (change, effect) = intent.effects().next().expect("one change");
        let local = &mut self.locals[content];
        if let (Effect::Published(pbn), true) = (effect, pins) {
            local.pinned = Some(pbn);
        }
        if matches!(change.action, Action::Release | Action::Withdraw) {
            local.releasing = local.claim.take().or(local.releasing);
        }
        if change.action == Action::Withdraw && local.is_used {
            // The volumes go on to refer to the block.
            local.own = local.pinned;
        }
        self.journal = Some(intent.clone());
    }

    /// Applies the fate of an intent to the member.
    pub(crate) fn settle(&mut self, me: usize, content: usize, intent: &Intent, applied: bool) {
        let (change, effect) = intent.effects().next().expect("one change");
        let local = &mut self.locals[content];
        match effect {
            Effect::Published(pbn) if applied => {
                local.pinned = Some(pbn);
                local.claim = Some((me, pbn));
                local.own = None;
            }
            Effect::Published(_) => local.pinned = None,
            Effect::Shared(home, pbn) if applied => {
                local.claim = Some((number(home), pbn));
                local.own = None;
            }
            Effect::Withdrawn(_) if applied => local.pinned = None,
            _ => {}
        }
        if applied && change.action == Action::Release {
            local.releasing = None;
        }
        if change.action == Action::Withdraw {
            self.end_withdrawal(content, applied && effect != Effect::Nothing);
        }
        self.free_unused(content);
        self.journal = None;
        self.phase = match change.action {
            Action::Reclaim if applied && !self.letters.is_empty() => Phase::Dealt(content),
            _ => Phase::Idle,
        };
    }

    /// A content that was withdrawn is moved at once. Otherwise the reference is as before.
    fn end_withdrawal(&mut self, content: usize, is_withdrawn: bool) {
        let local = &mut self.locals[content];
        let reference = local.releasing.take();
        if !is_withdrawn {
            (local.claim, local.own) = (reference, None);
        } else if local.is_used {
            self.move_block(content);
        }
    }

    /// The volumes refer to another block from now on.
    pub(crate) fn move_block(&mut self, content: usize) {
        self.locals[content].pinned = None;
        let pbn = self.allocate(content);
        self.locals[content].own = Some(pbn);
        self.free_unused(content);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.journal.is_none()
    }

    /// Another host takes the member over: only what is durable remains. Returns the next step of
    /// the old process, if it can do any harm.
    pub(crate) fn take_over(&mut self) -> Option<Late> {
        let late = self.late_step();
        self.phase = Phase::Idle;
        self.instance += 1;
        self.letters.clear();
        for content in 0..self.locals.len() {
            self.free_unused(content);
        }
        if self.journal.is_some() {
            self.phase = Phase::Unknown;
        }
        late
    }

    fn late_step(&self) -> Option<Late> {
        match (&self.phase, &self.journal) {
            (Phase::Planned(intent), _) => Some(Late::Record(self.instance, intent.clone())),
            (Phase::Known(true), Some(intent)) => Some(Late::Post(letters_of(intent, false))),
            (Phase::Dealt(content), _) => {
                let read = self.letters.iter().filter(|letter| letter.0 == *content);
                Some(Late::Remove(read.copied().collect()))
            }
            _ => None,
        }
    }
}

pub(crate) fn letters_of(intent: &Intent, one_per_content: bool) -> Vec<(usize, Letter)> {
    let sender = number(intent.member);
    // A letter names the version and the shard, whose halves count anew.
    let version = u64::from(intent.shard.depth()) << 32 | intent.receipt().0;
    let version = if one_per_content { 0 } else { version };
    let unlike = if one_per_content { 0 } else { sender };
    let letter = |(change, effect): (gemelo_domain::Change, Effect)| match effect {
        Effect::Released { tell: Some(home) } => {
            let content = crate::state::content(change.fingerprint);
            Some((number(home), (content, unlike, version)))
        }
        _ => None,
    };
    debug_assert_eq!(id(sender), intent.member);
    intent.effects().filter_map(letter).collect()
}
