//! One host of a run, as the coordinator sees it: what it has said, and what follows from that.

use crate::link::Link;
use crate::message::{Done, FromHost, PROTOCOL, Refusal, ToHost};
use crate::round_trip::{ClockOffset, Now, ROUND_TRIPS, RoundTrip};
use gemelo_base::units::format_line;
use gemelo_base::{Clock, SystemClock};
use serde_json::Value;

/// The end of a host's part.
#[derive(Debug, Clone, PartialEq)]
pub enum HostEnd {
    /// It has a result.
    Done(Done),
    /// It failed without a result.
    Failed(Refusal),
    /// It was lost: the reason, as text.
    Lost(String),
}

/// One host of a run.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) link: Link,
    /// Reading of the clock when it was heard last.
    pub(crate) heard_ns: u64,
    pub(crate) greeted: bool,
    pub(crate) clock: Option<ClockOffset>,
    pings: Option<(u32, u64)>,
    pub(crate) is_timed: bool,
    pub(crate) plan: Option<Value>,
    /// Runs for whose start it is ready.
    pub(crate) ready: u32,
    /// The time after the set moment at which each run started.
    pub(crate) delays_ns: Vec<u64>,
    pub(crate) end: Option<HostEnd>,
}

/// The coordinator, as far as a member needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Here<'a> {
    /// Version of the program.
    pub(crate) version: &'a str,
    pub(crate) clock: SystemClock,
}

impl Member {
    pub(crate) fn new(name: String, link: Link, heard_ns: u64) -> Self {
        Self {
            name,
            link,
            heard_ns,
            greeted: false,
            clock: None,
            pings: None,
            is_timed: false,
            plan: None,
            ready: 0,
            delays_ns: Vec::new(),
            end: None,
        }
    }

    pub(crate) const fn is_live(&self) -> bool {
        self.end.is_none()
    }

    /// Takes notice of a message. Returns a remark for the user.
    ///
    /// # Errors
    /// Fails if the message makes no sense here: the reason for which the host is given up.
    pub(crate) fn hear(
        &mut self,
        message: FromHost,
        now: Now,
        here: &Here<'_>,
    ) -> Result<Option<String>, String> {
        self.heard_ns = self.heard_ns.max(now.clock_ns);
        match message {
            FromHost::Hello { gemelo, protocol, .. } => self.greet(&gemelo, protocol, here)?,
            _ if !self.greeted => return Err("it did not greet first".to_owned()),
            FromHost::Pong { number, clock_ns, date_ns } => {
                let Some((asked, sent_ns)) = self.pings.take().filter(|(n, _)| *n == number) else {
                    return Err("it answered a ping that was not sent".to_owned());
                };
                let trip = RoundTrip { sent_ns, received: now, far: Now { clock_ns, date_ns } };
                self.clock = Some(trip.offset().or_quicker(self.clock));
                self.is_timed = asked + 1 == ROUND_TRIPS;
                if !self.is_timed {
                    self.ping(asked + 1, here);
                }
            }
            FromHost::Checked { plan } => self.plan = Some(plan),
            FromHost::Ready { run } if run == self.ready => self.ready = run + 1,
            FromHost::Ready { .. } => return Err("it is ready for another run".to_owned()),
            FromHost::Started { late_ns, .. } => self.delays_ns.push(late_ns),
            // The coordinator takes pieces before they come here.
            FromHost::Beat | FromHost::Piece { .. } => {}
            FromHost::Note { text } => {
                return Ok(Some(format!("host {}: {}", self.name, format_line(&text))));
            }
            FromHost::Done(done) => self.end = Some(HostEnd::Done(done)),
            FromHost::Failed(refusal) => self.end = Some(HostEnd::Failed(refusal)),
        }
        Ok(None)
    }

    fn greet(&mut self, gemelo: &str, protocol: u32, here: &Here<'_>) -> Result<(), String> {
        let version = here.version;
        if (gemelo, protocol) != (version, PROTOCOL) {
            return Err(format!(
                "it has gemelo {} (protocol {protocol}), and this is {version} (protocol \
                 {PROTOCOL}): install the same version there, or bring this one along with --copy",
                format_line(gemelo)
            ));
        }
        self.greeted = true;
        self.ping(0, here);
        Ok(())
    }

    fn ping(&mut self, number: u32, here: &Here<'_>) {
        self.pings = Some((number, here.clock.now_ns()));
        self.link.send(&ToHost::Ping { number });
    }

    /// Gives the host up.
    pub(crate) fn lose(&mut self, reason: String) {
        if self.is_live() {
            self.end = Some(HostEnd::Lost(reason));
        }
    }
}
