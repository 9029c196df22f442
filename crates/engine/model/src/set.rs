//! Sets of numbers below eight.

use std::fmt;

/// A set of numbers below eight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Set(u8);

impl Set {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) const fn of(number: u8) -> Self {
        Self(1 << number)
    }

    pub(crate) const fn below(end: u8) -> Self {
        Self((1 << end) - 1)
    }

    pub(crate) const fn has(self, number: u8) -> bool {
        self.0 & (1 << number) != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn add(&mut self, number: u8) {
        self.0 |= 1 << number;
    }

    pub(crate) const fn remove(&mut self, number: u8) {
        self.0 &= !(1 << number);
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The set with 0 and 1 for each other.
    pub(crate) const fn swapped(self) -> Self {
        Self(self.0 & !3 | (self.0 & 1) << 1 | (self.0 & 2) >> 1)
    }

    pub(crate) fn numbers(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |number| self.has(*number))
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.numbers()).finish()
    }
}
