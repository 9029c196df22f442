//! The parser of the INI files that DEDISbench reads. They have sections, lines `key=value`, and
//! comments that begin with `;` or `#`.

use super::error::DedisbenchError;

/// A line `key=value` of a configuration file, with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Number of the line, counted from 1.
    pub(crate) line: usize,
    pub(crate) section: String,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// Returns the entries of a text, in order.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, DedisbenchError> {
    let mut section = None;
    let mut entries = Vec::new();
    for (index, raw) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let wrong = |message: String| DedisbenchError::Line { line: index + 1, message };
        let content = without_comment(raw);
        if content.is_empty() {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
            let name = name
                .ok_or_else(|| wrong(format!("expected [section], found '{}'", shown(content))))?;
            section = Some(name.to_owned());
            continue;
        }
        let (key, value) = content
            .split_once('=')
            .or_else(|| content.split_once(':'))
            .map(|(key, value)| (key.trim(), value.trim()))
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| wrong(format!("expected key=value, found '{}'", shown(content))))?;
        let section = section
            .clone()
            .ok_or_else(|| wrong(format!("'{}' is before the first [section]", shown(key))))?;
        entries.push(Entry {
            line: index + 1,
            section,
            key: key.to_owned(),
            value: value.to_owned(),
        });
    }
    Ok(entries)
}

/// Most characters of a wrong line that an error shows.
const SHOWN: usize = 40;

/// Returns the beginning of a text for an error, without control characters.
pub(super) fn shown(text: &str) -> String {
    text.chars()
        .take(SHOWN)
        .map(|letter| if letter.is_control() { '\u{fffd}' } else { letter })
        .collect()
}

/// Returns the line without its comment. A comment begins with a `;` or `#` at the start of the
/// line or after white space.
fn without_comment(line: &str) -> &str {
    let mut after_space = true;
    for (place, letter) in line.char_indices() {
        if after_space && matches!(letter, ';' | '#') {
            return line.get(..place).unwrap_or_default().trim();
        }
        after_space = letter.is_whitespace();
    }
    line.trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_have_their_section_and_line() {
        let text = "; a comment\n[execution]\nnprocs = 4\t\n# another\n[results]\ntempfilespath=/a#b;c ; here\nx:1\n";
        let entries = parse(text).unwrap();
        let of = |line, section: &str, key: &str, value: &str| Entry {
            line,
            section: section.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
        };
        assert_eq!(
            entries,
            [
                of(3, "execution", "nprocs", "4"),
                of(6, "results", "tempfilespath", "/a#b;c"),
                of(7, "results", "x", "1")
            ]
        );
    }

    #[test]
    fn what_is_no_ini_is_named_by_its_line() {
        for (text, message) in [
            ("[a\n", "line 1: expected [section], found '[a'"),
            ("[]\n", "line 1: expected [section]"),
            ("\na=1\n", "line 2: 'a' is before the first [section]"),
            ("[a]\nnonsense\n", "line 2: expected key=value, found 'nonsense'"),
            ("[a]\n=1\n", "line 2: expected key=value"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(\\[\\PC{0,5}\\]?\n|\\PC{0,9}[=:;#]\\PC{0,9}\n|\\PC{0,9}\n){0,9}") {
            let _ = parse(&text);
        }

        #[test]
        fn entries_come_back(entries in proptest::collection::vec(("[a-z_]{1,9}", "[a-z/.0-9]{0,9}"), 0..9)) {
            let lines: String = entries.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
            let read: Vec<(String, String)> = parse(&format!("[s]\n{lines}"))
                .unwrap()
                .into_iter()
                .map(|entry| (entry.key, entry.value))
                .collect();
            prop_assert_eq!(read, entries);
        }
    }
}
