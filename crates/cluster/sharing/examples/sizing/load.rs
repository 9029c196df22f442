//! Members that load equal images and then write hot spots, and the changes of the index that
//! follow.
//!
//! The load is the published one of DEDIS (Paulo and Pereira, ACM TOS 12(4), 2016, section 5.5):
//! each member has one volume, loaded with an image that all members have, and then written at
//! random hot spots with contents of DEDISbench. A block is examined when it was not written for a
//! round. Contents and places follow from the seed, so equal setups have equal outcomes.

use gemelo_content::{Assignment, AssignmentMode, ContentSpec, built_in};
use gemelo_pattern::{Pattern, Positions};
use std::collections::HashMap;

/// A block without content.
const EMPTY: u64 = u64::MAX;
/// The first number of the contents of the image: DEDISbench has fewer than this.
const IMAGE: u64 = 1 << 61;

/// The members and their load, in blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) members: u32,
    /// Blocks of the volume of each member.
    pub(crate) volume: u64,
    /// Blocks of the image, at the beginning of each volume.
    pub(crate) image: u64,
    /// Rounds of writes. A block that is written in the next round is not examined.
    pub(crate) rounds: u64,
    /// Writes of each member in a round.
    pub(crate) writes: u64,
    pub(crate) seed: u64,
}

/// Look-ups, and those that found the content already stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LookUps {
    pub(crate) all: u64,
    pub(crate) eliminated: u64,
}

impl LookUps {
    pub(crate) fn percent(self) -> f64 {
        100.0 * self.eliminated as f64 / self.all.max(1) as f64
    }
}

/// Counts of all members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) image: LookUps,
    pub(crate) writes: LookUps,
    /// Contents that were published, shared, and released, and own ones that were withdrawn.
    pub(crate) published: u64,
    pub(crate) shared: u64,
    pub(crate) released: u64,
    pub(crate) withdrawn: u64,
    pub(crate) written: u64,
    /// Contents of the index in the end.
    pub(crate) entries: u64,
    /// References of the members to contents in the end.
    pub(crate) references: u64,
}

impl Outcome {
    pub(crate) fn all(&self) -> LookUps {
        let all = self.image.all + self.writes.all;
        LookUps { all, eliminated: self.image.eliminated + self.writes.eliminated }
    }

    /// Changes of the index for each block that is written.
    pub(crate) fn changes(&self) -> [f64; 4] {
        let each = |count: u64| count as f64 / self.written.max(1) as f64;
        [each(self.published), each(self.shared), each(self.released), each(self.withdrawn)]
    }
}

struct Member {
    /// The content of each block that was examined.
    blocks: Vec<u64>,
    /// The content of each block that waits for being examined, and the round of its last write.
    waiting: HashMap<u64, (u64, u64)>,
    /// Blocks that refer to each content.
    references: HashMap<u64, u32>,
    positions: Positions,
    sequence: u64,
}

/// The members, and the members that refer to each content.
struct Domain {
    index: HashMap<u64, u32>,
    outcome: Outcome,
}

impl Domain {
    /// A block of a member gets a content. Returns whether the content was there.
    fn refer(&mut self, member: &mut Member, block: u64, content: u64) -> bool {
        let mut is_known = true;
        let local = member.references.entry(content).or_insert(0);
        *local += 1;
        if *local == 1 {
            let members = self.index.entry(content).or_insert(0);
            is_known = *members > 0;
            *members += 1;
            let counter =
                if is_known { &mut self.outcome.shared } else { &mut self.outcome.published };
            *counter += 1;
        }
        if let Some(place) = member.blocks.get_mut(block as usize) {
            *place = content;
        }
        is_known
    }

    /// A block of a member loses its content.
    fn drop_reference(&mut self, member: &mut Member, block: u64) {
        let Some(place) = member.blocks.get_mut(block as usize) else { return };
        let content = std::mem::replace(place, EMPTY);
        let Some(local) = member.references.get_mut(&content) else { return };
        *local -= 1;
        if *local > 0 {
            return;
        }
        member.references.remove(&content);
        let Some(members) = self.index.get_mut(&content) else { return };
        *members -= 1;
        self.outcome.released += 1;
        if *members == 0 {
            self.index.remove(&content);
            self.outcome.withdrawn += 1;
        }
    }

    /// Examines the blocks that were not written since a round.
    fn examine(&mut self, member: &mut Member, before_round: u64) {
        let is_due = |(_, (_, round)): &(&u64, &(u64, u64))| *round < before_round;
        let due = member.waiting.iter().filter(is_due);
        let mut due: Vec<(u64, u64)> =
            due.map(|(block, (content, _))| (*block, *content)).collect();
        due.sort_unstable();
        for (block, content) in due {
            member.waiting.remove(&block);
            let is_known = self.refer(member, block, content);
            self.outcome.writes.all += 1;
            self.outcome.writes.eliminated += u64::from(is_known);
        }
    }
}

/// Runs the load.
pub(crate) fn run(setup: &Setup) -> Outcome {
    let profile = built_in("personal").and_then(Result::ok);
    let distribution = profile.and_then(|profile| profile.to_distribution().ok());
    let spec = distribution.map(|distribution| ContentSpec {
        mode: AssignmentMode::Sampled,
        ..ContentSpec::new(distribution, 4096, setup.seed)
    });
    let assignment = spec.and_then(|spec| Assignment::new(&spec, setup.volume, 1).ok());
    let Some(assignment) = assignment else { return Outcome::default() };
    let mut domain = Domain { index: HashMap::new(), outcome: Outcome::default() };
    let member = |number: u32| Member {
        blocks: vec![EMPTY; setup.volume as usize],
        waiting: HashMap::new(),
        references: HashMap::new(),
        positions: Positions::new(
            Pattern::NuRand { a: None },
            setup.volume,
            setup.seed,
            u64::from(number),
        ),
        sequence: 0,
    };
    let mut members: Vec<Member> = (0..setup.members).map(member).collect();
    for member in &mut members {
        for block in 0..setup.image {
            let is_known = domain.refer(member, block, IMAGE + block);
            domain.outcome.image.all += 1;
            domain.outcome.image.eliminated += u64::from(is_known);
        }
    }
    for round in 0..setup.rounds {
        for (number, member) in (0..).zip(&mut members) {
            for _ in 0..setup.writes {
                let block = member.positions.next_block();
                let content = assignment.content(number, member.sequence);
                member.sequence += 1;
                domain.drop_reference(member, block);
                member.waiting.insert(block, (content.to_bits(), round));
            }
            domain.examine(member, round);
        }
    }
    for member in &mut members {
        domain.examine(member, setup.rounds);
    }
    let Domain { index, mut outcome } = domain;
    outcome.written = u64::from(setup.members) * (setup.image + setup.rounds * setup.writes);
    outcome.entries = index.len() as u64;
    outcome.references = members.iter().map(|member| member.references.len() as u64).sum();
    outcome
}
