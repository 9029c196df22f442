//! The measurements of one process. Recording takes a few nanoseconds and allocates nothing. At the
//! end of each stretch its figures are added to the totals and the intervals.

use super::{Latencies, LatencyHistogram, Phase, Timeline, timeline::Stretch};
use crate::operations::Kind;
use gemelo_base::series::{MAX_PARTS, TimePart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Latencies of the reads or of the writes.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    /// Time from the moment at which the operation was due.
    pub(crate) latency: Latencies,
    /// Time from the actual start of the operation; `None` in a closed loop, where both are the
    /// same.
    pub(crate) service: Option<Latencies>,
}

impl Side {
    fn new(has_service: bool) -> Self {
        Self { latency: Latencies::new(), service: has_service.then(Latencies::new) }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        if let (Some(own), Some(others)) = (&mut self.service, &other.service) {
            own.add(others);
        }
    }

    fn clear(&mut self) {
        self.latency.clear();
        if let Some(service) = &mut self.service {
            service.clear();
        }
    }
}

/// The figures of one stretch, or of all measured stretches together.
#[derive(Debug, Clone)]
pub(crate) struct Accumulator {
    pub(crate) reads: Side,
    pub(crate) writes: Side,
    pub(crate) syncs: Latencies,
    pub(crate) generating_ns: u64,
    pub(crate) checking_ns: u64,
    pub(crate) late: u64,
}

impl Accumulator {
    pub(crate) fn new(has_service: bool) -> Self {
        Self {
            reads: Side::new(has_service),
            writes: Side::new(has_service),
            syncs: Latencies::new(),
            generating_ns: 0,
            checking_ns: 0,
            late: 0,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.syncs.add(&other.syncs);
        self.generating_ns += other.generating_ns;
        self.checking_ns += other.checking_ns;
        self.late += other.late;
    }

    fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.syncs.clear();
        (self.generating_ns, self.checking_ns, self.late) = (0, 0, 0);
    }

    pub(crate) fn operations(&self) -> u64 {
        self.reads.latency.count() + self.writes.latency.count()
    }
}

/// The part of one process, or of one host, of an interval.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct IntervalPart {
    /// Start of the interval, since the run began.
    pub start_ns: u64,
    /// Latencies of the reads, to one part in a hundred.
    pub reads: LatencyHistogram,
    /// Latencies of the writes, to one part in a hundred.
    pub writes: LatencyHistogram,
}

impl TimePart for IntervalPart {
    fn position(&self) -> u64 {
        self.start_ns
    }

    fn add(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
    }
}

/// Records the measurements of one process.
#[derive(Debug)]
pub(crate) struct Recorder {
    timeline: Timeline,
    stretch: Stretch,
    keeps_intervals: bool,
    current: Accumulator,
    measured: Accumulator,
    intervals: Vec<IntervalPart>,
}

impl Recorder {
    pub(crate) fn new(timeline: Timeline, has_service: bool, keeps_intervals: bool) -> Self {
        Self {
            timeline,
            stretch: timeline.at(0),
            keeps_intervals,
            current: Accumulator::new(has_service),
            measured: Accumulator::new(has_service),
            intervals: Vec::new(),
        }
    }

    /// Sets the current time. Call it before recording anything that ended at this time.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64) {
        if now_ns >= self.stretch.end_ns {
            self.put_away();
            self.stretch = self.timeline.at(now_ns);
        }
    }

    #[cold]
    fn put_away(&mut self) {
        if self.stretch.phase == Phase::Measured {
            self.measured.add(&self.current);
        }
        if self.keeps_intervals && self.intervals.len() < MAX_PARTS && self.current.operations() > 0
        {
            self.intervals.push(IntervalPart {
                start_ns: self.stretch.start_ns,
                reads: self.current.reads.latency.to_histogram().coarser(),
                writes: self.current.writes.latency.to_histogram().coarser(),
            });
        }
        self.current.clear();
    }

    /// Records an operation that ended now. `late` is `true` if it started more than `LATE_NS`
    /// after its due time.
    #[inline]
    pub(crate) fn record(&mut self, kind: Kind, latency_ns: u64, service_ns: u64, late: bool) {
        let side = match kind {
            Kind::Read => &mut self.current.reads,
            Kind::Write => &mut self.current.writes,
        };
        side.latency.record(latency_ns);
        if let Some(service) = &mut side.service {
            service.record(service_ns);
        }
        self.current.late += u64::from(late);
    }

    #[inline]
    pub(crate) fn record_sync(&mut self, sync_ns: u64) {
        self.current.syncs.record(sync_ns);
    }

    #[inline]
    pub(crate) fn add_generating(&mut self, generating_ns: u64) {
        self.current.generating_ns += generating_ns;
    }

    #[inline]
    pub(crate) fn add_checking(&mut self, checking_ns: u64) {
        self.current.checking_ns += checking_ns;
    }

    /// Returns the figures of the measured part, and those of all intervals.
    pub(crate) fn finish(mut self) -> (Accumulator, Vec<IntervalPart>) {
        self.put_away();
        (self.measured, self.intervals)
    }
}
