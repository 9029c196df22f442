//! Tests of the order in which contents, records and intents change, on a store that stops at a
//! step.

use super::*;
use crate::journal::LedgerJournal;
use crate::stats::Stats;
use crate::store::LedgerVeto;
use crate::{ForeignContents, ForeignRead};
use gemelo_domain::{
    Action, Change, Entry, Intent, Journal as _, Settled, Shard, ShardHeader, ShardState,
    ShardView, Verdict, plan,
};
use gemelo_format::{Fingerprint, FingerprintKind, FormatError};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_store::{
    ContentComparison, ContentRead, ContentWrite, FreeVeto as _, LentContent, StoreRoom,
    StoreSetUp, VetoedStore, compare_by_reading,
};
use std::sync::mpsc::{Receiver, Sender, channel};

const MEMBER: MemberId = MemberId(1);
/// The home of the contents that are borrowed.
const OTHER: MemberId = MemberId(2);
const BLOCK: usize = 512;
/// A call that comes later than this is held up.
const PATIENCE: Duration = Duration::from_millis(100);

fn pbn(number: u64) -> Pbn {
    Pbn::new(number).unwrap()
}

fn fingerprinter() -> Fingerprinter {
    Fingerprinter::new(FingerprintKind::Blake3, [7; 32])
}

/// The byte that the content of a block repeats. The block from which it is borrowed has the
/// same one.
fn byte(of: Pbn) -> u8 {
    (of.number() % 100) as u8
}

/// The fingerprint of a block's content.
fn fingerprint(of: Pbn) -> Fingerprint {
    fingerprinter().of(&[byte(of); BLOCK])
}

/// The place from which a block is borrowed.
fn place(of: Pbn) -> Elsewhere {
    Elsewhere::of((MEMBER, of), (OTHER, pbn(of.number() + 100))).unwrap()
}

/// A call of the own store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Write,
    Discard(u64),
    Sync,
}

type Hook = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// The member's own store, without contents. It records its calls, and runs an action once.
struct OwnStore {
    calls: Mutex<Sender<Call>>,
    hook: Mutex<Option<(Call, Hook)>>,
}

impl OwnStore {
    fn called(&self, call: Call) -> io::Result<()> {
        self.calls.lock().send(call).unwrap();
        let hook = self.hook.lock().take_if(|(at, _)| *at == call);
        hook.map_or(Ok(()), |(_, hook)| hook())
    }

    /// Does this during the next such call.
    fn during(&self, call: Call, hook: impl FnOnce() -> io::Result<()> + Send + 'static) {
        *self.hook.lock() = Some((call, Box::new(hook)));
    }
}

impl StoreSetUp for OwnStore {
    fn blocks(&self) -> io::Result<u64> {
        Ok(1000)
    }

    fn enlarge(&self, _blocks: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_labels(&self) -> std::result::Result<(), FormatError> {
        Ok(())
    }

    fn check_labels(&self) -> std::result::Result<Vec<String>, FormatError> {
        Ok(Vec::new())
    }

    fn content_of_form(&self, _: Pbn, form: &[u8]) -> Option<Vec<u8>> {
        Some(form.to_vec())
    }

    fn write_forms(&self, _: &[(Pbn, &[u8])]) -> io::Result<Vec<(Pbn, Vec<u8>)>> {
        Ok(Vec::new())
    }
}

impl StoreRoom for OwnStore {
    fn discard(&self, first: Pbn, _count: u32) -> io::Result<()> {
        self.called(Call::Discard(first.number()))
    }

    fn min_discard_blocks(&self) -> u32 {
        1
    }

