//! The verdicts on the claims of a paper or of a plan.

use super::judgement::Judgement;
use crate::document::Section;

pub(super) fn section(_judged: &Judgement) -> Option<Section> {
    None
}
