//! The far side: greets, answers pings, checks and runs one task. It stops when its input ends or
//! falls silent, and ends by force if the task does not stop then.

use crate::lines;
use crate::message::{Done, FromHost, PROTOCOL, Refusal, ToHost};
use crate::round_trip::Now;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use gemelo_base::{Clock, FailureKind, Monitor, StartLine, StopFlag, SystemClock, Unit, pause};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::Duration;

/// Time between two signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// Time between two looks at the stop flag while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of a file that are sent at once.
const PIECE_BYTES: usize = 1 << 20;
/// Time of silence after which the coordinator is given up, before the task has told another one.
const USUAL_TIMEOUT_NS: u64 = 60_000_000_000;
/// Time that a task gets to stop once the coordinator is gone. It removes its files meanwhile.
const GRACE_NS: u64 = 10_000_000_000;
/// Exit status of a far side that ends by force because its coordinator is gone.
const ABANDONED: i32 = 1;

/// A task's view of the run: when to begin and to start, and when to stop.
pub struct Session {
    shared: Arc<Shared>,
    orders: Receiver<ToHost>,
    stop: StopFlag,
    runs: AtomicU32,
}

/// The state that the threads of the far side share.
struct Shared {
    clock: SystemClock,
    out: Mutex<Box<dyn Write + Send>>,
    stop: StopFlag,
    /// Reading of the clock when the coordinator was heard last.
    heard_ns: AtomicU64,
    timeout_ns: AtomicU64,
    is_abandoned: AtomicBool,
}

/// Answers a coordinator on the standard streams. `work` gets the task and returns its end. Returns
/// whether the coordinator got that end.
///
/// A raised `stop` ends the task early. The process ends by force if the coordinator is gone and
/// the task does not stop.
pub fn serve(
    version: &str,
    host: String,
    stop: &StopFlag,
    work: impl FnOnce(Value, &Session) -> Result<Done, Refusal>,
) -> bool {
    let (out, input) = (Box::new(std::io::stdout()), std::io::stdin());
    let shared = Arc::new(Shared::new(out, stop.clone()));
    let hello = FromHost::Hello { gemelo: version.to_owned(), protocol: PROTOCOL, host };
    shared.say(&hello);
    let orders = match shared.start_threads(input) {
        Ok(orders) => orders,
        Err(error) => {
            let message = format!(
                "cannot start the threads of a host: {error}: {}",
                gemelo_base::threads::REFUSED
            );
            shared.say(&FromHost::Failed(Refusal { message, kind: FailureKind::of_io(&error) }));
            return false;
        }
    };
    let session = Session { shared, orders, stop: stop.clone(), runs: AtomicU32::new(0) };
    let Some(task) = session.task() else { return false };
    let said = match work(task, &session) {
        Ok(done) => FromHost::Done(done),
        Err(refusal) => FromHost::Failed(refusal),
    };
    session.shared.say(&said);
    // The coordinator closes the input when it has the result.
    while !session.shared.is_abandoned() {
        pause(POLL_INTERVAL);
    }
    true
}

impl Shared {
    fn new(out: Box<dyn Write + Send>, stop: StopFlag) -> Self {
        let clock = SystemClock::new();
        Self {
            clock,
            out: Mutex::new(out),
            stop,
            heard_ns: AtomicU64::new(clock.now_ns()),
            timeout_ns: AtomicU64::new(USUAL_TIMEOUT_NS),
            is_abandoned: AtomicBool::new(false),
        }
    }

    fn say(&self, message: &FromHost) {
        let said = lines::to_line(message).and_then(|line| {
            let mut out = self.out.lock().map_err(|_| std::io::ErrorKind::Other)?;
            out.write_all(line.as_bytes()).and_then(|()| out.flush())
        });
        if said.is_err() {
            self.abandon();
        }
    }

