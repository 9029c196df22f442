//! The DEDISbench format: `<duplicates> <contents>` on each line, in any order and number.
//!
//! The parser accepts any white space between the numbers, blank lines and `#` comments. A class on
//! several lines is added up, and a class without contents is left out. A comment `# zeros N`,
//! alone on its line, gives the blocks of zeros. DEDISbench takes a line that begins with `#` for 0
//! blocks without duplicates, and keeps the last such number, so the comment is the first line.

use super::{Distribution, DistributionError, DuplicateClass};

/// A line that was understood but deserves attention; see [`Distribution::parse_with_notes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseNote {
    /// The class is on an earlier line too; the contents of both lines were added up.
    Repeated {
        /// The line number, counted from 1.
        line: usize,
        /// The number of duplicates of the class.
        duplicates: u64,
    },
    /// The blocks of zeros are on an earlier line too; both numbers were added up.
    RepeatedZeros {
        /// The line number, counted from 1.
        line: usize,
    },
    /// The class has no contents and was left out.
    NoContents {
        /// The line number, counted from 1.
        line: usize,
        /// The number of duplicates of the class.
        duplicates: u64,
    },
}

impl std::fmt::Display for ParseNote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repeated { line, duplicates } => {
                write!(
                    formatter,
                    "line {line}: the class of {duplicates} duplicates is on an earlier line too; \
                     added up"
                )
            }
            Self::RepeatedZeros { line } => {
                write!(
                    formatter,
                    "line {line}: the blocks of zeros are on an earlier line too; added up"
                )
            }
            Self::NoContents { line, duplicates } => {
                write!(
                    formatter,
                    "line {line}: the class of {duplicates} duplicates has no contents; left out"
                )
            }
        }
    }
}

/// The number of characters of a malformed line that an error shows. Control characters, on which a
/// terminal would act, are replaced.
const SHOWN: usize = 40;

/// The number of malformed lines after which parsing stops, because the text is of another format.
const MAX_PROBLEMS: usize = 20;

fn class_of(line: &str) -> Option<DuplicateClass> {
    let mut words = line.split_ascii_whitespace();
    let duplicates = words.next()?.parse().ok()?;
    let contents = words.next()?.parse().ok()?;
    words.next().is_none().then_some(DuplicateClass { duplicates, contents })
}

/// Returns whether a line has a class and further numbers: the compressibility of its contents.
fn is_compressible_class(line: &str) -> bool {
    let mut words =
        line.split(|letter: char| letter.is_ascii_whitespace() || ":,;".contains(letter));
    let is_class = words.by_ref().take(2).filter(|word| word.parse::<u64>().is_ok()).count() == 2;
    let mut rest = words.filter(|word| !word.is_empty()).peekable();
    is_class && rest.peek().is_some() && rest.all(|word| word.parse::<f64>().is_ok())
}

/// The word that begins the comment with the blocks of zeros.
const ZEROS: &str = "zeros";

/// Returns the blocks of zeros if a line is the comment that gives them.
fn zeros_of(line: &str) -> Option<u64> {
    let mut words = line.trim().strip_prefix('#')?.split_ascii_whitespace();
    let blocks = words.next().filter(|word| *word == ZEROS).and_then(|_| words.next())?;
    words.next().is_none().then(|| blocks.parse().ok())?
}

/// The classes, notes and errors of a text.
#[derive(Default)]
struct Lines {
    classes: Vec<DuplicateClass>,
    /// `None` until a line gives the blocks of zeros.
    zero_blocks: Option<u64>,
    notes: Vec<ParseNote>,
    malformed: Vec<DistributionError>,
}

