//! The built-in distributions, by name. `docs/reference/distributions.md` gives the source of each.

use crate::{Profile, ProfileError};

const TEXTS: [(&str, &str); 6] = [
    ("personal", include_str!("../profiles/personal.toml")),
    ("primary", include_str!("../profiles/primary.toml")),
    ("debian-usr", include_str!("../profiles/debian-usr.toml")),
    ("vm-pool", include_str!("../profiles/vm-pool.toml")),
    ("unique", include_str!("../profiles/unique.toml")),
    ("all-duplicates", include_str!("../profiles/all-duplicates.toml")),
];

/// Returns the names of all built-in profiles.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|(name, _)| *name)
}

/// Returns the built-in profile of this name; `None` if the name is unknown.
///
/// # Errors
/// Never fails in practice: the profiles are part of the program, and a test parses all of them.
pub fn built_in(name: &str) -> Option<Result<Profile, ProfileError>> {
    TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| Profile::parse(text))
}
