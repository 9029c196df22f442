//! A target in memory. The test chooses its faults, its times and the order of completions.

use gemelo_base::random::Random;
use gemelo_base::{ManualClock, StopFlag};
use gemelo_target::{
    AtStart, Completion, IoFailure, Queue, QueueOptions, Target, TargetError, TargetOperation,
    TargetRequest, Wait,
};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A fault or another event at an operation of a process. Operations are counted from 0.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Fail,
    FailSync,
    Stop(StopFlag),
    Stall {
        ns: u64,
    },
    /// The write is acknowledged and lost.
    Lose,
    /// Only the first bytes are written.
    Tear {
        bytes: usize,
    },
    /// The write goes to another block.
    Misdirect {
        to_block: u64,
    },
    /// One byte of the data read is flipped.
    Flip {
        byte: usize,
    },
    /// The whole engine fails.
    Break,
}

/// State shared by a target and its queues.
pub(crate) struct Shared {
    pub(crate) places: Vec<Mutex<Vec<u8>>>,
    pub(crate) events: Vec<(u32, u64, Event)>,
    pub(crate) clock: Option<Arc<ManualClock>>,
    pub(crate) operation_ns: u64,
    /// Seed that permutes completions and the number that are returned at a time.
    pub(crate) scrambled: Option<u64>,
    pub(crate) syncs: AtomicU64,
    pub(crate) max_in_flight: AtomicU64,
    /// Requests without a completion when the engine failed, with the one that it refused.
    pub(crate) broken_with: AtomicU64,
}

#[derive(Clone)]
pub(crate) struct Memory(pub(crate) Arc<Shared>);

impl Shared {
    pub(crate) fn new(processes: u32, place_bytes: u64) -> Self {
        Self {
            places: (0..processes).map(|_| Mutex::new(vec![0; place_bytes as usize])).collect(),
            events: Vec::new(),
            clock: None,
            operation_ns: 0,
            scrambled: None,
            syncs: AtomicU64::new(0),
            max_in_flight: AtomicU64::new(0),
            broken_with: AtomicU64::new(0),
        }
    }

    pub(crate) fn with(self, process: u32, operation: u64, event: Event) -> Self {
        let mut events = self.events;
        events.push((process, operation, event));
        Self { events, ..self }
    }

    pub(crate) fn timed(self, clock: &Arc<ManualClock>, operation_ns: u64) -> Self {
        Self { clock: Some(Arc::clone(clock)), operation_ns, ..self }
    }

    pub(crate) fn target(self) -> Memory {
        Memory(Arc::new(self))
    }
}

impl Target for Memory {
    fn place(&self, process: u32) -> String {
        format!("memory {process}")
    }
    fn holds_data(&self) -> bool {
        true
    }
    fn at_start(&self) -> AtStart {
        AtStart::Zeros
    }
    fn open(&self, process: u32, options: &QueueOptions) -> Result<Box<dyn Queue>, TargetError> {
        Ok(Box::new(MemoryQueue {
            shared: Arc::clone(&self.0),
            process,
            buffers: vec![vec![0; options.buffer_bytes]; options.depth],
            operations: 0,
            in_flight: Vec::new(),
            is_broken: false,
            random: Random::new(self.0.scrambled.unwrap_or(0) + u64::from(process)),
        }))
    }
    fn finish(&mut self, _keep: bool) -> Result<(), TargetError> {
        Ok(())
    }
}

struct MemoryQueue {
    shared: Arc<Shared>,
    process: u32,
    buffers: Vec<Vec<u8>>,
    operations: u64,
    in_flight: Vec<(usize, TargetRequest, Option<Event>)>,
    /// The engine has failed, and is not asked again.
    is_broken: bool,
    random: Random,
}

impl MemoryQueue {
    fn failure(&self, request: TargetRequest) -> Box<IoFailure> {
        Box::new(IoFailure {
            operation: request.operation,
            place: format!("memory {}", self.process),
            offset: request.offset,
            bytes: request.bytes,
            source: io::Error::other("injected"),
        })
    }

