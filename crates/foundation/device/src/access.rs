//! The exports that a client may open. For a client, all others do not exist.
//!
//! A name that is not allowed is refused before anything is looked up, so neither an answer nor the
//! time that it takes tells whether there is such an export.

use crate::{Export, Exports};

/// Patterns of the names that may be opened, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExportAccess {
    /// Patterns of names, in which `*` stands for any characters and `?` for one; [`None`] for all
    /// names.
    pub names: Option<Vec<String>>,
    /// `true` if writes are refused.
    pub read_only: bool,
}

impl ExportAccess {
    /// Returns whether an export of this name may be opened.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|one| matches(one, name)))
    }
}

/// Returns whether a name fits a pattern.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut in_name) = (0, 0);
    // The last star, and the end of what it stands for.
    let mut star = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(one) if *one == '?' || name.get(in_name) == Some(one) => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, in_name) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|one| *one == '*'))
}

/// The exports that a client may open: each name that one rule of every list allows. It may be
/// written if one of the rules that allow it lets it.
pub struct AllowedExports<'e> {
    exports: &'e dyn Exports,
    lists: Vec<Vec<ExportAccess>>,
}

impl<'e> AllowedExports<'e> {
    /// The exports that a rule allows.
    #[must_use]
    pub fn new(exports: &'e dyn Exports, rule: ExportAccess) -> Self {
        Self { exports, lists: vec![vec![rule]] }
    }

    /// Adds a list of rules. Without any in it, nothing is allowed.
    pub fn also(&mut self, rules: Vec<ExportAccess>) {
        self.lists.push(rules);
    }

    fn allows(&self, name: &str) -> bool {
        self.lists.iter().all(|rules| rules.iter().any(|rule| rule.allows(name)))
    }

    fn is_read_only(&self, name: &str) -> bool {
        let lets_write = |rule: &ExportAccess| !rule.read_only && rule.allows(name);
        !self.lists.iter().all(|rules| rules.iter().any(lets_write))
    }

    fn limited(&self, export: Export) -> Export {
        let read_only = export.read_only || self.is_read_only(&export.name);
        Export { read_only, ..export }
    }
}

impl Exports for AllowedExports<'_> {
    fn find(&self, name: &str) -> Option<Export> {
        let name = match name {
            "" => match self.names().as_slice() {
                [only] => only.clone(),
                _ => return None,
            },
            name => name.to_owned(),
        };
        let found = if self.allows(&name) { self.exports.find(&name) } else { None };
        // A name of another export may be a second one of it.
        found.filter(|export| self.allows(&export.name)).map(|export| self.limited(export))
    }

    fn names(&self) -> Vec<String> {
        self.exports.names().into_iter().filter(|name| self.allows(name)).collect()
    }

    fn since(&self, name: &str, snapshot: &str) -> Option<Export> {
        let is_allowed = self.allows(name) && self.allows(snapshot);
        let found = if is_allowed { self.exports.since(name, snapshot) } else { None };
        found.map(|export| self.limited(export))
    }

    fn snapshots(&self) -> Vec<String> {
        self.exports.snapshots().into_iter().filter(|name| self.allows(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, name, fits) in [
            ("web-*", "web-1", true),
            ("web-*", "web-", true),
            ("web-*", "web", false),
            ("web-*", "a-web-1", false),
            ("*-log*", "a-log-log-b", true),
            ("*b", "abab", true),
            ("*ba", "abab", false),
            ("w?b", "wöb", true),
            ("w?b", "wb", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a", "a", true),
            ("a**c", "abc", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    /// Exports that panic when a name is looked up that must not be.
    struct Tripwire;

    impl Exports for Tripwire {
        fn find(&self, name: &str) -> Option<Export> {
            assert!(name.starts_with("web"), "'{name}' was looked up");
            None
        }

        fn names(&self) -> Vec<String> {
            ["db", "web-1", "web-2"].map(str::to_owned).to_vec()
        }

        fn since(&self, name: &str, snapshot: &str) -> Option<Export> {
            assert!(snapshot.starts_with("web"), "'{snapshot}' was looked up");
            self.find(name)
        }

        fn snapshots(&self) -> Vec<String> {
            self.names()
        }
    }

    fn rule(names: &[&str], read_only: bool) -> ExportAccess {
        let names = Some(names.iter().map(|name| (*name).to_owned()).collect());
        ExportAccess { names, read_only }
    }

    #[test]
    fn what_is_not_allowed_is_neither_listed_nor_looked_up() {
        let mut allowed = AllowedExports::new(&Tripwire, rule(&["web-*"], false));
        assert!(allowed.find("db").is_none() && allowed.find("none").is_none());
        assert!(allowed.find("web-3").is_none() && allowed.find("").is_none());
        assert!(allowed.since("web-1", "db").is_none() && allowed.since("db", "web-1").is_none());
        assert_eq!(allowed.names(), ["web-1", "web-2"]);
        assert_eq!(allowed.snapshots(), ["web-1", "web-2"]);
        allowed.also(vec![rule(&["*-2"], true), rule(&["*-1"], false)]);
        assert!(!allowed.is_read_only("web-1") && allowed.is_read_only("web-2"));
        allowed.also(Vec::new());
        assert_eq!(allowed.names(), Vec::<String>::new());
    }
}
