//! Plays a run of the engine from a seed and records it.

use crate::decode::{BLOCK, Decoder, NAMES, bytes_of, content_of};
use crate::disk::Machine;
use crate::schedule::Scheduler;
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_device::{BlockDevice, Durability, Operation, Request as DeviceRequest};
use gemelo_format::{DedupMode, Policy, read_superblock};
use gemelo_model::{Action, Answer, Cell, Content, Event, Mode, Request};
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::thread;

/// Blocks of the model; the engine has a label and its copy besides.
pub const BLOCKS: u64 = 7;
/// Clients, the finder with the checkpoints, and the commands.
const THREADS: usize = 4;
const FINDER: usize = 2;
const COMMANDS: usize = 3;
/// Requests of each client between two openings.
const REQUESTS: u64 = 6;
/// Stops after which the power is cut at the latest, if it is cut.
const MAX_STOPS: u64 = 220;
/// Openings of a run.
const LIVES: u64 = 3;

/// The deduplication of the volumes at the beginning.
pub const MODES: [Mode; 2] = [Mode::Inline, Mode::Offline];

fn tuning(seed: u64) -> Tuning {
    Tuning {
        background: false,
        verify_bytes: compares(seed),
        write_buffer_bytes: BLOCK as u64,
        content_cache_bytes: Some(4 * BLOCK as u64),
        // The commits of the model carry no contents.
        max_journal_data_bytes: Some(0),
        ..Tuning::default()
    }
}

fn format(machine: &Machine, seed: u64) {
    let options = PoolOptions {
        block_bytes: BLOCK as u32,
        capacity_bytes: (BLOCKS + 2) * BLOCK as u64,
        policy: Policy::ALL[seed as usize / 2 % Policy::ALL.len()],
        // No commit is without room.
        journal_bytes: Some(1 << 20),
        ..PoolOptions::default()
    };
    Pool::format(&machine.disks(), &options).unwrap();
    let pool = machine.open(tuning(seed));
    for (name, mode) in NAMES.into_iter().zip([DedupMode::Inline, DedupMode::Offline]) {
        pool.create_volume(name, 2 * BLOCK as u64, mode).unwrap();
    }
    pool.close().unwrap();
    let disks = machine.disks();
    let superblock = read_superblock(&*disks.metadata, &mut Vec::new()).unwrap();
    assert_eq!(superblock.reserved_blocks(), 2, "the model has all other blocks");
    machine.record(Decoder::new(superblock));
}

/// A run of the engine.
pub struct Run {
    /// The part of it that was seen.
    pub events: Vec<Event>,
    /// Blocks that a write or the finder had looked up, and that others changed meanwhile.
    pub overtaken: u64,
}

/// Returns whether a run compares bytes before it shares a block: every other one does. There is
/// then a call to the disk between the look-up and the change.
pub const fn compares(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Plays a run from a seed.
pub fn play(seed: u64) -> Run {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(Scheduler::new(THREADS));
    format(&machine, seed);
    let mut overtaken = 0;
    let lives = 1 + random.below(LIVES);
    for life in 1..=lives {
        let pool = machine.open(tuning(seed));
        if life > 1 {
            machine.note(Event::Shown(shown(&pool)));
        }
        let is_last = life == lives;
        let max_stops = if is_last { u64::MAX } else { random.below(MAX_STOPS) };
        let seeds: Vec<u64> = (0..THREADS).map(|_| random.next_u64()).collect();
        thread::scope(|scope| {
            for (number, seed) in seeds.into_iter().enumerate() {
                let (pool, machine) = (&pool, &machine);
                scope.spawn(move || {
                    machine.scheduler().work(number, || live(pool, machine, number, seed));
                });
            }
            machine.scheduler().run(&mut random, max_stops, || machine.cut_power());
        });
        overtaken += overtaken_in(&pool);
        if is_last {
            ask(&pool, &machine, COMMANDS, Request::Flush);
            machine.note(Event::Shown(shown(&pool)));
            assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "seed {seed}");
            break;
        }
        machine.cut_power();
        drop(pool);
        let (next, decoder) = machine.after_cut(Scheduler::new(THREADS), &mut random);
        machine = next;
        // An opening makes no changes that the model does not have.
        machine.record(decoder);
    }
    Run { events: machine.events(), overtaken }
}

fn overtaken_in(pool: &Pool) -> u64 {
    let volumes = NAMES.into_iter().filter_map(|name| pool.volume(name).ok());
    let by_writes: u64 = volumes.map(|volume| volume.stat().patch_retries).sum();
    by_writes + pool.stat().unwrap().activity.aborted_blocks
}