    fn carry_out(
        &mut self,
        slot: usize,
        request: TargetRequest,
        event: Option<&Event>,
    ) -> Completion {
        if let Some(clock) = &self.shared.clock {
            let stall_ns = if let Some(Event::Stall { ns }) = event { *ns } else { 0 };
            clock.advance_ns(self.shared.operation_ns + stall_ns);
        }
        let failure = Completion { slot, outcome: Err(self.failure(request)) };
        if let Some(Event::Stop(stop)) = event {
            stop.raise();
        }
        let mut place = self.shared.places[self.process as usize].lock().unwrap();
        let start = request.offset as usize;
        let buffer = &mut self.buffers[slot];
        match (request.operation, event) {
            (TargetOperation::Sync, Some(Event::FailSync))
            | (TargetOperation::Read | TargetOperation::Write, Some(Event::Fail)) => {
                return failure;
            }
            (TargetOperation::Trim, _) => place[start..start + request.bytes].fill(0),
            (TargetOperation::Sync, _) => {
                self.shared.syncs.fetch_add(1, Ordering::Relaxed);
            }
            (TargetOperation::Read, _) => {
                buffer[..request.bytes].copy_from_slice(&place[start..start + request.bytes]);
                if let Some(Event::Flip { byte }) = event {
                    buffer[*byte] ^= 1;
                }
            }
            (TargetOperation::Write, Some(Event::Lose)) => {}
            (TargetOperation::Write, event) => {
                let (start, bytes) = match event {
                    Some(Event::Tear { bytes }) => (start, *bytes),
                    Some(Event::Misdirect { to_block }) => {
                        (*to_block as usize * request.bytes, request.bytes)
                    }
                    _ => (start, request.bytes),
                };
                place[start..start + bytes].copy_from_slice(&buffer[..bytes]);
            }
        }
        Completion { slot, outcome: Ok(()) }
    }
}

impl Queue for MemoryQueue {
    fn depth(&self) -> usize {
        self.buffers.len()
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        assert!(self.in_flight.iter().all(|(busy, ..)| *busy != slot), "the buffer is in flight");
        &mut self.buffers[slot]
    }

    fn submit(&mut self, slot: usize, request: TargetRequest) -> Result<(), Box<IoFailure>> {
        assert!(!self.is_broken, "a request for an engine that has failed");
        let overlaps = self.in_flight.iter().any(|(_, other, _)| {
            other.offset == request.offset
                && (other.operation, request.operation)
                    != (TargetOperation::Read, TargetOperation::Read)
                && other.operation != TargetOperation::Sync
                && request.operation != TargetOperation::Sync
        });
        assert!(!overlaps, "two operations on one block in flight");
        let at = |event: &&(u32, u64, Event)| (event.0, event.1) == (self.process, self.operations);
        let event = self.shared.events.iter().find(at).map(|event| event.2.clone());
        self.operations += 1;
        if matches!(event, Some(Event::Break)) {
            self.is_broken = true;
            self.shared.broken_with.store(self.in_flight.len() as u64 + 1, Ordering::Relaxed);
            return Err(self.failure(request));
        }
        self.in_flight.push((slot, request, event));
        self.shared.max_in_flight.fetch_max(self.in_flight.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn reap(&mut self, wait: Wait, done: &mut Vec<Completion>) -> Result<(), Box<IoFailure>> {
        assert!(!self.is_broken, "completions of an engine that has failed");
        let mut count = self.in_flight.len();
        if self.shared.scrambled.is_some() {
            let least = u64::from(wait == Wait::ForOne);
            count = (self.random.below(count as u64 + 1).max(least) as usize).min(count);
        }
        for _ in 0..count {
            let index = match self.shared.scrambled {
                Some(_) => self.random.below(self.in_flight.len() as u64) as usize,
                None => 0,
            };
            let (slot, request, event) = self.in_flight.remove(index);
            let completion = self.carry_out(slot, request, event.as_ref());
            done.push(completion);
        }
        Ok(())
    }
}
