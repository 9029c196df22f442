//! The coordinator of a run: connects to all hosts, has all of them check their tasks, starts every
//! run at one moment, and collects the results. One thread decides; others wait at the streams.

use crate::error::FleetError;
use crate::hosts::Hosts;
use crate::link::{Event, Link};
use crate::member::{Here, HostEnd, Member};
use crate::message::{Done, FromHost, ToHost};
use crate::round_trip::ClockOffset;
use crate::transport::Transport;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crossbeam_channel::{Receiver, Sender, bounded};
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock, Unit};
use serde_json::Value;
use std::time::Duration;

/// Time between two looks at the deadlines.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two signs of life.
const BEAT_NS: u64 = 1_000_000_000;
/// Shortest time from the message that sets the start of a run to the start. Longer round trips
/// make it longer.
const LEAD_NS: u64 = 100_000_000;
/// Events that wait for the coordinator. A host whose events do not fit waits, so that pieces of
/// files fill no memory.
const MAX_EVENTS: usize = 256;
/// The lead in round trips.
const LEAD_ROUND_TRIPS: u64 = 4;

/// A function that compares what hosts make of their tasks.
pub type Agree<'a> = &'a dyn Fn(&[&Value]) -> Result<(), String>;

/// A function that takes a part of the file of the host with this number.
pub type Receive<'a> = &'a dyn Fn(usize, &[u8]) -> Result<(), String>;

/// A run on many hosts.
pub struct Orders<'a> {
    /// The hosts of the run, in the order of their numbers.
    pub hosts: &'a Hosts,
    /// The way to them.
    pub transport: &'a Transport,
    /// The version of the program, which must be the same everywhere.
    pub version: &'a str,
    /// Longest silence of a host, and the longest wait for its end.
    pub timeout: Duration,
    /// The task of each host.
    pub tasks: &'a [Value],
    /// Looks at what the hosts make of their tasks, before any of them changes anything. The error
    /// is the reason why they do not fit together.
    pub agree: Agree<'a>,
    /// Takes the parts of the file that a host sends, by the number of the host. The error is the
    /// reason why they cannot be kept.
    pub receive: Receive<'a>,
    /// `true` if the other hosts go on when one is lost, because their tasks do not depend on it.
    pub goes_on: bool,
    /// Receives warnings and progress.
    pub monitor: &'a dyn Monitor,
    /// Ends the run early; the results so far are collected.
    pub stop: &'a StopFlag,
}

/// The part of one host after the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Name of the host.
    pub host: String,
    /// The offset of its clocks.
    pub clock: Option<ClockOffset>,
    /// The time after the set moment at which each run started there.
    pub delays_ns: Vec<u64>,
    /// The end of its part.
    pub end: HostEnd,
}

/// Runs the tasks on all hosts, and returns the part of each one, in the order of the list. If a
/// host is lost or does not complete its task, the others are stopped, and keep what they have.
///
/// # Errors
/// Fails if the run cannot begin on all hosts. None of them has changed anything then.
pub fn run(orders: &Orders<'_>) -> Result<Vec<Finished>, FleetError> {
    let mut conductor = Conductor::new(orders)?;
    conductor.phase("connecting", |member| member.is_timed)?;
    for (member, task) in conductor.members.iter().zip(orders.tasks) {
        let timeout_ns = u64::try_from(orders.timeout.as_nanos()).unwrap_or(u64::MAX);
        member.link.send(&ToHost::Task { task: task.clone(), timeout_ns });
    }
    conductor.phase("checking", |member| member.plan.is_some())?;
    let plans: Vec<&Value> = conductor.members.iter().filter_map(|one| one.plan.as_ref()).collect();
    (orders.agree)(&plans).map_err(FleetError::Disagreed)?;
    conductor.broadcast(&ToHost::Go);
    conductor.conduct();
    Ok(conductor.finish())
}