/// The work of a thread between two openings.
fn live(pool: &Pool, machine: &Machine, number: usize, seed: u64) {
    let mut random = Random::new(seed);
    let requests = match number {
        FINDER => 3,
        COMMANDS => 2,
        _ => REQUESTS,
    };
    for _ in 0..requests {
        machine.scheduler().stop();
        let cell = Cell(random.below(4) as u8);
        // Most writes are of one content.
        let content = Content([1, 1, 2, 3][random.below(4) as usize]);
        let request = match (number, random.below(20)) {
            (FINDER, 0..=14) => Request::Find,
            (FINDER, chance) => Request::Checkpoint { collects: chance == 19 },
            (COMMANDS, chance) => command(pool, chance),
            (0 | 1, 0..=11) => Request::Write(cell, content),
            (0 | 1, 12..=13) => Request::Trim(cell),
            (0 | 1, 14..=16) => Request::Read(cell),
            _ => Request::Flush,
        };
        ask(pool, machine, number, request);
    }
}

/// A change of a volume that is possible now. No other thread changes volumes.
fn command(pool: &Pool, chance: u64) -> Request {
    let modes: Vec<Option<DedupMode>> = NAMES
        .iter()
        .map(|name| pool.volumes().into_iter().find(|volume| volume.record.name == *name))
        .map(|volume| volume.map(|volume| volume.record.mode))
        .collect();
    let other = |mode| if mode == DedupMode::Offline { Mode::Inline } else { Mode::Offline };
    match (modes.as_slice(), chance) {
        ([Some(_), None], 0..=9) => Request::Volume(Action::Clone(0, 1)),
        ([None, Some(_)], 0..=9) => Request::Volume(Action::Clone(1, 0)),
        ([Some(_), Some(_)], 0..=3) => Request::Volume(Action::Remove((chance % 2) as u8)),
        ([Some(mode), _], 4..=6) => Request::Volume(Action::SetMode(0, other(*mode))),
        ([_, Some(mode)], 7..=9) => Request::Volume(Action::SetMode(1, other(*mode))),
        _ => Request::Flush,
    }
}

/// Asks for a request and records it with its answer.
fn ask(pool: &Pool, machine: &Machine, number: usize, request: Request) {
    machine.note(Event::Asked(number, request));
    let answer = perform(pool, request).unwrap_or(Answer::Refused);
    machine.note(Event::Answered(number, answer));
}

fn perform(pool: &Pool, request: Request) -> Option<Answer> {
    let (monitor, stop) = (Silent, StopFlag::new());
    let offset = |cell: Cell| u64::from(cell.0 % 2) * BLOCK as u64;
    let durability = Durability::Flushed;
    match request {
        Request::Write(cell, content) => {
            let (offset, data) = (offset(cell), bytes_of(content));
            execute(pool, cell, Operation::Write { offset, data: &data, durability })?;
        }
        Request::Trim(cell) => {
            let (offset, length) = (offset(cell), BLOCK as u64);
            execute(pool, cell, Operation::Trim { offset, length, durability })?;
        }
        Request::Read(cell) => {
            let mut buffer = vec![0xEE; BLOCK];
            execute(pool, cell, Operation::Read { offset: offset(cell), buffer: &mut buffer })?;
            return Some(Answer::Content(content_of(&buffer)));
        }
        Request::Find => {
            let report = pool.find(&monitor, &stop).ok()?;
            return Some(Answer::Shared(report.shared_blocks));
        }
        Request::Flush => pool.flush().ok()?,
        Request::Checkpoint { collects: false } => pool.checkpoint().ok()?,
        Request::Checkpoint { collects: true } => {
            pool.gc(None, &monitor, &stop).ok()?;
        }
        Request::Volume(action) => change_volume(pool, action)?,
    }
    Some(Answer::Done)
}

fn change_volume(pool: &Pool, action: Action) -> Option<()> {
    let name = |volume: u8| NAMES[usize::from(volume)];
    let done = match action {
        Action::Clone(from, to) => pool.clone_volume(name(from), name(to)),
        Action::Remove(volume) => pool.remove_volume(name(volume)),
        Action::SetMode(volume, Mode::Offline) => pool.set_mode(name(volume), DedupMode::Offline),
        Action::SetMode(volume, _) => pool.set_mode(name(volume), DedupMode::Inline),
        other => panic!("{other:?} is no command"),
    };
    done.ok()
}

fn execute(pool: &Pool, cell: Cell, operation: Operation<'_>) -> Option<()> {
    let volume = pool.volume(NAMES[cell.volume()]).ok()?;
    let mut batch = [DeviceRequest { operation, outcome: Ok(()) }];
    volume.execute(&mut batch);
    let [request] = batch;
    request.outcome.ok()
}

/// Reads all LBNs.
fn shown(pool: &Pool) -> Vec<Content> {
    let cells = (0..4).map(Cell);
    let content = |cell: Cell| match pool.volume(NAMES[cell.volume()]) {
        Err(_) => Content::ABSENT,
        Ok(_) => match perform(pool, Request::Read(cell)) {
            Some(Answer::Content(content)) => content,
            other => panic!("{cell:?} cannot be read: {other:?}"),
        },
    };
    cells.map(content).collect()
}
