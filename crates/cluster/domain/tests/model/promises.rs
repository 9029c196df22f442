//! The promises that hold in every state.

use crate::member::{Member, Phase};
use crate::state::{Protocol, State, id, number};
use stateright::Property;

const IN_USE: &str = "no block is freed while a member refers to it";
const COUNTED: &str = "no reference is lost";
const NOT_LEAKED: &str = "nothing is kept that no member can free";
pub(crate) const ALL_FREED: &str = "everything written may be freed in the end";
pub(crate) const ALL: [&str; 3] = [IN_USE, COUNTED, NOT_LEAKED];

pub(crate) fn properties() -> Vec<Property<Protocol>> {
    vec![
        Property::always(IN_USE, |_, state| blocks_are_there(state)),
        Property::always(COUNTED, |_, state| references_are_counted(state)),
        Property::always(NOT_LEAKED, |_, state| !is_quiet(state) || nothing_is_leaked(state)),
        Property::sometimes(ALL_FREED, |_, state| is_quiet(state) && is_empty_after_use(state)),
    ]
}

/// The block of each reference, and each own block of a volume, holds the content.
fn blocks_are_there(state: &State) -> bool {
    state.members.iter().all(|member| {
        member.locals.iter().enumerate().all(|(content, local)| {
            let claimed = local
                .claim
                .is_none_or(|(home, pbn)| state.members[home].blocks.get(&pbn) == Some(&content));
            let own = local.own.is_none_or(|pbn| member.blocks.get(&pbn) == Some(&content));
            claimed && own
        })
    })
}

fn references_are_counted(state: &State) -> bool {
    (0..state.members[0].locals.len()).all(|content| {
        let claims = state.members.iter().filter(|it| it.locals[content].claim.is_some());
        let counted = state.entry(content).map_or(0, |entry| entry.members as usize);
        claims.count() <= counted
    })
}

/// Nothing is under way: what is wrong now stays wrong.
fn is_quiet(state: &State) -> bool {
    let is_quiet = |member: &Member| {
        member.is_idle() && member.letters.is_empty() && member.phase == Phase::Idle
    };
    state.network.is_empty() && state.members.iter().all(is_quiet)
}

fn nothing_is_leaked(state: &State) -> bool {
    (0..state.members[0].locals.len()).all(|content| content_is_not_leaked(state, content))
}

fn content_is_not_leaked(state: &State, content: usize) -> bool {
    let locals = || state.members.iter().map(|member| &member.locals[content]);
    let entry = state.entry(content);
    let counts = locals().filter(|it| it.claim.is_some() || it.releasing.is_some()).count();
    let pinned_elsewhere = locals().enumerate().any(|(member, local)| {
        let expected = entry.filter(|entry| entry.home == id(member)).map(|entry| entry.pbn);
        local.pinned != expected
    });
    let kept = state.members.iter().all(|member| {
        let local = &member.locals[content];
        let mut blocks = member.blocks.iter().filter(|(_, held)| **held == content);
        blocks.all(|(pbn, _)| [local.own, local.pinned].contains(&Some(*pbn)))
    });
    let is_told = entry.is_none_or(|entry| {
        let mut letters = state.mail[number(entry.home)].iter();
        entry.members > 0 || letters.any(|letter| letter.0 == content)
    });
    let counted = entry.map_or(0, |entry| entry.members as usize);
    counted == counts && !pinned_elsewhere && kept && is_told
}

fn is_empty_after_use(state: &State) -> bool {
    let is_done = |member: &Member| member.writes == 0 && member.blocks.is_empty();
    state.members.iter().all(is_done) && state.entry(0).is_none()
}