impl Lines {
    fn read(text: &str) -> Self {
        let mut lines = Self::default();
        let mut seen = std::collections::HashSet::new();
        for (index, raw) in text.lines().enumerate() {
            let line = index + 1;
            if let Some(blocks) = zeros_of(raw) {
                if lines.zero_blocks.is_some() {
                    lines.notes.push(ParseNote::RepeatedZeros { line });
                }
                lines.zero_blocks = Some(lines.zero_blocks.unwrap_or(0).saturating_add(blocks));
                continue;
            }
            let content = raw.split('#').next().unwrap_or("").trim();
            if content.is_empty() {
                continue;
            }
            let Some(class) = class_of(content) else {
                let shown = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
                let found = content.chars().take(SHOWN).map(shown).collect();
                lines.malformed.push(if is_compressible_class(content) {
                    DistributionError::CompressibleLine { line, found }
                } else {
                    DistributionError::Line { line, found }
                });
                if lines.malformed.len() >= MAX_PROBLEMS {
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

    /// Returns the distribution of lines that are all well-formed.
    fn distribution(self) -> Result<Distribution, DistributionError> {
        Distribution::with_zeros(self.classes, self.zero_blocks.unwrap_or(0))
    }
}

impl Distribution {
    /// Parses the DEDISbench format.
    ///
    /// # Errors
    /// Fails at the first line that does not consist of two whole numbers, and as
    /// [`Distribution::new`].
    pub fn parse(text: &str) -> Result<Self, DistributionError> {
        Self::parse_with_notes(text).map(|(distribution, _)| distribution)
    }

    /// Parses the DEDISbench format and also returns notes about oddities in the text.
    ///
    /// # Errors
    /// Fails as [`Distribution::parse`].
    pub fn parse_with_notes(text: &str) -> Result<(Self, Vec<ParseNote>), DistributionError> {
        let mut lines = Lines::read(text);
        if lines.malformed.is_empty() {
            let notes = std::mem::take(&mut lines.notes);
            return Ok((lines.distribution()?, notes));
        }
        Err(lines.malformed.swap_remove(0))
    }

    /// Returns all errors in a text, not only the first; none if [`Distribution::parse`] accepts
    /// it.
    #[must_use]
    pub fn problems(text: &str) -> Vec<DistributionError> {
        let lines = Lines::read(text);
        if lines.malformed.is_empty() {
            return lines.distribution().err().into_iter().collect();
        }
        lines.malformed
    }

    /// Formats the distribution in the DEDISbench format, ascending, so that the original tools can
    /// read it. The only comment gives the blocks of zeros, if there are any.
    #[must_use]
    pub fn to_text(&self) -> String {
        let zeros = match self.zero_blocks() {
            0 => String::new(),
            blocks => format!("# {ZEROS} {blocks}\n"),
        };
        let line = |class: &DuplicateClass| format!("{} {}\n", class.duplicates, class.contents);
        zeros + &self.classes().iter().map(line).collect::<String>()
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
    fn a_comment_gives_the_blocks_of_zeros() {
        let text = "# zeros 7\n0 5\n";
        let distribution = Distribution::parse(text).unwrap();
        assert_eq!((distribution.zero_blocks(), distribution.blocks()), (7, 12));
        assert_eq!(distribution.to_text(), text);
        assert_eq!(Distribution::parse("#zeros\t3\n").unwrap().to_text(), "# zeros 3\n");
        let (twice, notes) = Distribution::parse_with_notes("# zeros 1\n0 1\n# zeros 2\n").unwrap();
        assert_eq!((twice.zero_blocks(), notes.len()), (3, 1));
        for comment in ["# zeros are left out", "# zeros 7 of 9", "# zeros -1", "# no zeros 5", "#"]
        {
            let found = Distribution::parse(&format!("{comment}\n0 5 # zeros 8\n")).unwrap();
            assert_eq!((found.zero_blocks(), found.blocks()), (0, 5), "{comment}");
        }
        let most = format!("# zeros {0}\n# zeros {0}\n", u64::MAX);
        assert_eq!(Distribution::parse(&most), Err(DistributionError::TooManyZeros));
    }

    #[test]
    fn a_malformed_line_is_named_by_its_number() {
        for (text, line, found) in [
            ("0 5\n1\n", 2, "1"),
            ("0 5\n1 2 x\n", 2, "1 2 x"),
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
    fn the_compressibility_of_another_format_gets_advice() {
        for text in ["0 5\n1 2 30\n", "0 5\n1 2 0:70 40:30\n", "0 5\n1 2;0.5\n"] {
            let error = Distribution::parse(text).unwrap_err();
            assert!(error.to_string().contains("lz4_saved_share"), "{text}: {error}");
            assert!(error.to_string().starts_with("line 2: "), "{text}: {error}");
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
        assert_eq!(Distribution::problems(&"x\n".repeat(1000)).len(), MAX_PROBLEMS);
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
            let classes = classes
                .into_iter()
                .map(|(duplicates, contents)| DuplicateClass { duplicates, contents });
            let distribution = Distribution::new(classes).unwrap();
            prop_assert_eq!(Distribution::parse(&distribution.to_text()).unwrap(), distribution);
        }
    }
}