struct Conductor<'a> {
    orders: &'a Orders<'a>,
    clock: SystemClock,
    members: Vec<Member>,
    events: Receiver<(usize, Event)>,
    /// Held, so that the channel never closes while hosts are reached.
    _told: Sender<(usize, Event)>,
    beaten_ns: u64,
    /// Reading of the clock when the hosts were told to stop.
    stopped_ns: Option<u64>,
    started: u32,
}

impl<'a> Conductor<'a> {
    fn new(orders: &'a Orders<'a>) -> Result<Self, FleetError> {
        let clock = SystemClock::new();
        let (told, events) = bounded(MAX_EVENTS);
        let mut members = Vec::new();
        for (index, name) in (0u32..).zip(orders.hosts.names()) {
            let link = Link::start(orders.transport, (name, index), &told, clock);
            let link = link.map_err(|source| FleetError::Start {
                command: orders.transport.name().to_owned(),
                source,
            })?;
            members.push(Member::new(name.clone(), link, clock.now_ns()));
        }
        let (beaten_ns, stopped_ns) = (0, None);
        Ok(Self { orders, clock, members, events, _told: told, beaten_ns, stopped_ns, started: 0 })
    }

    /// Waits until all hosts have reached a point before the run.
    fn phase(&mut self, name: &str, is_reached: fn(&Member) -> bool) -> Result<(), FleetError> {
        let monitor = self.orders.monitor;
        monitor.begin(name, Unit::Items, Some(self.members.len() as u64));
        let mut reached = 0;
        loop {
            if let Some(member) = self.members.iter_mut().find(|member| !member.is_live()) {
                return Err(fallen(member));
            }
            if self.orders.stop.is_raised() {
                return Err(FleetError::Stopped);
            }
            let now_reached = self.members.iter().filter(|member| is_reached(member)).count();
            monitor.advance((now_reached - reached) as u64);
            reached = now_reached;
            if reached == self.members.len() {
                monitor.finish();
                return Ok(());
            }
            self.step();
        }
    }

    /// Starts the runs, until all hosts have ended.
    fn conduct(&mut self) {
        while self.members.iter().any(Member::is_live) {
            let is_over = self.members.iter().any(|member| match &member.end {
                None => false,
                Some(HostEnd::Done(done)) => !done.is_complete,
                Some(HostEnd::Failed(_) | HostEnd::Lost(_)) => true,
            });
            if (is_over && !self.orders.goes_on) || self.orders.stop.is_raised() {
                self.stop_all();
            } else if self.members.iter().all(|member| member.ready > self.started) {
                self.start_all();
            } else if self.is_uneven() {
                self.stop_all();
            }
            self.step();
        }
        self.orders.monitor.finish();
    }

    /// Returns whether some hosts have ended while others wait for a start that will not come.
    fn is_uneven(&self) -> bool {
        let is_waiting = |member: &Member| member.is_live() && member.ready > self.started;
        self.members.iter().any(is_waiting) && !self.members.iter().all(Member::is_live)
    }

    fn start_all(&mut self) {
        let trips = self.members.iter().filter_map(|member| member.clock);
        let longest_ns = trips.map(|clock| clock.round_trip_ns).max().unwrap_or(0);
        let lead_ns = LEAD_NS.max(longest_ns.saturating_mul(LEAD_ROUND_TRIPS));
        let at_ns = self.clock.now_ns().saturating_add(lead_ns);
        for member in &self.members {
            if let Some(clock) = member.clock {
                let at_ns = clock.there(at_ns);
                member.link.send(&ToHost::Start { run: self.started, at_ns });
            }
        }
        self.started += 1;
        self.orders.monitor.begin("running on all hosts", Unit::Items, None);
    }

    fn stop_all(&mut self) {
        if self.stopped_ns.is_none() {
            self.stopped_ns = Some(self.clock.now_ns());
            self.broadcast(&ToHost::Stop);
        }
    }

