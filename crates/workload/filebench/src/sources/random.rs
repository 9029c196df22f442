//! The source `random`: random bytes, which neither compress nor deduplicate.

use super::Registration;
use super::entro::Unique;
use gemelo_content::Nature;

pub(super) const REGISTRATION: Registration = Registration {
    name: "random",
    attributes: &[],
    check: |_| Ok(()),
    open: |_, around| Ok(Box::new(Unique::new(Nature::RANDOM, around)?)),
};