    fn reserve(&self, _: &mut [ContentWrite<'_>]) {}

    fn wants_reserve_ahead(&self) -> bool {
        false
    }

    fn reserve_ahead(&self) {}

    fn allocated_bytes(&self) -> Option<u64> {
        None
    }
}

impl Store for OwnStore {
    fn block_bytes(&self) -> usize {
        BLOCK
    }

    fn read(&self, reads: &mut [ContentRead<'_>]) {
        reads.iter_mut().for_each(|read| read.buffer.fill(byte(read.pbn)));
    }

    fn lend(&self, _: &[Pbn]) -> Vec<(usize, LentContent)> {
        Vec::new()
    }

    fn write(&self, writes: &mut [ContentWrite<'_>]) {
        writes.iter_mut().for_each(|write| write.outcome = self.called(Call::Write));
    }

    fn sync(&self) -> io::Result<()> {
        self.called(Call::Sync)
    }

    fn read_ready(&self, reads: &mut [ContentRead<'_>]) {
        self.read(reads);
    }

    fn read_medium(&self, reads: &mut [ContentRead<'_>]) {
        self.read(reads);
    }

    fn compare(&self, comparisons: &mut [ContentComparison<'_>]) {
        compare_by_reading(self, comparisons);
    }
}

/// The blocks of a store in which each content has its own.
struct PlainBlocks;

impl OwnBlocks for PlainBlocks {
    fn left_blocks(&self, pbns: &[Pbn], is_elsewhere: &dyn Fn(&Pbn) -> bool) -> LeftBlocks {
        let unused = pbns.iter().copied().filter(is_elsewhere).collect();
        LeftBlocks { unused, open: Vec::new() }
    }

    fn stop(&self, why: String) {
        panic!("{why}");
    }
}

/// The stores of the other members. It notes what was read, and runs an action once.
#[derive(Default)]
struct OtherStore {
    read: Mutex<Vec<Pbn>>,
    hook: Mutex<Option<Hook>>,
}

impl ForeignContents for OtherStore {
    fn read(&self, reads: &mut [ForeignRead<'_>]) {
        self.read.lock().extend(reads.iter().map(|read| read.pbn));
        let hook = self.hook.lock().take();
        hook.into_iter().for_each(|hook| hook().unwrap());
        reads.iter_mut().for_each(|read| read.buffer.fill(byte(read.pbn)));
    }
}

/// A member with an empty ledger.
#[derive(Clone)]
struct Member {
    world: World,
    client: Client,
    shared: Arc<Shared>,
    own: Arc<OwnStore>,
    foreign: Arc<OtherStore>,
}

fn member() -> (Member, Receiver<Call>) {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let (objects, clock) = (Arc::new(client.clone()), Arc::new(client.clock()));
    let ledger = Ledger::load(objects, clock, MEMBER, |_, _| {}).unwrap().ledger;
    let (blocks, foreign) = (Blocks::default(), Arc::new(OtherStore::default()));
    let parts = SharedParts {
        member: MEMBER,
        ledger,
        blocks,
        orphans: Vec::new(),
        foreign: foreign.clone(),
        compares: false,
    };
    let shared = Arc::new(Shared::new(parts));
    shared.fingerprinter.set(fingerprinter()).unwrap();
    let (tell, calls) = channel();
    let own = Arc::new(OwnStore { calls: Mutex::new(tell), hook: Mutex::new(None) });
    let free_veto = LedgerVeto { shared: Arc::clone(&shared) };
    let (store, medium): (Arc<dyn Store>, Arc<dyn Store>) = (own.clone(), own.clone());
    let (kind, cache) = (StoreKind::Plain, None);
    drop(free_veto.store_over(VetoedStore { store, medium, kind, cache }));
    (Member { world, client, shared, own, foreign }, calls)
}

impl Member {
    /// Has the ledger and the tables know a block of this kind.
    fn keep(&self, pbn: Pbn, kind: BlockState) {
        {
            let mut blocks = self.shared.blocks.write();
            blocks.identify(pbn);
            assert_eq!(blocks.take_candidates(1), [pbn]);
        }
        self.keep_as(pbn, kind);
        self.shared.blocks.write().end_publishing(pbn);
    }

    /// Has them know another kind of a block that is kept.
    fn keep_as(&self, pbn: Pbn, kind: BlockState) {
        let record = Record { fingerprint: fingerprint(pbn), kind };
        self.shared.ledger.lock().write(&BTreeMap::from([(pbn, Some(record))])).unwrap();
        self.shared.blocks.write().set_kind(pbn, kind);
    }

    /// Has the content of a borrowed block written to its own place, as a heal does.
    fn heal(&self, pbn: Pbn) {
        let called = |call| self.own.called(call);
        let mut write = || called(Call::Write).and(called(Call::Sync));
        LedgerVeto { shared: Arc::clone(&self.shared) }.restore(pbn, &mut write).unwrap();
    }

    /// Returns what another client finds in the ledger.
    fn kind_in_ledger(&self, pbn: Pbn) -> Option<BlockState> {
        let client = self.world.client();
        let clock = Arc::new(client.clock());
        let ledger = Ledger::load(Arc::new(client), clock, MEMBER, |_, _| {}).unwrap().ledger;
        ledger.read(&[pbn]).unwrap()[0].map(|record| record.kind)
    }

    fn journal<T>(&self, act: impl FnOnce(&mut LedgerJournal<'_>) -> T) -> T {
        let (shared, figures) = (&*self.shared, &mut Stats::default());
        act(&mut LedgerJournal { shared, figures, own: &PlainBlocks })
    }

    fn settle(&self, intent: &Intent) -> std::result::Result<(), gemelo_domain::JournalError> {
        let settled = [Settled { intent, verdict: Verdict::Applied }];
        self.journal(|journal| journal.settle(&settled))
    }
}

/// An intent about contents whose entries are these.
fn intent(changes: &[(Pbn, Action, Entry)]) -> Intent {
    let header = ShardHeader::new(ShardState::Open);
    let entries = changes.iter().map(|(_, _, entry)| Some(*entry)).collect();
    let change = |(pbn, action, _): &(Pbn, Action, Entry)| Change {
        fingerprint: fingerprint(*pbn),
        action: *action,
    };
    let changes: Vec<Change> = changes.iter().map(change).collect();
    plan(Shard::ALL, MEMBER, &ShardView { header, entries }, &changes)
}

/// A content of the other member that this one is about to share.
fn shared_content(of: Pbn) -> (Pbn, Action, Entry) {
    let (home, content) = place(of).place();
    (of, Action::Publish(of), Entry { home, pbn: content, members: 1, is_suspect: false })
}

#[test]
fn a_heal_is_recorded_after_the_sync_that_covers_it() {
    let (member, calls) = member();
    let (one, borrowed) = (pbn(1), BlockState::Borrowed(place(pbn(1))));
    member.keep(one, borrowed);
    let (during, (tell, told)) = (member.clone(), channel());
    member.own.during(Call::Sync, move || {
        tell.send(during.kind_in_ledger(one)).unwrap();
        Ok(())
    });
    member.heal(one);
    assert_eq!(told.recv().unwrap(), Some(borrowed), "its content was not durable");
    assert_eq!(member.kind_in_ledger(one), Some(BlockState::Restored(place(one))));
    assert!(member.shared.blocks.read().borrowed().get(one).is_none());
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [Call::Write, Call::Sync]);
}

#[test]
fn a_heal_that_fails_leaves_the_block_where_it_is_read() {
    let (member, _calls) = member();
    let one = pbn(1);
    member.keep(one, BlockState::Borrowed(place(one)));
    let veto = LedgerVeto { shared: Arc::clone(&member.shared) };
    veto.restore(one, &mut || Err(io::ErrorKind::StorageFull.into())).unwrap_err();
    assert_eq!(member.kind_in_ledger(one), Some(BlockState::Borrowed(place(one))));
    assert!(member.shared.blocks.read().borrowed().get(one).is_some());
}

/// The reference to the other content is released during a heal. The member would release it once
/// more, and with it the reference of somebody else.
#[test]
fn a_heal_whose_reference_is_released_is_not_recorded_again() {
    let (member, _calls) = member();
    let one = pbn(1);
    member.keep(one, BlockState::Borrowed(place(one)));
    let during = member.clone();
    member.own.during(Call::Sync, move || {
        during.keep_as(one, BlockState::Alone);
        Ok(())
    });
    member.heal(one);
    assert_eq!(member.kind_in_ledger(one), Some(BlockState::Alone));
}

/// A request that was waited for in vain is waited for again.
#[test]
fn a_place_is_not_given_up_under_a_request_that_hangs() {
    let (member, calls) = member();
    let one = pbn(1);
    member.keep(one, BlockState::Borrowed(place(one)));
    let reading = member.shared.enter();
    for _ in 0..2 {
        assert!(member.shared.discard(vec![one], &PlainBlocks).is_err());
    }
    assert!(calls.try_recv().is_err());
    drop(reading);
    member.shared.discard(vec![one], &PlainBlocks).unwrap();
    assert_eq!(calls.try_recv(), Ok(Call::Discard(1)));
}

#[test]
fn a_place_that_is_being_written_is_not_given_up() {
    let (member, calls) = member();
    let one = pbn(1);
    member.keep(one, BlockState::Borrowed(place(one)));
    let (shared, (ended, has_ended)) = (Arc::clone(&member.shared), channel());
    member.own.during(Call::Write, move || {
        std::thread::spawn(move || ended.send(shared.discard(vec![one], &PlainBlocks).is_ok()));
        std::thread::sleep(PATIENCE);
        Ok(())
    });
    member.heal(one);
    assert_eq!(has_ended.recv(), Ok(true));
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [Call::Write, Call::Sync]);
}

#[test]
fn a_place_that_is_being_given_up_is_not_written() {
    let (member, calls) = member();
    let one = pbn(1);
    member.keep(one, BlockState::Borrowed(place(one)));
    let (writer, (ended, has_ended)) = (member.clone(), channel());
    let (in_time, seen) = channel();
    member.own.during(Call::Discard(1), move || {
        std::thread::spawn(move || {
            writer.heal(one);
            ended.send(())
        });
        in_time.send(has_ended.recv_timeout(PATIENCE).is_ok()).unwrap();
        Ok(())
    });
    member.shared.discard(vec![one], &PlainBlocks).unwrap();
    assert_eq!(seen.recv(), Ok(false), "the content was written and given up");
    while calls.recv() != Ok(Call::Write) {}
}

#[test]
fn a_heal_wins_over_an_intent_that_is_settled_again() {
    let (member, calls) = member();
    let one = pbn(1);
    let intent = intent(&[shared_content(one)]);
    {
        let mut blocks = member.shared.blocks.write();
        blocks.identify(one);
        assert_eq!(blocks.take_candidates(1), [one]);
    }
    member.journal(|journal| journal.record(std::slice::from_ref(&intent))).unwrap();
    member.own.during(Call::Discard(1), || Err(io::ErrorKind::Other.into()));
    member.settle(&intent).unwrap_err();
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [Call::Discard(1)]);
    // The other member's content was found damaged, and a client wrote it again.
    member.heal(one);
    member.settle(&intent).unwrap();
    let expected = [Call::Write, Call::Sync];
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), expected, "the heal is not given up");
    assert!(member.shared.blocks.read().borrowed().get(one).is_none());
    assert_eq!(member.kind_in_ledger(one), Some(BlockState::Restored(place(one))));
}

/// A client heals a block while an intent that was settled in part is settled again.
#[test]
fn a_heal_wins_over_what_was_decided_before_it() {
    let (member, calls) = member();
    let (one, two) = (pbn(1), pbn(2));
    member.keep(one, BlockState::Borrowed(place(one)));
    {
        let mut blocks = member.shared.blocks.write();
        blocks.identify(two);
        assert_eq!(blocks.take_candidates(1), [two]);
    }
    let intent = intent(&[shared_content(one), shared_content(two)]);
    member.journal(|journal| journal.record(std::slice::from_ref(&intent))).unwrap();
    let during = member.clone();
    *member.foreign.hook.lock() = Some(Box::new(move || {
        during.heal(one);
        Ok(())
    }));
    member.settle(&intent).unwrap();
    let expected = [Call::Write, Call::Sync, Call::Discard(2)];
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), expected, "the heal is not given up");
    assert_eq!(member.kind_in_ledger(one), Some(BlockState::Restored(place(one))));
    assert_eq!(member.kind_in_ledger(two), Some(BlockState::Borrowed(place(two))));
}

#[test]
fn contents_of_others_are_read_in_the_order_in_which_they_lie() {
    let (member, _calls) = member();
    let mut pbns: Vec<Pbn> = (1..=40).map(pbn).collect();
    // An intent has them in the order of their fingerprints.
    pbns.sort_unstable_by_key(|pbn| fingerprint(*pbn).to_bytes());
    {
        let mut blocks = member.shared.blocks.write();
        pbns.iter().for_each(|pbn| blocks.identify(*pbn));
        assert_eq!(blocks.take_candidates(pbns.len()).len(), pbns.len());
    }
    let contents: Vec<_> = pbns.iter().map(|pbn| shared_content(*pbn)).collect();
    let intent = intent(&contents);
    member.journal(|journal| journal.record(std::slice::from_ref(&intent))).unwrap();
    member.settle(&intent).unwrap();
    assert_eq!(*member.foreign.read.lock(), (101..=140).map(pbn).collect::<Vec<_>>());
    assert_eq!(member.shared.blocks.read().figures().borrowed, 40);
}

#[test]
fn a_block_is_free_when_the_ledger_has_forgotten_the_intent() {
    let (member, _calls) = member();
    let (one, two) = (pbn(1), pbn(2));
    member.keep(two, BlockState::Published);
    {
        let mut blocks = member.shared.blocks.write();
        assert!(blocks.drop_reference(two));
        assert_eq!(blocks.take_due(1), [two]);
        assert!(blocks.begin_release(fingerprint(two), two));
        blocks.identify(one);
        assert_eq!(blocks.take_candidates(1), [one]);
    }
    let own = Entry { home: MEMBER, pbn: two, members: 1, is_suspect: false };
    let intent = intent(&[shared_content(one), (two, Action::Release, own)]);
    member.journal(|journal| journal.record(std::slice::from_ref(&intent))).unwrap();
    let world = member.world.clone();
    member.own.during(Call::Discard(1), move || {
        world.set_faults(Faults { lost_calls: 1000, ..Faults::NONE });
        Ok(())
    });
    member.settle(&intent).unwrap_err();
    assert!(member.shared.blocks.write().take_freed().is_empty(), "a new content may use it");
    member.world.set_faults(Faults::NONE);
    member.settle(&intent).unwrap();
    assert_eq!(member.shared.blocks.write().take_freed(), [two]);
    let clock = Arc::new(member.client.clock());
    let objects = Arc::new(member.client);
    let in_flight = Ledger::load(objects, clock, MEMBER, |_, _| {}).unwrap().in_flight;
    assert!(in_flight.is_empty());
}

/// The thread that shares would otherwise pause for seconds while a writer waits for blocks.
#[test]
fn a_writer_that_finds_blocks_due_is_known_to_wait() {
    let (member, _calls) = member();
    let veto = LedgerVeto { shared: Arc::clone(&member.shared) };
    let asked = || (veto.due_blocks(), member.shared.is_awaited.load(Ordering::Relaxed));
    member.keep(pbn(1), BlockState::Published);
    member.shared.has_worker.store(true, Ordering::Relaxed);
    assert_eq!(asked(), (0, false), "nothing is due");
    assert!(veto.keep(pbn(1)));
    member.shared.has_worker.store(false, Ordering::Relaxed);
    assert_eq!(asked(), (0, false), "nobody would release it");
    member.shared.has_worker.store(true, Ordering::Relaxed);
    assert_eq!(asked(), (1, true));
}
