//! A virtual machine that is connected, from its first message to its last request.

use crate::guest::Guest;
use gemelo_device::DeviceError;
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use thiserror::Error;
use vhost::vhost_user::Error as MessageError;
use vhost::vhost_user::Listener;
use vhost_user_backend::{Error as DaemonError, VhostUserDaemon};

/// The reason why a virtual machine was not served to its end.
#[derive(Debug, Error)]
pub(crate) enum ClientError {
    #[error("its device was stopped: {0}")]
    Stopped(String),
    #[error("it breaks the protocol: {0}")]
    Protocol(DaemonError),
    #[error("cannot serve it")]
    System(#[from] io::Error),
    #[error("its last writes cannot be flushed")]
    LastFlush(#[source] DeviceError),
}

/// Serves the virtual machine that waits at a listener until it leaves. `attached` is called once
/// [`Guest::end_connection`] has an effect.
pub(crate) fn serve(
    guest: &Arc<Guest>,
    listener: UnixListener,
    attached: impl FnOnce(),
) -> Result<(), ClientError> {
    let ended = run(guest, listener, attached);
    let flushed = guest.flush().map_err(ClientError::LastFlush);
    if let Some(reason) = guest.stopped() {
        return Err(ClientError::Stopped(reason.to_string()));
    }
    ended.and(flushed)
}

/// When this returns, no thread serves the queues of the guest.
fn run(
    guest: &Arc<Guest>,
    listener: UnixListener,
    attached: impl FnOnce(),
) -> Result<(), ClientError> {
    let name = "gemelo-vhost".to_owned();
    let mut daemon = VhostUserDaemon::new(name, Arc::clone(guest), guest.memory())
        .map_err(ClientError::Protocol)?;
    if let Err(error) = guest.attach_threads(&daemon) {
        // Its threads cannot be ended, and a drop would wait for them.
        std::mem::forget(daemon);
        return Err(error.into());
    }
    let mut ended = daemon.start(&mut Listener::from(listener)).map_err(ClientError::Protocol);
    guest.attach_connection(&daemon);
    attached();
    if ended.is_ok() {
        ended = daemon.wait().or_else(of_end);
    }
    guest.end_threads();
    ended
}

/// A virtual machine ends its connection in any place.
fn of_end(error: DaemonError) -> Result<(), ClientError> {
    match error {
        DaemonError::HandleRequest(
            MessageError::Disconnected
            | MessageError::PartialMessage
            | MessageError::SocketBroken(_)
            | MessageError::SocketError(_),
        ) => Ok(()),
        other => Err(ClientError::Protocol(other)),
    }
}
