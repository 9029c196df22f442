//! Listening sockets: unix sockets and TCP, made here or handed over by the program that started
//! this one.

use crate::socket::Socket;
use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use gemelo_device::{ExportAccess, MadeSocket, SocketAccess, listen_at_file};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// Most clients that wait to be accepted. The system has a limit of its own, often 4096.
const QUEUE_LENGTH: i32 = 1024;

/// An address to listen at: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A socket file.
    Unix(PathBuf),
    /// An IP address and a port. Port 0 takes a free port.
    Tcp(SocketAddr),
    /// A host name and a port. It stands for all addresses of the name.
    Name(String, u16),
}

/// The text is not an address to listen at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not an address: give unix:PATH, or tcp:HOST:PORT with a name, an IPv4 address or an \
     IPv6 address in brackets"
)]
pub struct UnknownAddress(String);

impl FromStr for ListenAddress {
    type Err = UnknownAddress;

    fn from_str(text: &str) -> Result<Self, UnknownAddress> {
        let unknown = || UnknownAddress(text.to_owned());
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => match address.parse() {
                Ok(address) => Ok(Self::Tcp(address)),
                Err(_) => parse_name(address).ok_or_else(unknown),
            },
            _ => Err(unknown()),
        }
    }
}

/// Parses a host name and a port. A name that looks like a number is refused, because the system
/// would read `1.2.3` as an address.
fn parse_name(text: &str) -> Option<ListenAddress> {
    let (name, port) = text.rsplit_once(':')?;
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let last_label = name.trim_end_matches('.').rsplit('.').next()?;
    let is_name =
        name.bytes().all(is_valid) && last_label.bytes().any(|byte| byte.is_ascii_alphabetic());
    if is_name { Some(ListenAddress::Name(name.to_owned(), port.parse().ok()?)) } else { None }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "unix:{}", path.shown()),
            Self::Tcp(address) => write!(formatter, "tcp:{address}"),
            Self::Name(name, port) => write!(formatter, "tcp:{name}:{port}"),
        }
    }
}

/// The reason why a server cannot listen at an address.
#[derive(Debug, Error, Classified)]
#[kind(source, untouched)]
#[error("cannot listen at {address}")]
pub struct ListenError {
    /// The refused address.
    pub address: ListenAddress,
    /// The error of the system.
    #[source]
    pub source: io::Error,
}

#[derive(Debug)]
enum SocketKind {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A listening socket. The socket file that was made for it is removed when it is dropped.
#[derive(Debug)]
pub struct Listener {
    kind: SocketKind,
    address: ListenAddress,
    access: ExportAccess,
    /// Removes the socket file that was made when it is dropped.
    _made: Option<MadeSocket>,
}

impl Listener {
    /// Listens at all addresses that an address stands for. A host name stands for each of its
    /// addresses that this host has. With port 0, each of them takes a free port of its own.
    /// `access` is for socket files.
    ///
    /// # Errors
    /// Fails as [`Listener::bind`] does. A host name fails if none of its addresses can be listened
    /// at, or if one is in use.
    pub fn bind_all(
        address: &ListenAddress,
        access: &SocketAccess,
    ) -> Result<Vec<Self>, ListenError> {
        let ListenAddress::Name(name, port) = address else {
            return Ok(vec![Self::bind_with(address, access)?]);
        };
        let failed = |source| ListenError { address: address.clone(), source };
        let mut listeners = Vec::new();
        let mut missing = io::Error::from(io::ErrorKind::NotFound);
        for found in (name.as_str(), *port).to_socket_addrs().map_err(failed)? {
            match Self::bind(&ListenAddress::Tcp(found)) {
                Ok(listener) => listeners.push(listener),
                // Names often have an IPv6 address as well, also on hosts without IPv6.
                Err(error) if error.source.kind() == io::ErrorKind::AddrNotAvailable => {
                    missing = error.source;
                }
                Err(error) => return Err(error),
            }
        }
        if listeners.is_empty() { Err(failed(missing)) } else { Ok(listeners) }
    }

    /// Listens at an address. A host name takes the first of its addresses that works. A socket
    /// file is replaced if no program listens at it any more, and the umask decides about its mode.
    ///
    /// # Errors
    /// Fails if the address is in use, if a file other than an abandoned socket has its path, or if
    /// the system refuses.
    pub fn bind(address: &ListenAddress) -> Result<Self, ListenError> {
        Self::bind_with(address, &SocketAccess::default())
    }

