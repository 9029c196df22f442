//! Addresses of exports in the form of the NBD project's URI document: `nbd://HOST[:PORT]/[NAME]`
//! and `nbd+unix:///[NAME]?socket=PATH`. With TLS, they are `nbds://` and `nbds+unix://` with the
//! parameter `tls-certificates=DIR`. The parameter `tls-hostname=NAME` gives the name in the
//! server's certificate, if it is not the host's.

use gemelo_base::{Classified, name_of_text};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// The port that IANA has assigned to the protocol.
pub const USUAL_PORT: u16 = 10_809;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// Name or IP address of a host, without brackets, and a port.
    Tcp(String, u16),
    /// Path of a socket file.
    Unix(PathBuf),
}

/// A server and one of its exports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NbdUri {
    /// Address of the server.
    pub server: ServerAddress,
    /// Name of the export; empty for the server's default export.
    pub name: String,
    /// Settings for TLS; [`None`] for an unencrypted connection.
    pub tls: Option<UriTls>,
}

/// Settings of a connection for TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UriTls {
    /// Directory of `ca-cert.pem`, which holds the trusted authorities. For servers that require
    /// client certificates, it also holds `client-cert.pem` and `client-key.pem`.
    pub certificates: PathBuf,
    /// Name in the server's certificate, if it is not the host's (`localhost` for a unix socket).
    pub hostname: Option<String>,
}

/// The text is not a valid address of an export.
#[derive(Debug, Clone, PartialEq, Eq, Error, Classified)]
#[kind(BadInput)]
#[error("'{text}' {problem}")]
pub struct UriError {
    /// The text as the user gave it.
    pub text: String,
    /// The error in the text, and its remedy.
    pub problem: &'static str,
}

const SHAPE: &str = "is not the address of an export: give nbd://HOST[:PORT]/[NAME] or \
                     nbd+unix:///[NAME]?socket=PATH";
const UNCERTIFIED: &str = "names no trusted authority: give nbds addresses the parameter \
                           tls-certificates=DIR, a directory with ca-cert.pem";
const PARAMETER: &str = "has an unknown parameter: nbd+unix takes socket=PATH, and nbds takes \
                         tls-certificates=DIR and tls-hostname=NAME";
const PERCENT: &str = "has a percent sign without the two hexadecimal digits of a character: \
                       write a percent sign itself as %25";

impl FromStr for NbdUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        parse(text).map_err(|problem| UriError { text: text.to_owned(), problem })
    }
}

fn parse(text: &str) -> Result<NbdUri, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or(SHAPE)?;
    let (rest, query) =
        rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let name = percent_decoded(path)?;
    let (family, is_encrypted) = match scheme.strip_prefix("nbds") {
        Some(family) => (family, true),
        None => (scheme.strip_prefix("nbd").ok_or(SHAPE)?, false),
    };
    let mut parameters = Parameters::parse(query.unwrap_or_default())?;
    let server = match family {
        "" => parse_host(authority)?,
        "+unix" if authority.is_empty() => parse_socket(parameters.take("socket"))?,
        _ => return Err(SHAPE),
    };
    let tls = if is_encrypted {
        let certificates = parameters.take("tls-certificates").ok_or(UNCERTIFIED)?;
        let hostname = parameters.take("tls-hostname").map(text_of).transpose()?;
        Some(UriTls { certificates: OsString::from_vec(certificates).into(), hostname })
    } else {
        None
    };
    if parameters.0.is_empty() { Ok(NbdUri { server, name, tls }) } else { Err(PARAMETER) }
}

/// The parameters after the question mark that were not processed yet.
struct Parameters(Vec<(String, Vec<u8>)>);

impl Parameters {
    fn parse(query: &str) -> Result<Self, &'static str> {
        let parts = query.split('&').filter(|part| !part.is_empty());
        let pairs = parts.map(|part| {
            let (key, value) = part.split_once('=').ok_or(PARAMETER)?;
            Ok((key.to_owned(), percent_decoded_bytes(value)?))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    fn take(&mut self, wanted: &str) -> Option<Vec<u8>> {
        let at = self.0.iter().position(|(key, _)| key == wanted)?;
        Some(self.0.swap_remove(at).1)
    }
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

fn parse_socket(path: Option<Vec<u8>>) -> Result<ServerAddress, &'static str> {
    let path = path.filter(|path| !path.is_empty()).ok_or(SHAPE)?;
    Ok(ServerAddress::Unix(OsString::from_vec(path).into()))
}

fn percent_decoded(text: &str) -> Result<String, &'static str> {
    text_of(percent_decoded_bytes(text)?)
}

fn text_of(bytes: Vec<u8>) -> Result<String, &'static str> {
    String::from_utf8(bytes).map_err(|_| PERCENT)
}