    fn broadcast(&self, message: &ToHost) {
        for member in self.members.iter().filter(|member| member.is_live()) {
            member.link.send(message);
        }
    }

    /// Takes notice of what comes until the next look at the deadlines.
    fn step(&mut self) {
        if let Ok((number, event)) = self.events.recv_timeout(POLL_INTERVAL) {
            self.take(number, event);
            while let Ok((number, event)) = self.events.try_recv() {
                self.take(number, event);
            }
        }
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_sub(self.beaten_ns) >= BEAT_NS {
            self.beaten_ns = now_ns;
            self.broadcast(&ToHost::Beat);
        }
        self.look_at_deadlines(now_ns);
    }

    fn look_at_deadlines(&mut self, now_ns: u64) {
        let timeout_ns = u64::try_from(self.orders.timeout.as_nanos()).unwrap_or(u64::MAX);
        let is_past = |since_ns: u64| now_ns.saturating_sub(since_ns) > timeout_ns;
        let has_waited = self.stopped_ns.is_some_and(is_past);
        let seconds = self.orders.timeout.as_secs_f64();
        for member in self.members.iter_mut().filter(|member| member.is_live()) {
            if is_past(member.heard_ns) {
                member.lose(format!("it has said nothing for {seconds} s"));
            } else if has_waited {
                member.lose(format!("it did not stop within {seconds} s"));
            }
        }
    }

    fn take(&mut self, number: usize, event: Event) {
        let here = Here { version: self.orders.version, clock: self.clock };
        let Some(member) = self.members.get_mut(number) else { return };
        match event {
            Event::Sent => member.heard_ns = self.clock.now_ns(),
            Event::Ended(reason) if member.is_live() => {
                let end = member.link.end();
                member.lose(match reason {
                    Some(reason) => format!("{reason} ({end})"),
                    None => format!("its connection ended ({end})"),
                });
            }
            Event::Ended(_) => {}
            Event::Said(message, now) => {
                if !member.is_live() {
                    return;
                }
                if let FromHost::Piece { data } = &message {
                    let kept = keep(self.orders, number, data);
                    kept.unwrap_or_else(|reason| member.lose(reason));
                }
                match member.hear(message, now, &here) {
                    Ok(None) => {}
                    Ok(Some(remark)) => self.orders.monitor.warn(&remark),
                    Err(reason) => member.lose(reason),
                }
            }
        }
    }

    /// Closes all connections and returns the parts.
    fn finish(mut self) -> Vec<Finished> {
        // All inputs end first, so that the far sides leave at the same time.
        self.members.iter_mut().for_each(|member| member.link.close());
        let ended = self.members.into_iter().map(|mut member| {
            if matches!(member.end, Some(HostEnd::Done(Done { .. }) | HostEnd::Failed(_))) {
                member.link.end();
            }
            let gone = || HostEnd::Lost("it has no result".to_owned());
            Finished {
                host: member.name,
                clock: member.clock,
                delays_ns: member.delays_ns,
                end: member.end.unwrap_or_else(gone),
            }
        });
        ended.collect()
    }
}

/// Hands over a part of a file.
fn keep(orders: &Orders<'_>, number: usize, data: &str) -> Result<(), String> {
    let bytes =
        BASE64_STANDARD.decode(data).map_err(|error| format!("it sent garbage: {error}"))?;
    (orders.receive)(number, &bytes)
}

/// The error of a host that ended before the run.
fn fallen(member: &mut Member) -> FleetError {
    let host = member.name.clone();
    match member.end.take() {
        Some(HostEnd::Failed(refusal)) => FleetError::Refused { host, refusal },
        Some(HostEnd::Lost(reason)) => FleetError::Lost { host, reason },
        Some(HostEnd::Done(_)) | None => {
            FleetError::Lost { host, reason: "it ended before the run".to_owned() }
        }
    }
}
