//! Finds the known names that resemble a wrong one.

/// Returns the similarity of two names in percent: the share of pairs of adjacent letters that both
/// names have.
fn likeness(one: &str, other: &str) -> u32 {
    (strsim::sorensen_dice(one, other) * 100.0) as u32
}

/// Returns the known name that is most similar to a wrong one, if its similarity is at least 50.
#[must_use]
pub fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|name| (likeness(wrong, name), name))
        .max()
        .filter(|(likeness, _)| *likeness >= 50)
        .map(|(_, name)| name.to_owned())
}

/// Returns all known names. The names that are most similar to a wrong one come first.
#[must_use]
pub fn nearest_first<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = known.collect();
    names.sort_by_key(|name| std::cmp::Reverse(likeness(wrong, name)));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likest_name_comes_first() {
        let known = || ["unique", "personal", "primary"].into_iter();
        assert_eq!(nearest("persnal", known()), Some("personal".to_owned()));
        assert_eq!(nearest("xyz", known()), None);
        assert_eq!(nearest_first("primray", known()), ["primary", "unique", "personal"]);
        assert_eq!(nearest_first("", known()), ["unique", "personal", "primary"]);
    }
}
