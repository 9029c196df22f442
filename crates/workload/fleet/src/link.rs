//! The connection to one host: a process of the transport, and threads at its three streams. No
//! thread that decides anything waits for a stream.

use crate::lines;
use crate::message::{FromHost, ToHost};
use crate::round_trip::Now;
use crate::transport::Transport;
use crossbeam_channel::{Receiver, Sender, unbounded};
use gemelo_base::{SystemClock, pause};
use std::io::{BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// An event of the connection to a host.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message, and the readings of the clocks when it came.
    Said(FromHost, Now),
    /// A part of the program was sent.
    Sent,
    /// The stream has ended, with the reason if it was not its plain end.
    Ended(Option<String>),
}

/// Bytes of the program that are sent at once.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes of the standard error that are kept for messages.
const KEPT_BYTES: usize = 4 << 10;
/// Time that a process of the transport gets to end by itself once its input has ended.
const LEAVE: Duration = Duration::from_secs(2);
/// Time until all is read that a process said before it failed. A child that it has left may keep
/// its standard error open.
const LISTEN: Duration = Duration::from_millis(200);

/// The connection to one host. It is cut when it is dropped.
pub(crate) struct Link {
    child: Child,
    /// `None` once the input over there has ended.
    outbox: Option<Sender<String>>,
    complaints: Arc<Mutex<String>>,
    /// The thread that keeps them. It ends with the standard error of the transport.
    listener: Option<JoinHandle<()>>,
}

impl Link {
    /// Starts the transport to a host. Events come with the number of the host.
    pub(crate) fn start(
        transport: &Transport,
        (host, index): (&str, u32),
        events: &Sender<(usize, Event)>,
        clock: SystemClock,
    ) -> std::io::Result<Self> {
        let mut command = transport.command(host, index, FAR_COMMAND);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the coordinator alone: it still wants the results.
        command.process_group(0);
        let mut child = command.spawn()?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let complaints = Arc::new(Mutex::new(String::new()));
        let mut listener = None;
        let (outbox, lines) = unbounded();
        if let (Some(input), Some(output), Some(errors)) = streams {
            let number = index as usize;
            let kept = Arc::clone(&complaints);
            let (told, told_too) = (events.clone(), events.clone());
            let program = transport.copied().map(Path::to_owned);
            let started = Builder::new().spawn(move || keep_complaints(errors, &kept));
            let started = started.and_then(|thread| {
                listener = Some(thread);
                Builder::new().spawn(move || read_messages(output, number, &told, &clock))?;
                Builder::new().spawn(move || write_lines(input, number, program, &lines, &told_too))
            });
            if let Err(error) = started {
                // The transport ends with its input, and by force if it does not.
                drop(Self { child, outbox: None, complaints, listener });
                return Err(error);
            }
        }
        Ok(Self { child, outbox: Some(outbox), complaints, listener })
    }

    /// Sends a message, if the connection still is there. Returns at once.
    pub(crate) fn send(&self, message: &ToHost) {
        if let (Some(outbox), Ok(line)) = (&self.outbox, lines::to_line(message)) {
            let _ = outbox.send(line);
        }
    }

    /// Ends the input over there, by which the far side leaves.
    pub(crate) fn close(&mut self) {
        self.outbox = None;
    }

    /// Waits a little for the end of the transport, ends it by force otherwise, and returns what is
    /// known of it.
    pub(crate) fn end(&mut self) -> String {
        self.close();
        wait(LEAVE, || matches!(self.child.try_wait(), Ok(Some(_))));
        self.kill();
        let end = self.child.wait();
        if !end.as_ref().is_ok_and(ExitStatus::success) {
            wait(LISTEN, || self.listener.as_ref().is_none_or(JoinHandle::is_finished));
        }
        let status = end.map_or_else(|error| error.to_string(), |end| end.to_string());
        let said = self.complaints.lock().map(|kept| kept.trim().to_owned()).unwrap_or_default();
        let last = said.lines().next_back().unwrap_or_default().trim();
        if last.is_empty() { status } else { format!("{status}: {last}") }
    }

    /// Ends the transport and its children here by force.
    fn kill(&mut self) {
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        let group = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
    }
}

/// Waits until something is so, for this time at most.
fn wait(longest: Duration, mut is_so: impl FnMut() -> bool) {
    let step = Duration::from_millis(10);
    for _ in 0..longest.as_millis() / step.as_millis() {
        if is_so() {
            return;
        }
        pause(step);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// The hidden command that answers on its standard streams.
pub(crate) const FAR_COMMAND: &str = "host";

fn read_messages(
    output: ChildStdout,
    number: usize,
    events: &Sender<(usize, Event)>,
    clock: &SystemClock,
) {
    let mut stream = BufReader::with_capacity(PIECE_BYTES, output);
    let mut next = lines::read_greeting(&mut stream);
    loop {
        let event = match next {
            Ok(Some(message)) => Event::Said(message, Now::of(clock)),
            Ok(None) => Event::Ended(None),
            Err(error) => Event::Ended(Some(error.to_string())),
        };
        let is_last = matches!(event, Event::Ended(_));
        if events.send((number, event)).is_err() || is_last {
            return;
        }
        next = lines::read(&mut stream);
    }
}

fn write_lines(
    mut input: ChildStdin,
    number: usize,
    program: Option<std::path::PathBuf>,
    lines: &Receiver<String>,
    events: &Sender<(usize, Event)>,
) {
    // A stream that does not take what is written has ended, which the reader tells.
    if let Some(path) = program
        && send_program(&mut input, &path, &|| drop(events.send((number, Event::Sent)))).is_err()
    {
        return;
    }
    for line in lines {
        if input.write_all(line.as_bytes()).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

fn send_program(input: &mut ChildStdin, path: &Path, sent: &dyn Fn()) -> std::io::Result<()> {
    let mut file = std::fs::File::open(path)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            return input.flush();
        }
        input.write_all(piece.get(..length).unwrap_or_default())?;
        sent();
    }
}

/// Keeps the end of what the transport and the program over there say on their standard error.
fn keep_complaints(mut errors: impl Read, kept: &Mutex<String>) {
    let mut piece = [0; 1024];
    while let Ok(length @ 1..) = errors.read(&mut piece) {
        let Ok(mut kept) = kept.lock() else { return };
        kept.push_str(&String::from_utf8_lossy(piece.get(..length).unwrap_or_default()));
        let mut cut = kept.len().saturating_sub(KEPT_BYTES);
        while !kept.is_char_boundary(cut) {
            cut += 1;
        }
        kept.drain(..cut);
    }
}
