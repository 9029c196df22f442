//! A client that keeps many requests in flight on one connection, and sends and reaps them in
//! batches.
//!
//! [`Client::submit`] queues a request. [`Client::reap`] sends the queued requests with one system
//! call, and receives all replies that have come with one more. The caller identifies its requests
//! by handles of its choice.
//!
//! [`connect_device`] makes a block device of an export.

mod channel;
mod error;
mod handshake;
mod incoming;
mod remote;
mod tls;
mod uri;

pub use crate::certificates::TlsError;
pub use error::ClientError;
pub use remote::connect_device;
pub use uri::{NbdUri, ServerAddress, USUAL_PORT, UriError, UriTls};

use crate::socket::Socket;
use crate::wire::{
    BlockDescriptor, BlockSizes, COMMAND_FLAG_FAST_ZERO, COMMAND_FLAG_FUA, COMMAND_FLAG_NO_HOLE,
    COMMAND_FLAG_REQ_ONE, Command, ErrorCode, ExportFlags, RequestHeader,
};
use channel::Channel;
use handshake::ClientHandshake;
use incoming::{Incoming, Pending};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Number of queued bytes that are sent without waiting for [`Client::reap`].
const SENT_EARLY_BYTES: usize = 256 << 10;

/// An export as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// Size of the export in bytes.
    pub size_bytes: u64,
    /// Transmission flags of the export.
    pub flags: ExportFlags,
    /// Limits of the sizes of requests, if the server gave them.
    pub block_sizes: Option<BlockSizes>,
    /// `true` if reads are answered in chunks.
    pub structured_replies: bool,
    /// The server's id for `base:allocation`, if the server supports it.
    allocation_id: Option<u32>,
}

impl ExportInfo {
    /// Returns whether the server answers [`Submission::BlockStatus`].
    #[must_use]
    pub fn tells_block_status(&self) -> bool {
        self.allocation_id.is_some()
    }
}

/// A request. Offsets and lengths are in bytes. `durable` demands that the effect is durable when
/// the request completes.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the names of the fields say everything")]
pub enum Submission<'a> {
    /// Reads the range.
    Read { offset: u64, length: u32 },
    /// Writes the data. The client copies it.
    Write { offset: u64, data: &'a [u8], durable: bool },
    /// Makes completed writes durable.
    Flush,
    /// Tells the server that the content of the range is no longer needed.
    Trim { offset: u64, length: u32, durable: bool },
    /// Makes the range read as zeros. `may_free` permits the server to deallocate it. With `fast`,
    /// the request fails if it would not be faster than writing zeros.
    WriteZeroes { offset: u64, length: u32, may_free: bool, fast: bool, durable: bool },
    /// Requests the extents of the range; with `one`, only the first of them.
    BlockStatus { offset: u64, length: u32, one: bool },
}

impl<'a> Submission<'a> {
    /// Returns the request's header without its cookie, and the data that follows it.
    fn header(self) -> (RequestHeader, &'a [u8]) {
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        let make = |command, offset, length, flags| RequestHeader {
            flags,
            command,
            cookie: 0,
            offset,
            length,
        };
        match self {
            Self::Read { offset, length } => (make(Command::READ, offset, length, 0), &[]),
            Self::Write { offset, data, durable } => (
                make(Command::WRITE, offset, data.len() as u32, flag(durable, COMMAND_FLAG_FUA)),
                data,
            ),
            Self::Flush => (make(Command::FLUSH, 0, 0, 0), &[]),
            Self::Trim { offset, length, durable } => {
                (make(Command::TRIM, offset, length, flag(durable, COMMAND_FLAG_FUA)), &[])
            }
            Self::WriteZeroes { offset, length, may_free, fast, durable } => {
                let flags = flag(durable, COMMAND_FLAG_FUA)
                    | flag(!may_free, COMMAND_FLAG_NO_HOLE)
                    | flag(fast, COMMAND_FLAG_FAST_ZERO);
                (make(Command::WRITE_ZEROES, offset, length, flags), &[])
            }
            Self::BlockStatus { offset, length, one } => {
                (make(Command::BLOCK_STATUS, offset, length, flag(one, COMMAND_FLAG_REQ_ONE)), &[])
            }
        }
    }

