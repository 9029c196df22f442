//! Addresses to listen at and clients with certificates, each with the exports that they open.

use super::listener::{ListenAddress, UnknownAddress};
use gemelo_device::ExportAccess;
use std::str::FromStr;
use thiserror::Error;

/// An address to listen at, and the exports that its clients may open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    /// The address.
    pub address: ListenAddress,
    /// The exports.
    pub access: ExportAccess,
}

/// Clients whose certificate has a name, and the exports that they may open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsClient {
    /// A name of the certificate: a DNS name among its subject alternative names.
    pub name: String,
    /// The exports.
    pub access: ExportAccess,
}

/// The reason why a text is no door, or no client.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownDoor {
    /// The address is none.
    #[error(transparent)]
    Address(#[from] UnknownAddress),
    /// There is another part after a comma.
    #[error("'{0}' is unknown: give ,volume=NAME (also a pattern such as web-*) or ,read-only")]
    Part(String),
    /// The name of a client is empty.
    #[error("give NAME,volume=VOLUME, where NAME is the client's")]
    NoName,
}

impl From<ListenAddress> for Door {
    fn from(address: ListenAddress) -> Self {
        Self { address, access: ExportAccess::default() }
    }
}

/// Splits a text into what is before the first comma, and the access that follows.
fn split(text: &str) -> Result<(&str, ExportAccess), UnknownDoor> {
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or_default();
    let mut access = ExportAccess::default();
    for part in parts {
        match part.split_once('=') {
            Some(("volume", name)) if !name.is_empty() => {
                access.names.get_or_insert_default().push(name.to_owned());
            }
            None if part == "read-only" => access.read_only = true,
            _ => return Err(UnknownDoor::Part(part.to_owned())),
        }
    }
    Ok((first, access))
}

impl FromStr for Door {
    type Err = UnknownDoor;

    fn from_str(text: &str) -> Result<Self, UnknownDoor> {
        let (address, access) = split(text)?;
        Ok(Self { address: address.parse()?, access })
    }
}

impl FromStr for TlsClient {
    type Err = UnknownDoor;

    fn from_str(text: &str) -> Result<Self, UnknownDoor> {
        match split(text)? {
            ("", _) => Err(UnknownDoor::NoName),
            (name, access) => Ok(Self { name: name.to_ascii_lowercase(), access }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_has_an_address_and_what_it_opens() {
        let door: Door = "unix:/run/a,volume=web-*,volume=db,read-only".parse().unwrap();
        assert_eq!(door.address.to_string(), "unix:/run/a");
        assert_eq!(door.access.names, Some(vec!["web-*".to_owned(), "db".to_owned()]));
        assert!(door.access.read_only);
        let plain: Door = "tcp:localhost:1".parse().unwrap();
        assert_eq!(plain.access, ExportAccess::default());
        for wrong in ["unix:/a,volumes=b", "unix:/a,b", "unix:/a,volume=", "unix:/a,", ",volume=a"]
        {
            assert!(wrong.parse::<Door>().is_err(), "{wrong}");
        }
        assert_eq!("Web,read-only".parse::<TlsClient>().unwrap().name, "web");
        assert!(",volume=a".parse::<TlsClient>().is_err());
    }
}
