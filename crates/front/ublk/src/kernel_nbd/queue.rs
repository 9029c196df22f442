//! A queue of a disk of the kernel's NBD and its thread: it executes the requests that have come
//! over its socket as one batch, and answers them.
//!
//! The kernel closes a socket whose request takes longer than its time, and sends that request
//! again over another one. The first may still be executed then, and must not come after later
//! changes of the same place: [`Links`] lets a batch begin only when the batches of closed sockets
//! are done, and begins none of a socket that is closed itself.

use super::netlink::Family;
use super::{look, reconnect};
use crate::abi::DeviceInfo;
use crate::kept::Log;
use crate::queue::{Ended, Side};
use gemelo_device::{DeviceError, Durability, Operation, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const REQUEST_BYTES: usize = 28;
const REPLY_BYTES: usize = 16;
/// Longest request in bytes that the kernel is allowed to send.
const MAX_REQUEST_BYTES: usize = 64 << 20;
/// Bytes that are received at a time, at least.
const ROOM_BYTES: usize = 128 << 10;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
const FUA: u16 = 1 << 0;
const NO_HOLE: u16 = 1 << 1;

/// Time after which a closed socket is replaced.
const CONNECT_AGAIN_AFTER: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// A request of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    command: u16,
    flags: u16,
    cookie: [u8; 8],
    offset: u64,
    length: usize,
    /// The place of its data among what was received.
    data: Range<usize>,
}

fn strange() -> io::Error {
    io::Error::other("the kernel sent a request that it cannot have")
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// Reads the request that begins here, if it is there as a whole.
fn parse(bytes: &[u8], at: usize) -> io::Result<Option<Asked>> {
    let Some(head) = bytes.get(at..).and_then(|rest| rest.get(..REQUEST_BYTES)) else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(field(head, 24));
    let length = usize::try_from(length).map_err(|_| strange())?;
    let command = u16::from_be_bytes(field(head, 6));
    let is_too_long = matches!(command, READ | WRITE) && length > MAX_REQUEST_BYTES;
    if u32::from_be_bytes(field(head, 0)) != REQUEST_MAGIC || is_too_long {
        return Err(strange());
    }
    let begin = at + REQUEST_BYTES;
    let data = begin..begin + if command == WRITE { length } else { 0 };
    Ok((data.end <= bytes.len()).then(|| Asked {
        command,
        flags: u16::from_be_bytes(field(head, 4)),
        cookie: field(head, 8),
        offset: u64::from_be_bytes(field(head, 16)),
        length,
        data,
    }))
}

impl Asked {
    /// Returns the bytes of the reply.
    fn reply_bytes(&self) -> usize {
        REPLY_BYTES + if self.command == READ { self.length } else { 0 }
    }

    /// Makes the operations that the request asks for, each of at most `piece` bytes of data.
    fn operations<'b>(
        &self,
        input: &'b [u8],
        room: &'b mut [u8],
        piece: usize,
        write_through: bool,
    ) -> Option<Vec<Operation<'b>>> {
        let is_durable = write_through || self.flags & FUA != 0;
        let durability = if is_durable { Durability::Immediate } else { Durability::Flushed };
        let (offset, length) = (self.offset, self.length as u64);
        let places = (0..).map(|number: u64| offset.saturating_add(number * piece as u64));
        Some(match self.command {
            READ => {
                let pieces = places.zip(room.chunks_mut(piece));
                pieces.map(|(offset, buffer)| Operation::Read { offset, buffer }).collect()
            }
            WRITE => {
                let pieces = places.zip(input.get(self.data.clone())?.chunks(piece));
                let write = |(offset, data)| Operation::Write { offset, data, durability };
                pieces.map(write).collect()
            }
            FLUSH => vec![Operation::Flush],
            TRIM => vec![Operation::Trim { offset, length, durability }],
            WRITE_ZEROES => {
                let may_free = self.flags & NO_HOLE == 0;
                vec![Operation::WriteZeroes { offset, length, may_free, durability }]
            }
            _ => return None,
        })
    }
}

