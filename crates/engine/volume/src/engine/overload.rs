//! In-line volumes while writes come faster than the disk takes them.
//!
//! By the policy `defer`, their blocks are then stored as those of an off-line volume are, without
//! a fingerprint and without a look-up, and the finder shares them later. The signal is the write
//! buffer: deferring begins when a writer finds no room, and ends when one finds half of it free.

mod defer;

/// The policy for blocks of in-line volumes while the write buffer is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InlineOverload {
    /// Writers wait, and every block is deduplicated before its write is acknowledged.
    #[default]
    Wait,
    /// Blocks are stored as they are, and left to the finder.
    Defer,
}

impl InlineOverload {
    /// All policies.
    pub const ALL: [Self; 2] = [Self::Wait, Self::Defer];

    /// Returns the name by which users choose the policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Defer => "defer",
        }
    }

    /// Returns the policy of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}
