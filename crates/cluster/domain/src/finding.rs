//! The contradictions that a check of a domain finds.

use crate::codec::Reason;
use crate::damage::Damage;
use crate::entry::MemberId;
use thiserror::Error;

/// Most contradictions that are kept. The others are counted.
const MAX_KEPT: usize = 10_000;

/// A contradiction. Each names the content by its key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Finding {
    /// The count differs from the members that refer to the content.
    #[error("content {content}: the index counts {counted} members, and {found} refer to it")]
    Count {
        /// The key of the content in the index.
        content: String,
        /// Members according to the index.
        counted: u32,
        /// Members whose records refer to it.
        found: u32,
    },
    /// A member refers to a content that the index does not have.
    #[error("content {content}: member {member} refers to it, and the index does not have it")]
    Missing {
        /// The key that the content would have.
        content: String,
        /// The member that refers to it.
        member: MemberId,
    },
    /// A home keeps a block for the index that the index does not know: it is never freed.
    #[error("content {content}: member {member} keeps it for a domain that does not have it")]
    Leaked {
        /// The key that the content would have.
        content: String,
        /// The member that keeps it.
        member: MemberId,
    },
    /// A member and the index differ in where the content lies.
    #[error("content {content}: member {member} expects it elsewhere than the index has it")]
    Elsewhere {
        /// The key of the content in the index.
        content: String,
        /// The member that expects it elsewhere.
        member: MemberId,
    },
    /// The home does not keep a content that the index says is there.
    #[error("content {content}: its home, member {home}, does not keep it")]
    NotKept {
        /// The key of the content in the index.
        content: String,
        /// The home according to the index.
        home: MemberId,
    },
    /// No member refers to a content and its home was not told: it is never freed.
    #[error("content {content}: no member refers to it, and its home, member {home}, was not told")]
    NotTold {
        /// The key of the content in the index.
        content: String,
        /// The home according to the index.
        home: MemberId,
    },
    /// A shard of the index is missing.
    #[error("shard '{shard}' is missing, and members refer to {contents} contents of it")]
    NoShard {
        /// The name of the shard's object.
        shard: String,
        /// Records of members about contents of it.
        contents: u64,
    },
    /// A value is damaged.
    #[error("key '{key}' of object '{object}' is damaged: {reason}")]
    Damaged {
        /// The object that has the value.
        object: String,
        /// The key of the value.
        key: String,
        /// The rule that the value breaks.
        reason: Reason,
    },
    /// An object is missing that a member must have.
    #[error("object '{object}' of member '{member}' is lost")]
    Lost {
        /// The name of the object.
        object: String,
        /// The name of the member.
        member: String,
    },
    /// There are objects of a member that is not registered.
    #[error("there are {objects} objects of member {member}, which is not registered")]
    Unregistered {
        /// The number of the member.
        member: MemberId,
        /// Objects of its metadata and its ledger.
        objects: u64,
    },
    /// The header of a shard has a wrong number of entries.
    #[error("shard '{shard}' has {found} entries, and its header says {expected}")]
    Entries {
        /// The name of the shard's object.
        shard: String,
        /// Entries that the shard has.
        found: u64,
        /// Entries according to the header.
        expected: u64,
    },
}

impl From<Damage> for Finding {
    fn from(Damage { object, key, reason }: Damage) -> Self {
        Self::Damaged { object, key, reason }
    }
}

/// The contradictions of a look, the first ones of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first ten thousand.
    pub list: Vec<Finding>,
    /// The number of further ones.
    pub more: u64,
}

impl Findings {
    /// Adds a contradiction.
    pub fn add(&mut self, finding: Finding) {
        if self.list.len() < MAX_KEPT {
            self.list.push(finding);
        } else {
            self.more += 1;
        }
    }

    /// Returns whether there are none.
    #[must_use]
    pub const fn are_none(&self) -> bool {
        self.list.is_empty() && self.more == 0
    }
}
