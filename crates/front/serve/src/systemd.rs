//! The interface to service managers such as systemd: listening sockets that they hand over
//! (sd_listen_fds(3)), and states that they receive (sd_notify(3)).

use crate::failure::RequestFailure;
use listenfd::ListenFd;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

/// A listening socket that the service manager has opened.
#[derive(Debug)]
pub enum InheritedSocket {
    /// A unix socket.
    Unix(UnixListener),
    /// A TCP socket.
    Tcp(TcpListener),
}

/// Takes over the listening sockets that this process was started with. A second call returns none.
///
/// # Errors
/// Fails if one of them is not a listening stream socket of the families `AF_UNIX`, `AF_INET` or
/// `AF_INET6`.
pub fn handed_over() -> Result<Vec<InheritedSocket>, RequestFailure> {
    take().map_err(|error| {
        RequestFailure::refused(format!("a socket that was handed over cannot be used: {error}"))
    })
}

fn take() -> io::Result<Vec<InheritedSocket>> {
    let mut handed = ListenFd::from_env();
    let mut listeners = Vec::new();
    for number in 0..handed.len() {
        let listener = match handed.take_unix_listener(number) {
            Ok(Some(unix)) => InheritedSocket::Unix(unix),
            Ok(None) => continue,
            Err(_) => match handed.take_tcp_listener(number)? {
                Some(tcp) => InheritedSocket::Tcp(tcp),
                None => continue,
            },
        };
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Reports a state to the service manager, if there is one.
pub(crate) fn notify(state: &str) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return };
    // A service manager that does not receive the state notices it by a timeout of its own.
    let _ = send(&address, state);
}

fn send(address: &std::ffi::OsStr, state: &str) -> io::Result<()> {
    let bytes = address.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_arrive_by_path_and_by_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("gemelo-test-{}", std::process::id());
        let by_name =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, address) in
            [(by_path, path.into_os_string()), (by_name, format!("@{name}").into())]
        {
            send(&address, "READY=1").unwrap();
            let mut buffer = [0; 16];
            let count = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..count], b"READY=1");
        }
    }
}
