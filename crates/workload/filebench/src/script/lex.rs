//! Splits the script's text into words, numbers, variables and signs, each with its position.
//!
//! The parser decides from the context which words are commands, attributes or names.

use super::error::{Fault, shortened};

/// A part of a quoted text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Variable(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind {
    Word(String),
    Variable(String),
    Integer(i64),
    Decimal(f64),
    Quoted(Vec<Piece>),
    Sign(char),
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// Byte of the script.
    pub(crate) at: usize,
}

impl Token {
    /// Returns a description of the token for a message.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            TokenKind::Word(word) => format!("'{}'", shortened(word)),
            TokenKind::Variable(name) => format!("'${}'", shortened(name)),
            TokenKind::Integer(number) => format!("'{number}'"),
            TokenKind::Decimal(number) => format!("'{number}'"),
            TokenKind::Quoted(_) => "a quoted text".to_owned(),
            TokenKind::Sign(sign) => format!("'{sign}'"),
            TokenKind::End => "the end of the script".to_owned(),
        }
    }
}

const SIGNS: &str = "{}()=,*+";

const fn is_word_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '/' | '.' | ':' | ';' | '-')
}

const fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Splits a script into tokens; the last one is [`TokenKind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    if let Some(at) = text.find('\0') {
        return Err(Fault::new(at, "a NUL: a script is text"));
    }
    let mut lexer = Lexer { text, at: 0 };
    let mut found = Vec::new();
    loop {
        lexer.skip_space();
        let at = lexer.at;
        let kind = lexer.next_kind()?;
        let ended = kind == TokenKind::End;
        found.push(Token { kind, at });
        if ended {
            return Ok(found);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|letter| !belongs(letter)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if self.peek() != Some('#') {
                return;
            }
            self.take_while(|letter| letter != '\n');
        }
    }

    fn next_kind(&mut self) -> Result<TokenKind, Fault> {
        let at = self.at;
        let Some(letter) = self.peek() else { return Ok(TokenKind::End) };
        if SIGNS.contains(letter) {
            self.at += 1;
            return Ok(TokenKind::Sign(letter));
        }
        match letter {
            '$' => self.variable().map(TokenKind::Variable),
            '"' => self.quoted(),
            letter if is_word_letter(letter) => classify(at, self.take_while(is_word_letter)),
            _ => Err(Fault::new(at, format!("'{letter}' is not part of the language"))),
        }
    }

    /// Reads `$name`, `$(name)` or `${name}`.
    fn variable(&mut self) -> Result<String, Fault> {
        let at = self.at;
        self.at += 1;
        let close = match self.peek() {
            Some('(') => Some(')'),
            Some('{') => Some('}'),
            _ => None,
        };
        self.at += usize::from(close.is_some());
        let name = self.take_while(is_name_letter);
        if name.is_empty() {
            return Err(Fault::new(at, "expected the name of a variable after '$'"));
        }
        if let Some(close) = close {
            if self.peek() != Some(close) {
                return Err(Fault::new(
                    self.at,
                    format!("expected '{close}' after the name of a variable"),
                ));
            }
            self.at += 1;
        }
        Ok(name.to_owned())
    }

    fn quoted(&mut self) -> Result<TokenKind, Fault> {
        let start = self.at;
        self.at += 1;
        let mut pieces = Vec::new();
        let mut text = String::new();
        loop {
            let Some(letter) = self.peek() else {
                return Err(Fault::new(start, "expected '\"' at the end of the quoted text"));
            };
            match letter {
                '"' => {
                    self.at += 1;
                    break;
                }
                '\\' => {
                    self.at += 1;
                    let escaped = self.peek().unwrap_or('\\');
                    self.at += self.peek().map_or(0, char::len_utf8);
                    text.push(if escaped == 'n' { '\n' } else { escaped });
                }
                // A dollar sign without a name after it stands for itself, as in "costs 5 $".
                '$' if self
                    .rest()
                    .chars()
                    .nth(1)
                    .is_some_and(|next| is_name_letter(next) || "({".contains(next)) =>
                {
                    if !text.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut text)));
                    }
                    pieces.push(Piece::Variable(self.variable()?));
                }
                letter => {
                    text.push(letter);
                    self.at += letter.len_utf8();
                }
            }
        }
        if !text.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(TokenKind::Quoted(pieces))
    }
}

/// Classifies a word that starts like a number. It is a number only as a whole: `16k` is 16384, and
/// `5streams` is a name.
fn classify(at: usize, word: &str) -> Result<TokenKind, Fault> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    if !digits.starts_with(|letter: char| letter.is_ascii_digit()) {
        return Ok(if word == "-" || word == "/" {
            TokenKind::Sign(if word == "-" { '-' } else { '/' })
        } else {
            TokenKind::Word(word.to_owned())
        });
    }
    let negative = word.starts_with('-');
    if let Some(magnitude) = whole_number(digits) {
        let number = magnitude.and_then(|magnitude| i64::try_from(magnitude).ok());
        let number = number
            .ok_or_else(|| Fault::new(at, format!("'{}' is not below 2^63", shortened(word))))?;
        return Ok(TokenKind::Integer(if negative { -number } else { number }));
    }
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match digits.parse::<f64>() {
        Ok(number) if plain => Ok(TokenKind::Decimal(if negative { -number } else { number })),
        _ => Ok(TokenKind::Word(word.to_owned())),
    }
}

/// Parses a whole number with a suffix. Returns `None` for other text, and `Some(None)` for a
/// number that is too large.
fn whole_number(text: &str) -> Option<Option<u64>> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let shift = match suffix {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    Some(digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    fn word(text: &str) -> TokenKind {
        TokenKind::Word(text.to_owned())
    }

    #[test]
    fn sizes_names_and_parameters_are_told_apart() {
        let found =
            kinds("16k 2G 05 -10 1.5 mean:16384;gamma:1.5 5streams aux.df true # 7\n/tmp/x");
        let expected = [
            TokenKind::Integer(16 << 10),
            TokenKind::Integer(2 << 30),
            TokenKind::Integer(5),
            TokenKind::Integer(-10),
            TokenKind::Decimal(1.5),
            word("mean:16384;gamma:1.5"),
            word("5streams"),
            word("aux.df"),
            word("true"),
            word("/tmp/x"),
            TokenKind::End,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn quoted_texts_hold_variables_and_escapes() {
        let found = kinds(r#""a $dir/x\n${b}c \$5 5 $""#);
        let text = |text: &str| Piece::Text(text.to_owned());
        let variable = |name: &str| Piece::Variable(name.to_owned());
        let pieces =
            vec![text("a "), variable("dir"), text("/x\n"), variable("b"), text("c $5 5 $")];
        assert_eq!(found, [TokenKind::Quoted(pieces), TokenKind::End]);
    }

    #[test]
    fn what_is_no_token_is_refused_at_its_place() {
        for (text, at) in
            [("set %", 4), ("a \"b", 2), ("$ x", 0), ("${a", 3), ("99999999999999999999g", 0)]
        {
            assert_eq!(tokens(text).unwrap_err().at, at, "{text}");
        }
    }
}
