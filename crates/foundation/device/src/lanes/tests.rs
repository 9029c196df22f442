//! Tests of lanes with a client whose requests wait until the test lets them go on.

use super::*;
use std::collections::BTreeSet;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Requests that panic and fail.
const PANICS: u64 = 9013;
const FAILS: u64 = 9014;

/// A read is its number. Its length in bytes is 1, unless a test needs another.
struct Gates {
    /// Requests that wait in lanes.
    waiting: BTreeSet<u64>,
    open: BTreeSet<u64>,
    /// Batches in the order in which they were answered.
    answered: Vec<Vec<u64>>,
    /// `true` if lanes take a while to end, and once one of them has begun to.
    end_slowly: bool,
    is_one_ending: bool,
    ended: bool,
}

struct TestClient {
    room: u64,
    gates: Mutex<Gates>,
    moved: Condvar,
}

impl TestClient {
    fn change<T>(&self, change: impl FnOnce(&mut Gates) -> T) -> T {
        let changed = change(&mut self.gates.lock().unwrap());
        self.moved.notify_all();
        changed
    }

    fn open(&self, requests: impl IntoIterator<Item = u64>) {
        self.change(|gates| gates.open.extend(requests));
    }

    fn eventually(&self, what: &str, is_so: impl Fn(&Gates) -> bool) {
        let gates = self.gates.lock().unwrap();
        let waited = self.moved.wait_timeout_while(gates, PATIENCE, |gates| !is_so(gates)).unwrap();
        assert!(!waited.1.timed_out(), "not in time: {what}");
    }

    fn waits_for(&self, requests: &[u64]) {
        let requests: BTreeSet<_> = requests.iter().copied().collect();
        self.eventually("they wait", |gates| gates.waiting == requests);
    }

    fn pass(&self, request: u64) {
        self.change(|gates| gates.waiting.insert(request));
        let mut gates = self.gates.lock().unwrap();
        while !gates.open.contains(&request) {
            gates = self.moved.wait(gates).unwrap();
        }
        drop(gates);
        self.change(|gates| gates.waiting.remove(&request));
    }
}

impl LaneClient for TestClient {
    type Batch = Vec<u64>;
    type Read = u64;
    type Failure = &'static str;

    fn new_batch(&self) -> Option<Vec<u64>> {
        Some(Vec::new())
    }

    fn make_room(&self, _: &mut Vec<u64>, bytes: u64) -> u64 {
        bytes.min(self.room)
    }

    fn add(&self, batch: &mut Vec<u64>, read: &u64) -> bool {
        batch.push(*read);
        true
    }

    /// Waits for the first request, or for all. Others are left if their gate is closed.
    fn carry_out(
        &self,
        batch: &mut Vec<u64>,
        waiting: Waiting,
    ) -> Result<Vec<usize>, &'static str> {
        assert!(!batch.contains(&PANICS), "a request that panics");
        if batch.contains(&FAILS) {
            return Err("a request that fails");
        }
        let mut left = Vec::new();
        let mut answered = Vec::new();
        for (place, request) in batch.iter().enumerate() {
            let is_open = self.gates.lock().unwrap().open.contains(request);
            if place == 0 || waiting == Waiting::All || is_open {
                self.pass(*request);
                answered.push(*request);
            } else {
                left.push(place);
            }
        }
        self.change(|gates| gates.answered.push(answered));
        Ok(left)
    }

    fn empty(&self, batch: &mut Vec<u64>) {
        batch.clear();
    }

    fn clear(&self, batch: &mut Vec<u64>) {
        batch.clear();
        let is_slow = self.change(|gates| {
            gates.is_one_ending = true;
            gates.end_slowly
        });
        if is_slow {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn panicked(&self) -> &'static str {
        "a panic"
    }

    fn end(&self, _: &&'static str) {
        self.change(|gates| gates.ended = true);
    }
}

fn lanes_with(room: u64, threads: usize, waiters: usize) -> Arc<Lanes<TestClient>> {
    let gates = Gates {
        waiting: BTreeSet::new(),
        open: BTreeSet::new(),
        answered: Vec::new(),
        end_slowly: false,
        is_one_ending: false,
        ended: false,
    };
    let client = TestClient { room, gates: Mutex::new(gates), moved: Condvar::new() };
    Arc::new(Lanes::new(client, Arc::new(Helpers::new(threads)), waiters))
}

