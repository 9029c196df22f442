//! `random`: random bytes, which nothing compresses and nothing deduplicates.

use super::Registration;
use super::entro::Unique;
use gemelo_content::Nature;

pub(super) const REGISTRATION: Registration = Registration {
    name: "random",
    attributes: &[],
    check: |_| Ok(()),
    open: |_, around| Ok(Box::new(Unique::new(Nature::RANDOM, around)?)),
};
