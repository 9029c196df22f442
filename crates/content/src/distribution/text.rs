//! The DEDISbench format: `<duplicates> <contents>` a line, in any order, of any size.
//!
//! Files made by others are read as leniently as their meaning allows: any white space between the numbers, blank
//! lines, `#` comments, a class on several lines (added up), a class without contents (left out).

use super::{Distribution, DistributionError, DuplicateClass};

/// Something of a text that was understood but deserves a look; see [`Distribution::parse_with_notes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseNote {
    /// The class stood on an earlier line already; both were added up.
    Repeated {
        /// Counted from 1.
        line: usize,
        /// The class.
        duplicates: u64,
    },
    /// A class without contents was left out.
    NoContents {
        /// Counted from 1.
        line: usize,
        /// The class.
        duplicates: u64,
    },
}

impl std::fmt::Display for ParseNote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repeated { line, duplicates } => {
                write!(
                    formatter,
                    "line {line}: {duplicates} duplicates stood on an earlier line; added up"
                )
            }
            Self::NoContents { line, duplicates } => {
                write!(formatter, "line {line}: no contents with {duplicates} duplicates; left out")
            }
        }
    }
}

/// Characters of a wrong line that an error shows, without what a terminal would act on.
const SHOWN: usize = 40;

/// Malformed lines after which reading stops: the text is something else.
const MOST_PROBLEMS: usize = 20;

fn class_of(line: &str) -> Option<DuplicateClass> {
    let mut words = line.split_ascii_whitespace();
    let duplicates = words.next()?.parse().ok()?;
    let contents = words.next()?.parse().ok()?;
    words.next().is_none().then_some(DuplicateClass { duplicates, contents })
}

/// What the lines of a text say.
#[derive(Default)]
struct Lines {
    classes: Vec<DuplicateClass>,
    notes: Vec<ParseNote>,
    malformed: Vec<DistributionError>,
}

impl Lines {
    fn read(text: &str) -> Self {
        let mut lines = Self::default();
        let mut seen = std::collections::HashSet::new();
        for (index, raw) in text.lines().enumerate() {
            let line = index + 1;
            let content = raw.split('#').next().unwrap_or("").trim();
            if content.is_empty() {
                continue;
            }
            let Some(class) = class_of(content) else {
                let shown = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
                let found = content.chars().take(SHOWN).map(shown).collect();
                lines.malformed.push(DistributionError::Line { line, found });
                if lines.malformed.len() >= MOST_PROBLEMS {
                    break;
                }
                continue;
            };
            if class.contents == 0 {
                lines.notes.push(ParseNote::NoContents { line, duplicates: class.duplicates });
            } else if !seen.insert(class.duplicates) {
                lines.notes.push(ParseNote::Repeated { line, duplicates: class.duplicates });
            }
            lines.classes.push(class);
        }
        lines
    }
}

impl Distribution {
    /// Reads the DEDISbench format.
    ///
    /// # Errors
    /// Names the first line that is not two whole numbers; see also [`Distribution::new`].
    pub fn parse(text: &str) -> Result<Self, DistributionError> {
        Self::parse_with_notes(text).map(|(distribution, _)| distribution)
    }

    /// Reads the DEDISbench format and tells what was odd about the text.
    ///
    /// # Errors
    /// As [`Distribution::parse`].
    pub fn parse_with_notes(text: &str) -> Result<(Self, Vec<ParseNote>), DistributionError> {
        let mut lines = Lines::read(text);
        if lines.malformed.is_empty() {
            return Ok((Self::new(lines.classes)?, lines.notes));
        }
        Err(lines.malformed.swap_remove(0))
    }

    /// All that is wrong with a text, not only the first of it; nothing for one that [`Distribution::parse`] reads.
    #[must_use]
    pub fn problems(text: &str) -> Vec<DistributionError> {
        let lines = Lines::read(text);
        if lines.malformed.is_empty() {
            return Self::new(lines.classes).err().into_iter().collect();
        }
        lines.malformed
    }

    /// The distribution in the DEDISbench format, ascending, without comments: readable by the original tools.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.classes()
            .iter()
            .map(|class| format!("{} {}\n", class.duplicates, class.contents))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_come_in_any_order_with_comments_and_blanks() {
        let text = "# made by hand\n3 10\r\n\n0\t50 # unique\n  9   1\n";
        let distribution = Distribution::parse(text).unwrap();
        assert_eq!(distribution.to_text(), "0 50\n3 10\n9 1\n");
    }

    #[test]
    fn a_malformed_line_is_named_by_its_number() {
        for (text, line, found) in [
            ("0 5\n1\n", 2, "1"),
            ("0 5\n1 2 3\n", 2, "1 2 3"),
            ("x 5\n", 1, "x 5"),
            ("0 -5\n", 1, "0 -5"),
            ("0 1.5\n", 1, "0 1.5"),
            ("0 99999999999999999999\n", 1, "0 99999999999999999999"),
        ] {
            let expected = DistributionError::Line { line, found: found.to_owned() };
            assert_eq!(Distribution::parse(text), Err(expected));
        }
    }

    #[test]
    fn repeated_and_empty_classes_are_noted() {
        let (distribution, notes) = Distribution::parse_with_notes("1 2\n1 3\n7 0\n").unwrap();
        assert_eq!(distribution.to_text(), "1 5\n");
        assert_eq!(
            notes,
            [
                ParseNote::Repeated { line: 2, duplicates: 1 },
                ParseNote::NoContents { line: 3, duplicates: 7 }
            ]
        );
    }

    #[test]
    fn all_problems_are_told_up_to_a_limit() {
        assert_eq!(Distribution::problems("0 1\n"), []);
        assert_eq!(Distribution::problems(""), [DistributionError::Empty]);
        assert_eq!(Distribution::problems("a\n0 1\nb\n").len(), 2);
        assert_eq!(Distribution::problems(&"x\n".repeat(1000)).len(), MOST_PROBLEMS);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9 #\\n\\tx-]{0,60}") {
            let _ = Distribution::parse_with_notes(&text);
        }

        #[test]
        fn text_gives_back_the_distribution(
            classes in proptest::collection::btree_map(0u64..1 << 20, 1u64..1 << 20, 1..50)
        ) {
            let classes = classes.into_iter().map(|(duplicates, contents)| DuplicateClass { duplicates, contents });
            let distribution = Distribution::new(classes).unwrap();
            prop_assert_eq!(Distribution::parse(&distribution.to_text()).unwrap(), distribution);
        }
    }
}
