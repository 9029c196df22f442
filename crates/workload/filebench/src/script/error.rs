//! Errors that point into the script, and the search for the known word nearest to an unknown one.

use gemelo_base::Classified;
use thiserror::Error;

/// An error in a script with its position.
#[derive(Debug, Clone, PartialEq, Eq, Error, Classified)]
#[kind(BadInput)]
#[error("{script}:{line}:{column}: {message}{}", nearest.as_ref().map(|word| format!("; did you mean '{word}'?")).unwrap_or_default())]
pub struct ScriptError {
    /// Name of the script.
    pub script: String,
    /// Number of the line, counted from 1.
    pub line: usize,
    /// Number of the character in the line, counted from 1.
    pub column: usize,
    /// Description of the error.
    pub message: String,
    /// The known word most similar to an unknown one.
    pub nearest: Option<String>,
}

/// A [`ScriptError`] before its position is converted to line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Byte of the script.
    pub(crate) at: usize,
    pub(crate) message: String,
    pub(crate) nearest: Option<String>,
}

impl Fault {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), nearest: None }
    }

    /// Creates the fault for a word that is not known.
    pub(crate) fn unknown<'a>(
        at: usize,
        what: &str,
        word: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        let nearest = nearest(word, known.clone()).map(str::to_owned);
        let mut list: Vec<&str> = known.collect();
        list.sort_unstable();
        list.dedup();
        let word = shortened(word);
        let message = if nearest.is_some() {
            format!("unknown {what}: '{word}'")
        } else {
            format!("unknown {what}: '{word}'; known are {}", list.join(", "))
        };
        Self { at, message, nearest }
    }

    pub(crate) fn in_script(self, script: &str, text: &str) -> ScriptError {
        let before = text.get(..self.at.min(text.len())).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ScriptError {
            script: script.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |line| line.chars().count()) + 1,
            message: self.message,
            nearest: self.nearest,
        }
    }
}

/// Letters of a word that a message shows.
const SHOWN_LETTERS: usize = 60;

/// Shortens a word for a message.
pub(super) fn shortened(word: &str) -> String {
    if word.chars().count() <= SHOWN_LETTERS {
        return word.to_owned();
    }
    word.chars().take(SHOWN_LETTERS).chain("...".chars()).collect()
}

/// Longest word that is compared, because the time grows with the product of the lengths.
const LONGEST_COMPARED: usize = 64;

/// Returns the known word with the fewest changes of a letter, if these are at most a third of its
/// letters.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST_COMPARED {
        return None;
    }
    known
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(changes, candidate)| *changes <= candidate.len().div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the number of letters to insert, delete, replace (Levenshtein 1965) or swap with a
/// neighbour (Damerau 1964).
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.to_lowercase().chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for row in 1..=from.len() {
        let mut line = vec![row];
        for column in 1..=to.len() {
            let changed = usize::from(from[row - 1] != to[column - 1]);
            let mut least = (rows[row - 1][column - 1] + changed)
                .min(rows[row - 1][column] + 1)
                .min(line[column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && from[row - 1] == to[column - 2]
                && from[row - 2] == to[column - 1];
            if swapped {
                least = least.min(rows[row - 2][column - 2] + 1);
            }
            line.push(least);
        }
        rows.push(line);
    }
    rows.last().and_then(|line| line.last()).copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_meant_is_found_where_there_is_one() {
        let known = ["openfile", "opslimit", "closefile", "read"];
        assert_eq!(nearest("opnefile", known.into_iter()), Some("openfile"));
        assert_eq!(nearest("Read", known.into_iter()), Some("read"));
        assert_eq!(nearest("teleport", known.into_iter()), None);
        assert_eq!(nearest(&"x".repeat(100_000), known.into_iter()), None);
    }

    #[test]
    fn places_count_characters_from_one() {
        let text = "set $a=1\n# ü ü\nsét x";
        let error = Fault::new(text.len(), "m").in_script("s.f", text);
        assert_eq!((error.line, error.column), (3, 6));
        assert_eq!(error.to_string(), "s.f:3:6: m");
    }
}
