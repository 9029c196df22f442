//! The address at which metrics are served.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::str::FromStr;
use thiserror::Error;

/// An address to serve metrics at: `HOST:PORT`, where HOST is a name or an IP address. Port 0 takes
/// a free port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsAddress {
    host: String,
    port: u16,
}

/// The text is not an address for metrics.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "give HOST:PORT, such as 127.0.0.1:9809, with a name, an IPv4 address or an IPv6 address in \
     brackets"
)]
pub struct UnknownMetricsAddress;

impl FromStr for MetricsAddress {
    type Err = UnknownMetricsAddress;

    fn from_str(text: &str) -> Result<Self, UnknownMetricsAddress> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: address.ip().to_string(), port: address.port() });
        }
        let (host, port) = text.rsplit_once(':').ok_or(UnknownMetricsAddress)?;
        let port = port.parse().map_err(|_| UnknownMetricsAddress)?;
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        // The system would read a name of digits as an address: 1.2.3 is 1.2.0.3.
        let is_name = host.bytes().any(|byte| byte.is_ascii_alphabetic());
        if !is_name || !host.bytes().all(is_valid) {
            return Err(UnknownMetricsAddress);
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(formatter, "[{}]:{}", self.host, self.port),
            false => write!(formatter, "{}:{}", self.host, self.port),
        }
    }
}

impl MetricsAddress {
    /// Listens at the first address of the host that can be listened at.
    pub(super) fn bind(&self) -> io::Result<TcpListener> {
        TcpListener::bind((self.host.as_str(), self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_names_and_addresses() {
        for text in ["localhost:9809", "127.0.0.1:0", "[::1]:9809", "mon-1.example:80"] {
            assert_eq!(text.parse::<MetricsAddress>().unwrap().to_string(), text);
        }
        for text in ["localhost", "9809", ":9809", "127.0.0:1", "::1:9809", "a b:1", "host:70000"] {
            assert_eq!(text.parse::<MetricsAddress>(), Err(UnknownMetricsAddress), "{text}");
        }
    }

    #[test]
    fn a_name_is_looked_up() {
        let address: MetricsAddress = "localhost:0".parse().unwrap();
        assert!(address.bind().unwrap().local_addr().unwrap().ip().is_loopback());
    }
}
