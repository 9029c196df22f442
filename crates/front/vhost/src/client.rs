//! A virtual machine that is connected, from its first message to its last request.

use crate::guest::{Guest, Stopped};
use crate::session::Session;
use gemelo_device::DeviceError;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;
use vhost::vhost_user::{BackendReqHandler, Error as MessageError};

/// The message that gives the device a channel for notices (`VHOST_USER_SET_BACKEND_REQ_FD`).
const SET_CHANNEL: u32 = 21;

/// Pause after a virtual machine could not be let in. It waits on, so the next attempt would follow
/// at once.
pub(crate) const ADMIT_PAUSE: Duration = Duration::from_millis(20);

/// Length in bytes of the type of a message, with which it begins.
const TYPE_BYTES: usize = 4;

/// The reason why a virtual machine was not served to its end.
#[derive(Debug, Error)]
pub(crate) enum ClientError {
    #[error("its device was stopped: {0}")]
    Stopped(String),
    #[error("it breaks the protocol: {0}")]
    Protocol(MessageError),
    #[error("cannot serve it")]
    System(#[from] io::Error),
    #[error("data is lost: its last writes cannot be flushed")]
    LastFlush(#[source] DeviceError),
}

/// Serves the virtual machine that waits at a listener until it leaves. `attached` is called once
/// [`Guest::end_connection`] has an effect.
pub(crate) fn serve(
    guest: &Arc<Guest>,
    listener: &UnixListener,
    attached: impl FnOnce(),
) -> Result<(), ClientError> {
    let ended = run(guest, listener, attached);
    let flushed = guest.flush();
    match (guest.stopped(), flushed) {
        // Another process may have the device by now.
        (Some(reason @ Stopped::MayNotAnswer), _) => Err(ClientError::Stopped(reason.to_string())),
        // A loss of data matters more than the reason of the end.
        (_, Err(error)) => Err(ClientError::LastFlush(error)),
        (Some(reason), Ok(())) => Err(ClientError::Stopped(reason.to_string())),
        (None, Ok(())) => ended,
    }
}

/// No thread serves the queues of the guest after this has returned.
fn run(
    guest: &Arc<Guest>,
    listener: &UnixListener,
    attached: impl FnOnce(),
) -> Result<(), ClientError> {
    let (stream, _) = listener.accept().inspect_err(|_| gemelo_base::pause(ADMIT_PAUSE))?;
    guest.attach(stream.try_clone()?);
    attached();
    let session = Arc::new(Mutex::new(Session::new(Arc::clone(guest))));
    let mut messages = BackendReqHandler::from_stream(stream.try_clone()?, session);
    loop {
        if let Some(channel) = channel_in_next_message(&stream)? {
            guest.set_channel(channel)?;
        }
        if let Err(error) = messages.handle_request() {
            return of_end(error);
        }
    }
}

/// Waits for the next message, and returns a copy of the channel that it gives, if it does. The
/// message stays, because the handler of messages must have it. That handler keeps the channel to
/// itself, and sends no notices of changes.
fn channel_in_next_message(stream: &UnixStream) -> io::Result<Option<UnixStream>> {
    let mut kind = [0; TYPE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut kind)];
    let flags = RecvFlags::PEEK | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match recvmsg(stream, &mut buffers, &mut attached, flags) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut descriptors = attached.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let descriptor: Option<OwnedFd> = descriptors.next();
    let is_channel = received.bytes == TYPE_BYTES && u32::from_ne_bytes(kind) == SET_CHANNEL;
    Ok(descriptor.filter(|_| is_channel).map(UnixStream::from))
}

/// A virtual machine ends its connection in any place.
fn of_end(error: MessageError) -> Result<(), ClientError> {
    match error {
        MessageError::Disconnected
        | MessageError::PartialMessage
        | MessageError::SocketBroken(_)
        | MessageError::SocketError(_) => Ok(()),
        other => Err(ClientError::Protocol(other)),
    }
}