    fn bind_with(address: &ListenAddress, access: &SocketAccess) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address: address.clone(), source };
        match address {
            ListenAddress::Unix(path) => {
                let (listener, made) =
                    listen_at_file(path, access, QUEUE_LENGTH).map_err(failed)?;
                Self::of_unix(listener, address.clone(), Some(made)).map_err(failed)
            }
            ListenAddress::Tcp(wanted) => {
                TcpListener::bind(wanted).and_then(Self::made_tcp).map_err(failed)
            }
            ListenAddress::Name(name, port) => {
                TcpListener::bind((name.as_str(), *port)).and_then(Self::made_tcp).map_err(failed)
            }
        }
    }

    /// Takes over a listening unix socket. The socket file stays.
    ///
    /// # Errors
    /// Fails if the socket cannot be used.
    pub fn from_unix(listener: UnixListener) -> io::Result<Self> {
        let path = listener.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
        Self::of_unix(listener, ListenAddress::Unix(path), None)
    }

    fn of_unix(
        listener: UnixListener,
        address: ListenAddress,
        made: Option<MadeSocket>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let access = ExportAccess::default();
        Ok(Self { kind: SocketKind::Unix(listener), address, access, _made: made })
    }

    fn made_tcp(listener: TcpListener) -> io::Result<Self> {
        lengthen_queue(&listener)?;
        Self::from_tcp(listener)
    }

    /// Takes over a listening TCP socket.
    ///
    /// # Errors
    /// Fails if the socket cannot be used.
    pub fn from_tcp(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = ListenAddress::Tcp(listener.local_addr()?);
        let access = ExportAccess::default();
        Ok(Self { kind: SocketKind::Tcp(listener), address, access, _made: None })
    }

    /// Lets clients open these exports only.
    #[must_use]
    pub fn with_access(self, access: ExportAccess) -> Self {
        Self { access, ..self }
    }

    pub(crate) const fn access(&self) -> &ExportAccess {
        &self.access
    }

    /// Returns the address of the socket, with the port that was taken.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Returns whether programs on other machines can connect.
    pub(crate) fn is_open_to_the_network(&self) -> bool {
        matches!(&self.address, ListenAddress::Tcp(address) if !address.ip().to_canonical().is_loopback())
    }

    /// Accepts the next connection and returns it with the name of its peer; [`None`] if none is
    /// waiting.
    pub(crate) fn accept(&self) -> io::Result<Option<(Socket, String)>> {
        let accepted = match &self.kind {
            SocketKind::Unix(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                Ok((Socket::from(stream), self.address.to_string()))
            }),
            SocketKind::Tcp(listener) => listener.accept().and_then(|(stream, peer)| {
                stream.set_nonblocking(false)?;
                Ok((Socket::from(stream), format!("tcp:{peer}")))
            }),
        };
        match accepted {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            SocketKind::Unix(listener) => listener.as_fd(),
            SocketKind::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// Lets more clients wait to be accepted than the standard library does. When the queue is full,
/// the system ignores TCP clients, and they try again after a second.
fn lengthen_queue(listener: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(listener, QUEUE_LENGTH)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_they_say() {
        for text in [
            "unix:/run/a b",
            "tcp:127.0.0.1:10809",
            "tcp:[::1]:0",
            "tcp:localhost:1",
            "tcp:a-b.c_d.:80",
        ] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        let wrong = [
            "tcp:1.2.3:80",
            "tcp:localhost",
            "tcp:localhost:66000",
            "tcp:a b:1",
            "tcp:::1:80",
            "tcp::80",
        ];
        for text in
            ["", "unix:", "tcp:", "tcp:1.2.3.4", "/run/x", "udp:1.2.3.4:5"].into_iter().chain(wrong)
        {
            let message = text.parse::<ListenAddress>().unwrap_err().to_string();
            assert!(message.contains(&format!("'{text}'")), "{message}");
        }
    }

    #[test]
    fn a_name_stands_for_its_addresses_and_an_unknown_one_is_refused_by_name() {
        let any = SocketAccess::default();
        let listeners = Listener::bind_all(&"tcp:localhost:0".parse().unwrap(), &any).unwrap();
        for listener in &listeners {
            assert!(!listener.is_open_to_the_network(), "{}", listener.address());
            let ListenAddress::Tcp(address) = listener.address() else { panic!("no TCP") };
            std::net::TcpStream::connect(address).unwrap();
        }
        assert!(!listeners.is_empty());
        let refused =
            Listener::bind_all(&"tcp:nothing.invalid:0".parse().unwrap(), &any).unwrap_err();
        assert_eq!(refused.to_string(), "cannot listen at tcp:nothing.invalid:0");
    }

    #[test]
    fn a_dead_socket_is_replaced_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let address = ListenAddress::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());

        let live = Listener::bind(&address).unwrap();
        let refused = Listener::bind(&address).unwrap_err();
        assert_eq!(refused.source.kind(), io::ErrorKind::AddrInUse);
        drop(live);
        assert!(!path.exists());

        std::fs::write(&path, "data").unwrap();
        assert!(Listener::bind(&address).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    }

    #[test]
    fn loopback_is_not_open_to_the_network() {
        let open = |address: &str| {
            let listener = Listener::bind(&address.parse().unwrap()).unwrap();
            listener.is_open_to_the_network()
        };
        assert!(!open("tcp:127.0.0.1:0"));
        assert!(open("tcp:0.0.0.0:0"));
    }
}
