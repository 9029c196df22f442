//! Addresses of exports, as the NBD project's URI document has them: `nbd://HOST[:PORT]/[NAME]` and
//! `nbd+unix:///[NAME]?socket=PATH`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// The port that IANA has given to the protocol.
pub const USUAL_PORT: u16 = 10_809;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// A name or number of a host, without brackets, and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// A server and one of its exports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NbdUri {
    /// Where the server is.
    pub server: ServerAddress,
    /// The export; empty for the server's default.
    pub name: String,
}

/// A text that is no address of an export.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' {problem}")]
pub struct UriError {
    /// What was given.
    pub text: String,
    /// What is wrong with it, and what would be right.
    pub problem: &'static str,
}

const SHAPE: &str = "is no address of an export: nbd://HOST[:PORT]/[NAME], or nbd+unix:///[NAME]?socket=PATH";
const ENCRYPTED: &str = "asks for TLS, which this client does not speak: use nbd:// or nbd+unix://";
const PARAMETER: &str = "has a parameter that is unknown here: only nbd+unix has one, socket=PATH";
const PERCENT: &str = "has a percent sign that is not followed by the two hexadecimal digits of a character";

impl FromStr for NbdUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        parse(text).map_err(|problem| UriError { text: text.to_owned(), problem })
    }
}

fn parse(text: &str) -> Result<NbdUri, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or(SHAPE)?;
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let name = percent_decoded(path)?;
    let server = match scheme {
        "nbd" if query.is_some_and(|query| !query.is_empty()) => return Err(PARAMETER),
        "nbd" => parse_host(authority)?,
        "nbd+unix" if authority.is_empty() => parse_socket(query.ok_or(SHAPE)?)?,
        "nbds" | "nbds+unix" => return Err(ENCRYPTED),
        _ => return Err(SHAPE),
    };
    Ok(NbdUri { server, name })
}

fn parse_host(authority: &str) -> Result<ServerAddress, &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').ok_or(SHAPE)?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(number) => number.parse().map_err(|_| SHAPE)?,
        None if port.is_empty() => USUAL_PORT,
        None => return Err(SHAPE),
    };
    if host.is_empty() { Err(SHAPE) } else { Ok(ServerAddress::Tcp(percent_decoded(host)?, port)) }
}

fn parse_socket(query: &str) -> Result<ServerAddress, &'static str> {
    let path = query.strip_prefix("socket=").ok_or(PARAMETER)?;
    if path.contains('&') {
        return Err(PARAMETER);
    }
    if path.is_empty() { Err(SHAPE) } else { Ok(ServerAddress::Unix(percent_decoded(path)?.into())) }
}

fn percent_decoded(text: &str) -> Result<String, &'static str> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16)).ok_or(PERCENT);
        decoded.push((digit()? << 4 | digit()?) as u8);
    }
    String::from_utf8(decoded).map_err(|_| PERCENT)
}

fn percent_encoded(text: &str) -> String {
    use fmt::Write;
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:@".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a String does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

impl fmt::Display for NbdUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = percent_encoded(&self.name);
        match &self.server {
            ServerAddress::Tcp(host, port) if host.contains(':') => {
                write!(formatter, "nbd://[{}]:{port}/{name}", percent_encoded(host))
            }
            ServerAddress::Tcp(host, port) => {
                write!(formatter, "nbd://{}:{port}/{name}", percent_encoded(host))
            }
            ServerAddress::Unix(path) => {
                write!(formatter, "nbd+unix:///{name}?socket={}", percent_encoded(&path.to_string_lossy()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, host, port, name) in [
            ("nbd://localhost", "localhost", 10_809, ""),
            ("nbd://10.0.0.1:99/disk", "10.0.0.1", 99, "disk"),
            ("nbd://[::1]/a/b%20c", "::1", 10_809, "a/b c"),
        ] {
            let uri: NbdUri = text.parse().unwrap();
            assert_eq!(
                uri,
                NbdUri { server: ServerAddress::Tcp(host.into(), port), name: name.into() },
                "{text}"
            );
        }
        let uri: NbdUri = "nbd+unix:///disk?socket=/tmp/a%20b".parse().unwrap();
        assert_eq!(uri, NbdUri { server: ServerAddress::Unix("/tmp/a b".into()), name: "disk".into() });
        assert_eq!(uri.to_string(), "nbd+unix:///disk?socket=/tmp/a%20b");
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for (text, problem) in [
            ("", SHAPE),
            ("/dev/nbd0", SHAPE),
            ("nbd://", SHAPE),
            ("nbd://host:port/", SHAPE),
            ("nbd://[::1", SHAPE),
            ("nbd://[::1]x/", SHAPE),
            ("nbd+unix:///disk", SHAPE),
            ("nbd+unix:///?socket=", SHAPE),
            ("nbd+unix://host/?socket=/x", SHAPE),
            ("nbd+unix:///?socket=/x&tls=1", PARAMETER),
            ("nbd://host/?socket=/x", PARAMETER),
            ("nbds://host/", ENCRYPTED),
            ("nbd://host/%4", PERCENT),
            ("nbd://host/%ff", PERCENT),
        ] {
            assert_eq!(text.parse::<NbdUri>().unwrap_err().problem, problem, "{text}");
        }
    }

    proptest! {
        #[test]
        fn addresses_round_trip(name in "\\PC{0,12}", path in "/\\PC{1,12}", host in "[a-z0-9.]{1,9}", port: u16) {
            for server in [ServerAddress::Unix(path.clone().into()), ServerAddress::Tcp(host.clone(), port)] {
                let uri = NbdUri { server, name: name.clone() };
                prop_assert_eq!(uri.to_string().parse::<NbdUri>(), Ok(uri));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(nbd|nbd\\+unix)://\\PC{0,24}") {
            let _ = text.parse::<NbdUri>();
        }
    }
}