fn read(number: u64, bytes: u64) -> KeptRead<u64> {
    KeptRead { range: number * 1000..number * 1000 + bytes, read: number }
}

fn reads(numbers: Range<u64>) -> Vec<KeptRead<u64>> {
    numbers.map(|number| read(number, 1)).collect()
}

fn start(lanes: &Arc<Lanes<TestClient>>, number: u64, claim: Claim) {
    let mut lane = lanes.open().unwrap();
    lane.batch.push(number);
    lanes.start(lane, vec![claim]);
}

fn change(range: Range<u64>) -> Claim {
    Claim::Change { range, is_durable: false }
}

#[test]
fn one_lane_waits_for_the_oldest_read_and_takes_those_behind_it_that_are_ready() {
    let lanes = lanes_with(1, 8, 1);
    let client = lanes.client();
    client.open([2, 5]);
    assert!(lanes.read_later(reads(0..6)).is_empty());
    client.waits_for(&[0]);
    assert_eq!(lanes.progress(), (0, true));
    client.open([0]);
    client.waits_for(&[1]);
    client.open([1]);
    client.waits_for(&[3]);
    client.open([3]);
    client.waits_for(&[4]);
    client.open([4]);
    lanes.wait_for_all();
    let answered = client.change(|gates| std::mem::take(&mut gates.answered));
    // Four are looked at together, and what is left keeps its place.
    assert_eq!(answered, [vec![0, 2], vec![1, 5], vec![3], vec![4]]);
    assert_eq!(lanes.progress(), (1, false));
}

#[test]
fn two_lanes_execute_long_reads_where_one_waits_for_short_ones() {
    let long = |number| read(number, LONG_READ_BYTES);
    let short = |number| read(number, LONG_READ_BYTES - 1);
    let lanes = lanes_with(LONG_READ_BYTES, 32, 1);
    let client = lanes.client();
    assert!(lanes.read_later((0..3).map(long).collect()).is_empty());
    client.waits_for(&[0, 1]);
    client.open([0]);
    client.waits_for(&[1, 2]);
    // The next one of a lane whose batch is done, too.
    client.open([1]);
    client.waits_for(&[2]);
    start(&lanes, 50, change(0..1));
    lanes.read_later(vec![long(3)]);
    client.waits_for(&[2, 3, 50]);
    lanes.read_later(vec![long(4)]);
    client.open([3, 50]);
    client.waits_for(&[2, 4]);
    client.open([2, 4]);
    lanes.wait_for_all();
    assert!(lanes.read_later((5..8).map(short).collect()).is_empty());
    client.waits_for(&[5]);
    client.open(5..8);
    lanes.wait_for_all();
}

#[test]
fn several_lanes_share_the_reads_and_each_is_answered_once() {
    let lanes = lanes_with(1, 32, 16);
    let client = lanes.client();
    assert!(lanes.read_later(reads(0..9)).is_empty());
    client.waits_for(&[0, 4, 8]);
    client.open(0..64);
    // Others join while lanes are at work.
    for more in 9..64 {
        assert!(lanes.read_later(reads(more..more + 1)).is_empty());
    }
    lanes.wait_for_all();
    let answered = client.change(|gates| std::mem::take(&mut gates.answered));
    let mut all = answered.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..64));
}

#[test]
fn reads_without_room_or_a_thread_are_given_back() {
    let lanes = lanes_with(100, 8, 1);
    lanes.client().open(0..9);
    let refused = lanes.read_later(vec![read(0, 100), read(1, 101), read(2, 3)]);
    assert_eq!(refused.iter().map(|kept| kept.read).collect::<Vec<_>>(), [1]);
    lanes.wait_for_all();
    let none = lanes_with(1, 0, 1);
    assert_eq!(none.read_later(reads(0..3)).len(), 3);
    assert!(none.open().is_none());
    assert!(!none.make_way(|| [Claim::Flush].into_iter()));
}