/// A path need not be UTF-8: its other bytes have percent signs, or the form of [`name_of_text`].
fn percent_decoded_bytes(text: &str) -> Result<Vec<u8>, &'static str> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = name_of_text(text).into_vec().into_iter();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit =
            || bytes.next().and_then(|byte| char::from(byte).to_digit(16)).ok_or(PERCENT);
        decoded.push((digit()? << 4 | digit()?) as u8);
    }
    Ok(decoded)
}

fn percent_encoded(text: &[u8]) -> String {
    use fmt::Write;
    let mut encoded = String::new();
    for &byte in text {
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
        let name = percent_encoded(self.name.as_bytes());
        let scheme = if self.tls.is_some() { "nbds" } else { "nbd" };
        let mut parameters = Vec::new();
        match &self.server {
            ServerAddress::Tcp(host, port) => {
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(
                    formatter,
                    "{scheme}://{open}{}{close}:{port}/{name}",
                    percent_encoded(host.as_bytes())
                )?;
            }
            ServerAddress::Unix(path) => {
                write!(formatter, "{scheme}+unix:///{name}")?;
                parameters.push(("socket", path.as_os_str().as_bytes()));
            }
        }
        if let Some(tls) = &self.tls {
            parameters.push(("tls-certificates", tls.certificates.as_os_str().as_bytes()));
            parameters
                .extend(tls.hostname.as_deref().map(|name| ("tls-hostname", name.as_bytes())));
        }
        for (at, (key, value)) in parameters.iter().enumerate() {
            let mark = if at == 0 { '?' } else { '&' };
            write!(formatter, "{mark}{key}={}", percent_encoded(value))?;
        }
        Ok(())
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
                NbdUri {
                    server: ServerAddress::Tcp(host.into(), port),
                    name: name.into(),
                    tls: None
                },
                "{text}"
            );
        }
        let uri: NbdUri = "nbd+unix:///disk?socket=/tmp/a%20b".parse().unwrap();
        let server = ServerAddress::Unix("/tmp/a b".into());
        assert_eq!(uri, NbdUri { server, name: "disk".into(), tls: None });
        assert_eq!(uri.to_string(), "nbd+unix:///disk?socket=/tmp/a%20b");
        let bytes = "nbd+unix:///disk?socket=/tmp/caf%E9";
        assert_eq!(bytes.replace("%E9", "\\xe9").parse::<NbdUri>().unwrap().to_string(), bytes);
        assert_eq!(bytes.parse::<NbdUri>().unwrap().to_string(), bytes);
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
            ("nbds://host/", UNCERTIFIED),
            ("nbds://host/?tls-certificates=/x&tls=1", PARAMETER),
            ("nbd://host/?tls-certificates=/x", PARAMETER),
            ("nbdx://host/", SHAPE),
            ("nbd://host/%4", PERCENT),
            ("nbd://host/%ff", PERCENT),
        ] {
            assert_eq!(text.parse::<NbdUri>().unwrap_err().problem, problem, "{text}");
        }
    }

    proptest! {
        #[test]
        fn addresses_round_trip(name in "\\PC{0,12}", path in "/\\PC{1,12}", host in "[a-z0-9.]{1,9}", port: u16) {
            let tls = UriTls { certificates: path.clone().into(), hostname: Some(host.clone()) };
            for server in [ServerAddress::Unix(path.clone().into()), ServerAddress::Tcp(host.clone(), port)] {
                for tls in [None, Some(tls.clone()), Some(UriTls { hostname: None, ..tls.clone() })] {
                    let uri = NbdUri { server: server.clone(), name: name.clone(), tls };
                    prop_assert_eq!(uri.to_string().parse::<NbdUri>(), Ok(uri));
                }
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(nbd|nbd\\+unix|nbds)://\\PC{0,24}") {
            let _ = text.parse::<NbdUri>();
        }
    }
}