    /// Returns the flag that the server must have set for this request, and the name of the
    /// request.
    fn needs(self) -> (u16, &'static str) {
        match self {
            Self::Flush => (ExportFlags::SEND_FLUSH, "flush"),
            Self::Trim { .. } => (ExportFlags::SEND_TRIM, "trim"),
            Self::WriteZeroes { fast: true, .. } => (ExportFlags::SEND_FAST_ZERO, "fast zeroes"),
            Self::WriteZeroes { .. } => (ExportFlags::SEND_WRITE_ZEROES, "zeroes"),
            Self::Write { durable: true, .. } => (ExportFlags::SEND_FUA, "durable writes"),
            _ => (0, ""),
        }
    }
}

/// A request that the server has answered.
#[derive(Debug, Clone, Copy)]
pub struct CompletedRequest<'a> {
    /// The caller's handle for the request.
    pub handle: u64,
    /// Error number of the request.
    pub error: ErrorCode,
    /// Data of a read.
    pub data: &'a [u8],
    /// Extents of a block status.
    pub extents: &'a [BlockDescriptor],
}

/// The time that [`Client::reap`] waits for a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyWait {
    /// Does not wait.
    Not,
    /// Waits for a completion, if requests are in flight.
    ForOne,
    /// Waits for a completion, but no longer than this time.
    AtMost(Duration),
}

/// A connection to one export.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    export: ExportInfo,
    /// The requests in flight. The index of a request is its cookie.
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
    outgoing: Vec<u8>,
    /// Number of bytes of `outgoing` that were sent.
    sent_bytes: usize,
    incoming: Incoming,
    /// `true` if the connection failed, or if the server was told that the session ends.
    is_over: bool,
}

impl Client {
    /// Connects to a server and negotiates an export. Up to `depth` requests can be in flight.
    ///
    /// # Errors
    /// Fails if the server or the export does not exist, or if the server takes longer than
    /// `timeout`.
    pub fn connect(uri: &NbdUri, depth: usize, timeout: Duration) -> Result<Self, ClientError> {
        let socket = match &uri.server {
            ServerAddress::Unix(path) => Socket::from(UnixStream::connect(path)?),
            ServerAddress::Tcp(host, port) => Socket::from(connect_tcp(host, *port, timeout)?),
        };
        Self::negotiate(socket, &uri.name, Some(uri), depth, timeout)
    }

    /// Negotiates an export as [`Self::connect`] does, on an open connection on which the server
    /// already begins the session.
    ///
    /// # Errors
    /// Fails as [`Self::connect`] does.
    pub fn over(
        stream: UnixStream,
        export: &str,
        depth: usize,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        Self::negotiate(Socket::from(stream), export, None, depth, timeout)
    }