/// With four threads, a client has two lanes at a time.
#[test]
fn a_read_does_not_wait_for_a_slow_one_while_a_thread_is_or_becomes_free() {
    let lanes = lanes_with(1, 4, 16);
    let client = lanes.client();
    client.change(|gates| gates.end_slowly = true);
    lanes.read_later(reads(0..1));
    client.waits_for(&[0]);
    // The second lane has answered, and ends when the next read comes.
    client.open([1, 2]);
    lanes.read_later(reads(1..2));
    client.eventually("a lane ends", |gates| gates.is_one_ending);
    lanes.read_later(reads(2..3));
    client.eventually("the read is answered", |gates| gates.answered.contains(&vec![2]));
    // The second lane has a batch of its own to execute when the read comes.
    while lanes.progress().0 < 2 {
        std::thread::yield_now();
    }
    start(&lanes, 50, change(0..10));
    client.waits_for(&[0, 50]);
    lanes.read_later(reads(3..4));
    client.open([3, 50]);
    client.eventually("the read is answered", |gates| gates.answered.contains(&vec![3]));
    client.waits_for(&[0]);
    client.open([0]);
    lanes.wait_for_all();
}

#[test]
fn a_batch_waits_for_what_it_must_not_overtake() {
    let lanes = lanes_with(1, 8, 1);
    let client = lanes.client();
    start(&lanes, 50, change(0..10));
    assert!(lanes.read_later(reads(7..9)).is_empty());
    client.waits_for(&[7, 50]);
    assert!(lanes.have_changes());
    for free in [Claim::Read(7000..8001), Claim::Read(10..20), change(10..20), change(7001..8000)] {
        assert!(lanes.make_way(|| [free.clone()].into_iter()));
    }
    // The read at 8000 is kept, and no lane has it in execution before the one at 7000 has ended.
    for (held_up, opens) in [(Claim::Read(9..20), 50), (change(8000..8001), 7)] {
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lanes.make_way(|| [held_up.clone()].into_iter()));
            std::thread::sleep(Duration::from_millis(30));
            assert!(!waits.is_finished(), "{held_up:?}");
            client.open([opens, 8 * u64::from(opens == 7)]);
            waits.join().unwrap();
        });
    }
    lanes.wait_for_all();
    start(&lanes, 51, change(0..10));
    client.waits_for(&[51]);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| lanes.make_way(|| [Claim::Flush].into_iter()));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waits.is_finished(), "a flush covers a change before it");
        client.open([51]);
        assert!(!waits.join().unwrap());
    });
}

#[test]
fn kept_reads_and_lanes_are_bounded() {
    let lanes = lanes_with(1 << 20, 64, 1);
    assert!(lanes.read_later(reads(0..128)).is_empty());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| lanes.make_way(std::iter::empty));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waits.is_finished(), "128 reads are kept");
        lanes.client().open(0..1000);
        waits.join().unwrap();
    });
    lanes.wait_for_all();
    let lanes = lanes_with(1, 1000, 1);
    (0..16).for_each(|number| start(&lanes, number, Claim::Flush));
    assert!(lanes.open().is_none());
    lanes.client().open(0..16);
    lanes.wait_for_all();
    assert!(lanes.hold_memory());
    lanes.shrink();
    assert!(!lanes.hold_memory());
}

#[test]
fn a_failure_or_a_panic_ends_the_client_and_what_is_kept() {
    for (number, failure) in [(PANICS, "a panic"), (FAILS, "a request that fails")] {
        let lanes = lanes_with(1, 8, 1);
        let client = lanes.client();
        lanes.read_later(reads(7..9));
        client.waits_for(&[7]);
        start(&lanes, number, change(0..10));
        client.eventually("the client ends", |gates| gates.ended);
        client.open([7, 8]);
        lanes.wait_for_all();
        assert!(lanes.have_failed());
        assert_eq!(lanes.take_failure(), Some(failure));
        assert!(lanes.have_failed() && !lanes.make_way(|| [Claim::Flush].into_iter()));
    }
    let lanes = lanes_with(1, 8, 1);
    lanes.read_later(reads(PANICS..PANICS + 17));
    lanes.wait_for_all();
    assert_eq!(lanes.take_failure(), Some("a panic"));
}