/// Returns the number of an error in replies. The kernel makes an error of input and output of
/// each.
fn code(error: &DeviceError) -> u32 {
    let errno = match error {
        full if full.is_full() => Errno::NOSPC,
        DeviceError::ReadOnly => Errno::PERM,
        DeviceError::OutOfRange { .. } => Errno::INVAL,
        _ => Errno::IO,
    };
    errno.raw_os_error().unsigned_abs()
}

/// Executes requests, and fills `output` with their replies.
fn execute(
    side: &Side,
    log: Option<&mut Log>,
    piece: usize,
    (input, asked): (&[u8], &[Asked]),
    output: &mut Vec<u8>,
) {
    output.clear();
    output.resize(asked.iter().map(Asked::reply_bytes).sum(), 0);
    let mut rest = &mut output[..];
    let (mut batch, mut heads) = (Vec::new(), Vec::new());
    for request in asked {
        let (reply, after) = rest.split_at_mut(request.reply_bytes());
        let (head, room) = reply.split_at_mut(REPLY_BYTES);
        let operations = request.operations(input, room, piece, side.write_through);
        heads.push((head, operations.as_ref().map(Vec::len), request.cookie));
        let made = operations.into_iter().flatten();
        batch.extend(made.map(|operation| Request { operation, outcome: Ok(()) }));
        rest = after;
    }
    side.run(&mut batch, log);
    let mut outcomes = batch.into_iter().map(|request| request.outcome);
    for (head, operations, cookie) in heads {
        let error = match operations {
            None => Errno::INVAL.raw_os_error().unsigned_abs(),
            Some(count) => {
                let errors = outcomes.by_ref().take(count).filter_map(Result::err);
                errors.map(|error| code(&error)).fold(0, u32::max)
            }
        };
        head[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
        head[4..8].copy_from_slice(&error.to_be_bytes());
        head[8..].copy_from_slice(&cookie);
    }
}

/// The sockets of all queues of a device, and which of them have a batch that is being executed.
pub(super) struct Links {
    sockets: Mutex<Vec<Arc<UnixStream>>>,
    busy: Vec<AtomicBool>,
}

/// Returns which of the sockets the other side has closed.
fn closed(sockets: &[Arc<UnixStream>]) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> =
        sockets.iter().map(|socket| PollFd::new(&**socket, PollFlags::RDHUP)).collect();
    poll(&mut polled, Some(&Timespec::default()))?;
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    Ok(polled.iter().map(|one| one.revents().intersects(gone)).collect())
}

impl Links {
    pub(super) fn new(sockets: Vec<UnixStream>) -> Self {
        let busy = sockets.iter().map(|_| AtomicBool::new(false)).collect();
        Self { sockets: Mutex::new(sockets.into_iter().map(Arc::new).collect()), busy }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<UnixStream>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a batch, unless its socket is closed. Waits for the batches of closed sockets.
    fn begin(&self, number: usize) -> io::Result<bool> {
        self.busy[number].store(true, Ordering::SeqCst);
        let closed = closed(&self.lock().clone());
        if !matches!(&closed, Ok(closed) if !closed[number]) {
            self.end(number);
            return closed.map(|_| false);
        }
        // None of them waits for this one, whose socket was open after theirs were closed.
        for other in closed?.iter().zip(&self.busy).filter(|(is_closed, _)| **is_closed) {
            while other.1.load(Ordering::SeqCst) {
                gemelo_base::pause(LOOK_AGAIN_AFTER);
            }
        }
        Ok(true)
    }

    fn end(&self, number: usize) {
        self.busy[number].store(false, Ordering::SeqCst);
    }
}

/// A queue, as its thread has it.
pub(super) struct Link {
    pub(super) links: Arc<Links>,
    pub(super) family: Arc<Mutex<Family>>,
    pub(super) side: Arc<Side>,
    pub(super) info: DeviceInfo,
    pub(super) number: u16,
}

/// What was received and not executed yet.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    filled: usize,
}

