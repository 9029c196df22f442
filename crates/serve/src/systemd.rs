//! What a service manager of systemd's kind hands over and wants to hear: listening sockets, and when the service is
//! ready or stopping (sd_listen_fds(3), sd_notify(3)).

use gemelo_nbd::server::Listener;
use listenfd::ListenFd;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The listening sockets that this process was started with.
///
/// # Errors
/// If one of them is no listening stream socket of the families `AF_UNIX` and `AF_INET`/`AF_INET6`.
pub(crate) fn listeners() -> io::Result<Vec<Listener>> {
    let mut handed = ListenFd::from_env();
    let mut listeners = Vec::new();
    for number in 0..handed.len() {
        let listener = match handed.take_unix_listener(number) {
            Ok(Some(unix)) => Listener::from_unix(unix)?,
            Ok(None) => continue,
            Err(_) => match handed.take_tcp_listener(number)? {
                Some(tcp) => Listener::from_tcp(tcp)?,
                None => continue,
            },
        };
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Tells the service manager, if there is one.
pub(crate) fn notify(state: &str) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return };
    // A manager that cannot be told finds out by its timeout.
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
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
