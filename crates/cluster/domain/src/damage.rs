//! Values of the index that are damaged or missing. The changes that need them are left out, and
//! all others go on.

use crate::codec::Reason;
use crate::error::{DomainError, Result};
use crate::header::HEADER_KEY;
use gemelo_objects::ObjectError;
use std::collections::BTreeSet;

/// Most damaged values that are remembered: they are examples for a message.
const MAX_REMEMBERED: usize = 100;

/// A damaged or missing value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The object that has the value.
    pub object: String,
    /// The key of the value.
    pub key: String,
    /// The rule that the value breaks.
    pub reason: Reason,
}

impl Damage {
    /// Takes the damage out of an error.
    ///
    /// # Errors
    /// Fails with the error if it is of another kind.
    pub(crate) fn of(error: DomainError) -> Result<Self> {
        match error {
            DomainError::Damaged { object, key, reason } => Ok(Self { object, key, reason }),
            DomainError::Object(ObjectError::NotFound { object }) => {
                let (key, reason) = (HEADER_KEY.into(), "the object is missing");
                Ok(Self { object, key, reason })
            }
            other => Err(other),
        }
    }
}

impl From<Damage> for DomainError {
    fn from(Damage { object, key, reason }: Damage) -> Self {
        Self::Damaged { object, key, reason }
    }
}

/// The damaged values that a member has met.
#[derive(Debug, Default)]
pub(crate) struct MetDamage(BTreeSet<Damage>);

impl MetDamage {
    pub(crate) fn note(&mut self, damage: Damage) {
        if self.0.len() < MAX_REMEMBERED {
            self.0.insert(damage);
        }
    }

    pub(crate) fn list(&self) -> Vec<Damage> {
        self.0.iter().cloned().collect()
    }
}