    fn negotiate(
        socket: Socket,
        name: &str,
        encrypted: Option<&NbdUri>,
        depth: usize,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let mut channel = Channel::Plain(socket);
        channel.set_deadline_after(Some(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)));
        let export = ClientHandshake::run(&mut channel, name, encrypted)?;
        channel.set_deadline_after(None);
        let depth = depth.max(1);
        Ok(Self {
            channel,
            export,
            pending: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            outgoing: Vec::new(),
            sent_bytes: 0,
            incoming: Incoming::new(),
            is_over: false,
        })
    }

    /// Returns the server's description of the export.
    #[must_use]
    pub fn export(&self) -> &ExportInfo {
        &self.export
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.pending.len() - self.free.len()
    }

    /// Queues a request. The next [`Client::reap`] sends it, if it was not sent before. Its
    /// completion has this `handle`.
    ///
    /// # Errors
    /// Fails if too many requests are in flight, if the server does not support the request, or if
    /// the connection failed.
    pub fn submit(&mut self, handle: u64, submission: Submission<'_>) -> Result<(), ClientError> {
        let (flags, name) = submission.needs();
        if !self.export.flags.has(flags) {
            return Err(ClientError::NotSupported(name));
        }
        if matches!(submission, Submission::BlockStatus { .. }) && !self.export.tells_block_status()
        {
            return Err(ClientError::NotSupported("block status"));
        }
        let place = self.free.pop().ok_or(ClientError::QueueFull)?;
        let (mut header, data) = submission.header();
        header.cookie = place as u64;
        let data_bytes = if header.command == Command::READ { header.length as usize } else { 0 };
        assert!(
            self.pending.get(place).is_some_and(Option::is_none) && data.len() <= u32::MAX as usize,
            "a free place has no request, and the length of data has 32 bits"
        );
        if let Some(pending) = self.pending.get_mut(place) {
            *pending = Some(Pending { handle, offset: header.offset, data_bytes, assembled: None });
        }
        self.outgoing.extend_from_slice(&header.encode());
        self.outgoing.extend_from_slice(data);
        if self.outgoing.len() - self.sent_bytes >= SENT_EARLY_BYTES {
            self.send()?;
        }
        Ok(())
    }

    /// Sends as much of the queue as fits now. Returns whether all was sent.
    fn send(&mut self) -> Result<bool, ClientError> {
        while let Some(rest) = self.outgoing.get(self.sent_bytes..).filter(|rest| !rest.is_empty())
        {
            match self.channel.send_now(rest)? {
                Some(sent) => {
                    assert!(sent <= rest.len(), "no more is sent than there is");
                    self.sent_bytes += sent;
                }
                None => return Ok(false),
            }
        }
        self.outgoing.clear();
        self.sent_bytes = 0;
        Ok(self.channel.push_now()?)
    }

    /// Sends the queued requests, passes completed ones to `done`, and returns their number.
    ///
    /// # Errors
    /// Fails if the connection failed or if the server broke the protocol. The connection cannot be
    /// used any more then.
    pub fn reap(
        &mut self,
        wait: ReplyWait,
        mut done: impl FnMut(CompletedRequest<'_>),
    ) -> Result<usize, ClientError> {
        if let ReplyWait::AtMost(most) = wait {
            self.channel
                .set_deadline_after(Some(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX)));
        }
        let outcome = self.reap_until_deadline(wait, &mut done);
        self.is_over |= outcome.is_err();
        self.channel.set_deadline_after(None);
        outcome
    }

    fn reap_until_deadline(
        &mut self,
        wait: ReplyWait,
        done: &mut impl FnMut(CompletedRequest<'_>),
    ) -> Result<usize, ClientError> {
        loop {
            let all_is_sent = self.send()?;
            if self.in_flight() == 0 {
                return Ok(0);
            }
            // While bytes are left to send, receiving must not wait: the server may itself be
            // waiting to send.
            let room = self.incoming.room();
            let received = match wait {
                ReplyWait::Not => self.channel.receive_now(room)?,
                _ if all_is_sent => match self.channel.receive(room) {
                    Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(0),
                    other => Some(other?),
                },
                _ => {
                    if !self.channel.wait_for_either()? {
                        return Ok(0);
                    }
                    self.channel.receive_now(room)?
                }
            };
            if received == Some(0) {
                return Err(ClientError::Closed);
            }
            self.incoming.received(received.unwrap_or(0));
            let id = self.export.allocation_id;
            let completed =
                self.incoming.complete(&mut self.pending, &mut self.free, id, &mut *done)?;
            if completed > 0 || wait == ReplyWait::Not {
                return Ok(completed);
            }
        }
    }

    /// Carries out one request and waits for it. No other requests may be in flight.
    ///
    /// # Errors
    /// Fails as [`Client::submit`] and [`Client::reap`] do.
    pub fn run<T>(
        &mut self,
        submission: Submission<'_>,
        take: impl FnOnce(CompletedRequest<'_>) -> T,
    ) -> Result<T, ClientError> {
        self.submit(u64::MAX, submission)?;
        let mut take = Some(take);
        let mut taken = None;
        while taken.is_none() {
            self.reap(ReplyWait::ForOne, |completion| {
                if completion.handle == u64::MAX
                    && let Some(take) = take.take()
                {
                    taken = Some(take(completion));
                }
            })?;
        }
        taken.ok_or(ClientError::Unexpected("nothing"))
    }

    /// Ends the session as the protocol demands. Requests in flight are lost.
    ///
    /// # Errors
    /// Fails if the connection failed.
    pub fn disconnect(mut self) -> Result<(), ClientError> {
        self.is_over = true;
        self.outgoing.extend_from_slice(&DISCONNECT.encode());
        while !self.send()? {
            self.channel.wait_for_either()?;
            self.channel.receive_now(self.incoming.room())?;
        }
        Ok(())
    }
}

/// The request that ends a session.
const DISCONNECT: RequestHeader =
    RequestHeader { flags: 0, command: Command::DISCONNECT, cookie: 0, offset: 0, length: 0 };

impl Drop for Client {
    /// Tells the server that the session ends, if that needs no waiting.
    fn drop(&mut self) {
        if !self.is_over && self.in_flight() == 0 && self.outgoing.is_empty() {
            // If this fails, the server sees the end of the connection.
            let _ = self.channel.send_now(&DISCONNECT.encode());
        }
        self.channel.close();
    }
}

fn connect_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}
