//! A client: many requests in flight on one connection, sent and reaped in batches.
//!
//! [`Client::submit`] puts a request in line; [`Client::reap`] sends what is in line with one system call, and receives
//! all replies that have come with one more. Whoever drives it names its requests by handles of its own.

mod channel;
mod handshake;
mod incoming;
mod tls;
mod uri;

pub use crate::certificates::TlsError;
pub use uri::{NbdUri, ServerAddress, USUAL_PORT, UriError, UriTls};

use crate::socket::Socket;
use crate::wire::{
    BlockDescriptor, BlockSizes, COMMAND_FLAG_FAST_ZERO, COMMAND_FLAG_FUA, COMMAND_FLAG_NO_HOLE,
    COMMAND_FLAG_REQ_ONE, Command, ErrorCode, ExportFlags, OptionReplyKind, RequestHeader,
    WireError,
};
use channel::Channel;
use handshake::Handshake;
use incoming::{Incoming, Pending};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use thiserror::Error;

/// When this much is in line, it is sent without waiting for [`Client::reap`].
const SENT_EARLY_BYTES: usize = 256 << 10;

/// Why there is no connection, or none any more.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The connection cannot be made, broke, or the server was silent for too long.
    #[error("the connection to the server failed")]
    Io(#[from] io::Error),
    /// The server sends what the protocol does not have.
    #[error("the server breaks the protocol: {0}")]
    Wire(#[from] WireError),
    /// The server sends what does not belong here.
    #[error("the server breaks the protocol: it sends {0}")]
    Unexpected(&'static str),
    /// The server speaks an older form of the protocol.
    #[error("the server does not speak fixed newstyle NBD")]
    OldServer,
    /// The server has no export of this name.
    #[error("the server has no such export")]
    NoSuchExport,
    /// The server wants TLS.
    #[error("the server wants TLS: use nbds:// or nbds+unix://, with tls-certificates=FOLDER")]
    TlsRequired,
    /// The server does not speak TLS, or not with everybody.
    #[error("the server does not encrypt: use nbd:// or nbd+unix://")]
    NoTls,
    /// The certificates that the address names cannot be used.
    #[error(transparent)]
    Certificates(#[from] TlsError),
    /// A host that no certificate can be for.
    #[error("no certificate can be for this host: name the one it is for with tls-hostname=NAME")]
    NoServerName,
    /// The server refuses an option.
    #[error("the server refuses (error {number}): {message}")]
    Refused {
        /// The number of the refusal.
        number: u32,
        /// What the server says.
        message: String,
    },
    /// As many requests are in flight as were agreed on.
    #[error("too many requests are in flight")]
    QueueFull,
    /// The server could not do a request.
    #[error("the server answers a request with an error: {0}")]
    Request(ErrorCode),
    /// The server has no such request.
    #[error("the server does not know this request: {0}")]
    NotSupported(&'static str),
}

impl ClientError {
    fn refused(kind: OptionReplyKind, message: &str) -> Self {
        match kind {
            OptionReplyKind::ERR_UNKNOWN => Self::NoSuchExport,
            OptionReplyKind::ERR_TLS_REQUIRED => Self::TlsRequired,
            OptionReplyKind(number) => {
                Self::Refused { number: number & !(1 << 31), message: message.to_owned() }
            }
        }
    }
}

/// What a server has told of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// What it can do.
    pub flags: ExportFlags,
    /// Sizes of requests, if the server has told them.
    pub block_sizes: Option<BlockSizes>,
    /// Reads are answered in chunks.
    pub structured_replies: bool,
    /// The server's number for `base:allocation`, if it knows that.
    allocation_id: Option<u32>,
}

impl ExportInfo {
    /// Whether [`Submission::BlockStatus`] can be asked.
    #[must_use]
    pub fn tells_block_status(&self) -> bool {
        self.allocation_id.is_some()
    }
}

/// What to do. Offsets and lengths are bytes; `durable` asks that the effect is durable when the request completes.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the fields are offset, length and data everywhere")]
pub enum Submission<'a> {
    /// Reads.
    Read { offset: u64, length: u32 },
    /// Writes. The data is copied.
    Write { offset: u64, data: &'a [u8], durable: bool },
    /// Makes completed writes durable.
    Flush,
    /// The range is no longer needed.
    Trim { offset: u64, length: u32, durable: bool },
    /// Makes the range read as zeros; `may_free` its space, `fast` or not at all.
    WriteZeroes { offset: u64, length: u32, may_free: bool, fast: bool, durable: bool },
    /// Tells of the range's extents; of one if that is enough.
    BlockStatus { offset: u64, length: u32, one: bool },
}

impl<'a> Submission<'a> {
    /// The request without cookie, and the data that follows it.
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

    /// The flag that a server must have set to know this, and its name.
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

/// A request that is complete.
#[derive(Debug, Clone, Copy)]
pub struct Completion<'a> {
    /// The caller's name for it.
    pub handle: u64,
    /// How it went.
    pub error: ErrorCode,
    /// What was read.
    pub data: &'a [u8],
    /// The extents of a block status.
    pub extents: &'a [BlockDescriptor],
}

/// Whether [`Client::reap`] waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Not,
    /// Until there is a completion, if anything is in flight.
    ForOne,
    /// Until there is a completion, or this has passed.
    AtMost(Duration),
}

/// A connection to one export.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    export: ExportInfo,
    /// The requests in flight, at the place that is their cookie.
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
    outgoing: Vec<u8>,
    /// How much of `outgoing` was sent.
    sent_bytes: usize,
    incoming: Incoming,
    /// The connection failed, or the server was told that it ends.
    is_over: bool,
}

impl Client {
    /// Connects and negotiates; up to `depth` requests can be in flight.
    ///
    /// # Errors
    /// If there is no server, no such export, or the server takes longer than `timeout`.
    pub fn connect(uri: &NbdUri, depth: usize, timeout: Duration) -> Result<Self, ClientError> {
        let socket = match &uri.server {
            ServerAddress::Unix(path) => Socket::from(UnixStream::connect(path)?),
            ServerAddress::Tcp(host, port) => Socket::from(connect_tcp(host, *port, timeout)?),
        };
        Self::negotiate(socket, &uri.name, Some(uri), depth, timeout)
    }

    /// As [`Self::connect`], on a connection that is there: whoever made it has had the server begin the session.
    ///
    /// # Errors
    /// As [`Self::connect`].
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
        let export = Handshake::run(&mut channel, name, encrypted)?;
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

    /// What the server has told of the export.
    #[must_use]
    pub fn export(&self) -> &ExportInfo {
        &self.export
    }

    /// How many requests are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.pending.len() - self.free.len()
    }

    /// Puts a request in line; it is sent by the next [`Client::reap`] at the latest. `handle` comes back with its
    /// completion.
    ///
    /// # Errors
    /// If too many are in flight, the server does not know the request, or the connection failed.
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

    /// Sends what is in line, as far as it fits now; whether all was sent.
    fn send(&mut self) -> Result<bool, ClientError> {
        while let Some(rest) = self.outgoing.get(self.sent_bytes..).filter(|rest| !rest.is_empty())
        {
            match self.channel.send_now(rest)? {
                Some(sent) => self.sent_bytes += sent,
                None => return Ok(false),
            }
        }
        self.outgoing.clear();
        self.sent_bytes = 0;
        Ok(self.channel.push_now()?)
    }

    /// Sends what is in line and hands finished requests to `done`; tells how many.
    ///
    /// # Errors
    /// If the connection failed or the server broke the protocol; then the connection is of no more use.
    pub fn reap(
        &mut self,
        wait: Wait,
        mut done: impl FnMut(Completion<'_>),
    ) -> Result<usize, ClientError> {
        if let Wait::AtMost(most) = wait {
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
        wait: Wait,
        done: &mut impl FnMut(Completion<'_>),
    ) -> Result<usize, ClientError> {
        loop {
            let all_is_sent = self.send()?;
            if self.in_flight() == 0 {
                return Ok(0);
            }
            // While there is something to send, receiving must not wait: the server may be waiting for room itself.
            let room = self.incoming.room();
            let received = match wait {
                Wait::Not => self.channel.receive_now(room)?,
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
                return Err(ClientError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            self.incoming.received(received.unwrap_or(0));
            let id = self.export.allocation_id;
            let completed =
                self.incoming.complete(&mut self.pending, &mut self.free, id, &mut *done)?;
            if completed > 0 || wait == Wait::Not {
                return Ok(completed);
            }
        }
    }

    /// Does one request and waits for it; for whoever has no others in flight.
    ///
    /// # Errors
    /// As [`Client::submit`] and [`Client::reap`].
    pub fn run<T>(
        &mut self,
        submission: Submission<'_>,
        take: impl FnOnce(Completion<'_>) -> T,
    ) -> Result<T, ClientError> {
        self.submit(u64::MAX, submission)?;
        let mut take = Some(take);
        let mut taken = None;
        while taken.is_none() {
            self.reap(Wait::ForOne, |completion| {
                if completion.handle == u64::MAX
                    && let Some(take) = take.take()
                {
                    taken = Some(take(completion));
                }
            })?;
        }
        taken.ok_or(ClientError::Unexpected("nothing"))
    }

    /// Ends the session in the protocol's way. What is in flight is lost.
    ///
    /// # Errors
    /// If the connection failed.
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
    /// Tells the server, if that needs no waiting.
    fn drop(&mut self) {
        if !self.is_over && self.in_flight() == 0 && self.outgoing.is_empty() {
            // If it cannot be told, it sees the connection end.
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