impl Input {
    /// Receives what has come. Returns `false` at the end.
    fn receive(&mut self, mut socket: &UnixStream) -> bool {
        if self.bytes.len() - self.filled < ROOM_BYTES {
            self.bytes.resize((2 * self.filled).max(2 * ROOM_BYTES), 0);
        }
        match socket.read(&mut self.bytes[self.filled..]) {
            Ok(received) => {
                self.filled += received;
                received > 0
            }
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }

    /// Returns the requests that have come as a whole, and where they end.
    fn requests(&self) -> io::Result<(Vec<Asked>, usize)> {
        let (mut asked, mut end) = (Vec::new(), 0);
        while let Some(request) = parse(&self.bytes[..self.filled], end)? {
            end = request.data.end;
            asked.push(request);
        }
        Ok((asked, end))
    }

    fn drop_until(&mut self, end: usize) {
        self.bytes.copy_within(end..self.filled, 0);
        self.filled -= end;
    }
}

impl Link {
    /// Serves requests until the end.
    pub(super) fn serve(self) -> Ended {
        self.serve_until_end().unwrap_or_else(Ended::Failed)
    }

    fn serve_until_end(&self) -> io::Result<Ended> {
        let mut log = self.side.kept.log(self.number)?;
        loop {
            if let Some(ended) = self.serve_socket(log.as_mut())? {
                return Ok(ended);
            }
            if let Some(ended) = self.connect_again()? {
                return Ok(ended);
            }
        }
    }

    fn number(&self) -> usize {
        usize::from(self.number)
    }

    /// Waits until the queue shall end, or the socket, if there is one, is readable. Returns
    /// whether the queue shall end.
    fn wait(&self, socket: Option<&UnixStream>, longest: Option<&Timespec>) -> io::Result<bool> {
        let mut polled = vec![PollFd::new(&self.side.stop, PollFlags::IN)];
        polled.extend(socket.map(|socket| PollFd::new(socket, PollFlags::IN)));
        match poll(&mut polled, longest) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(polled.first().is_some_and(|stop| !stop.revents().is_empty()))
    }

    /// Serves requests until the socket is closed, or the queue ends.
    fn serve_socket(&self, mut log: Option<&mut Log>) -> io::Result<Option<Ended>> {
        let socket = self.links.lock().get(self.number()).map(Arc::clone).ok_or_else(strange)?;
        let (mut input, mut output) = (Input::default(), Vec::new());
        let piece = (self.info.max_request_bytes as usize).max(1);
        loop {
            if self.wait(Some(&socket), None)? {
                return Ok(Some(Ended::Stopped));
            }
            if !input.receive(&socket) {
                return Ok(None);
            }
            let (asked, end) = input.requests()?;
            if asked.iter().any(|request| request.command == DISCONNECT) {
                return Ok(Some(Ended::Removed));
            }
            if asked.is_empty() {
                continue;
            }
            if !self.links.begin(self.number())? {
                return Ok(None);
            }
            let run = AssertUnwindSafe(|| {
                let asked = (&input.bytes[..end], &asked[..]);
                execute(&self.side, log.as_deref_mut(), piece, asked, &mut output);
            });
            let executed = catch_unwind(run);
            self.links.end(self.number());
            if executed.is_err() {
                return Ok(Some(Ended::Panicked));
            }
            if !self.side.device.may_answer() {
                return Ok(Some(Ended::MayNotAnswer));
            }
            if (&*socket).write_all(&output).is_err() {
                return Ok(None);
            }
            input.drop_until(end);
        }
    }

    /// Gives the kernel another socket in the place of the closed one.
    fn connect_again(&self) -> io::Result<Option<Ended>> {
        loop {
            if self.wait(None, Some(&CONNECT_AGAIN_AFTER))? {
                return Ok(Some(Ended::Stopped));
            }
            if look(self.info.number).is_none_or(|info| info.owner_data != self.info.owner_data) {
                return Ok(Some(Ended::Removed));
            }
            let (ours, theirs) = UnixStream::pair()?;
            let ours = Arc::new(ours);
            if reconnect(&self.family, &self.info, &[theirs]).is_ok()
                && closed(&[Arc::clone(&ours)])? == [false]
            {
                if let Some(socket) = self.links.lock().get_mut(self.number()) {
                    *socket = ours;
                }
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