    /// The coordinator is gone: the task stops.
    fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
        self.stop.raise();
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }

    /// Starts the threads of the far side. If one cannot be started, the process is to end, and
    /// with it those that could.
    fn start_threads(
        self: &Arc<Self>,
        input: impl Read + Send + 'static,
    ) -> std::io::Result<Receiver<ToHost>> {
        let (orders, received) = unbounded();
        let shared = Arc::clone(self);
        Builder::new().spawn(move || shared.listen(BufReader::new(input), &orders))?;
        let shared = Arc::clone(self);
        Builder::new().spawn(move || {
            while !shared.is_abandoned() {
                shared.say(&FromHost::Beat);
                pause(BEAT);
            }
        })?;
        let shared = Arc::clone(self);
        Builder::new().spawn(move || shared.watch())?;
        Ok(received)
    }

    /// Reads the messages of the coordinator. Pings are answered here, so that round trips do not
    /// wait for the task.
    fn listen(&self, mut input: impl BufRead, orders: &Sender<ToHost>) {
        while let Ok(Some(message)) = lines::read::<ToHost>(&mut input) {
            self.heard_ns.store(self.clock.now_ns(), Ordering::Relaxed);
            match message {
                ToHost::Ping { number } => {
                    let Now { clock_ns, date_ns } = Now::of(&self.clock);
                    self.say(&FromHost::Pong { number, clock_ns, date_ns });
                }
                ToHost::Beat => {}
                ToHost::Stop => self.stop.raise(),
                order => drop(orders.send(order)),
            }
        }
        self.abandon();
    }

    /// Gives up a coordinator that is silent, and ends the process if the task does not stop. This
    /// thread writes nothing, so that a full pipe does not hold it.
    fn watch(&self) {
        let mut abandoned_ns = None;
        loop {
            pause(POLL_INTERVAL);
            let now_ns = self.clock.now_ns();
            let silent_ns = now_ns.saturating_sub(self.heard_ns.load(Ordering::Relaxed));
            if silent_ns > self.timeout_ns.load(Ordering::Relaxed) {
                self.abandon();
            }
            if self.is_abandoned() {
                let since_ns = *abandoned_ns.get_or_insert(now_ns);
                if now_ns.saturating_sub(since_ns) > GRACE_NS {
                    std::process::exit(ABANDONED);
                }
            }
        }
    }
}

impl Session {
    /// Waits for an order; `None` if the run is to stop.
    fn next_order(&self) -> Option<ToHost> {
        loop {
            match self.orders.recv_timeout(POLL_INTERVAL) {
                Ok(order) => return Some(order),
                Err(RecvTimeoutError::Timeout) if !self.stop.is_raised() => {}
                Err(_) => return None,
            }
        }
    }

    fn task(&self) -> Option<Value> {
        let Some(ToHost::Task { task, timeout_ns }) = self.next_order() else { return None };
        self.shared.timeout_ns.store(timeout_ns, Ordering::Relaxed);
        Some(task)
    }

    /// Tells the coordinator that the task was checked, and waits until all hosts have done so.
    ///
    /// # Errors
    /// Fails if the run does not begin. The task must not change anything then.
    pub fn checked(&self, plan: Value) -> Result<(), Refusal> {
        self.shared.say(&FromHost::Checked { plan });
        match self.next_order() {
            Some(ToHost::Go) => Ok(()),
            _ => Err(Refusal {
                message: "stopped before the run began".to_owned(),
                kind: FailureKind::Failed,
            }),
        }
    }

    /// Sends a file to the coordinator.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if the coordinator is gone.
    pub fn send(&self, mut file: impl Read) -> std::io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let length = file.read(&mut piece)?;
            if length == 0 {
                return Ok(());
            }
            let data = BASE64_STANDARD.encode(piece.get(..length).unwrap_or_default());
            self.shared.say(&FromHost::Piece { data });
            if self.shared.is_abandoned() {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
        }
    }

    /// Returns a monitor that sends warnings to the coordinator.
    #[must_use]
    pub fn monitor(&self) -> FarMonitor {
        FarMonitor(Arc::clone(&self.shared))
    }
}

impl StartLine for Session {
    fn wait(&self) {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        self.shared.say(&FromHost::Ready { run });
        if let Some(ToHost::Start { run: started, at_ns }) = self.next_order()
            && started == run
        {
            let clock = &self.shared.clock;
            clock.sleep_until_ns(at_ns);
            let late_ns = clock.now_ns().saturating_sub(at_ns);
            self.shared.say(&FromHost::Started { run, late_ns });
        } else {
            self.stop.raise();
        }
    }
}

/// The monitor of a task on the far side. Progress stays there.
pub struct FarMonitor(Arc<Shared>);

impl Monitor for FarMonitor {
    fn begin(&self, _phase: &str, _unit: Unit, _total: Option<u64>) {}
    fn set_total(&self, _total: u64) {}
    fn advance(&self, _amount: u64) {}
    fn warn(&self, message: &str) {
        self.0.say(&FromHost::Note { text: message.to_owned() });
    }
    fn log(&self, _message: &str) {}
    fn finish(&self) {}
}
