//! Two members with equal data, one of which compresses. It is stored once. After each failure of a
//! host or of the cluster both have every flushed byte, and their ledgers agree with the index.

use super::contents::{BLOCK, assert_written, content, read, try_write, write};
use super::host::{Host, LEASE, PATIENCE, Server};
use gemelo_device::{BlockDevice, DeviceError};
use rustix::process::Signal;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// The lease of a server that nobody takes over from, or only after it has been given up. A machine
/// that is busy for some seconds does not displace it.
const LONG_LEASE: &str = "60s";
const DOMAIN: &str = "rados:gemelo/shared";
const MEMBERS: [&str; 2] = ["rados:gemelo/shared/one", "rados:gemelo/shared/two"];
/// The pool of Ceph that holds contents and nothing else.
const CONTENTS: &str = "contents";
/// Blocks with the same contents in both members.
const EQUAL: Range<u64> = 0..4000;
/// Blocks that differ.
const OWN: Range<u64> = 4000..4200;
/// Blocks that are written while something fails.
const LOADED: Range<u64> = 5000..5200;
/// Blocks with the same contents in both, written after a failure.
const LATER: Range<u64> = 6000..8000;
const EQUAL_GENERATION: u8 = 100;
/// Contents that share a block where they are compressed.
const PACKED: u64 = 6;
/// The generation of the last round of a load. The round after it is the first one.
const LAST_ROUND: u8 = 200;
/// A generation that no load writes, so that members cannot share it.
const OWN_GENERATION: u8 = 250;

pub(crate) fn run(host: &Host<'_>) {
    create(host);
    let servers = served(host, [LONG_LEASE; 2]);
    equal_data_is_stored_once(host, &servers);
    let servers = checked(host, servers, [LEASE, LONG_LEASE]);
    let servers = checked(host, a_killed_process(host, servers), [LONG_LEASE, LEASE]);
    let servers = checked(host, a_stopped_process(host, servers), [LONG_LEASE; 2]);
    let servers = checked(host, a_storage_server_dies(host, servers), [LONG_LEASE; 2]);
    let servers = checked(host, a_full_cluster(host, servers), [LONG_LEASE; 2]);
    let servers = checked(host, a_hand_over(host, servers), [LONG_LEASE; 2]);
    everything_is_given_up(host, servers);
}

fn create(host: &Host<'_>) {
    host.ceph(&["osd", "pool", "create", CONTENTS, "8", "8", "replicated"]);
    host.done(&["domain", "create", DOMAIN, "--shards", "2", "--data-pool", CONTENTS]);
    for (member, compression) in MEMBERS.into_iter().zip(["lz4", "off"]) {
        let shape = ["--capacity", "1g", "--compression", compression, "--commit-interval", "1s"];
        host.done(&[&["pool", "create", member], &shape[..]].concat());
        host.done(&["volume", "create", &format!("{member}/disk"), "--size", "64m"]);
    }
    settings_and_schedule_are_kept_with_the_member(host, MEMBERS[0]);
}

fn settings_and_schedule_are_kept_with_the_member(host: &Host<'_>, member: &str) {
    let disk = format!("{member}/disk");
    host.done(&["pool", "set", member, "--finder-cpu", "30"]);
    host.done(&["volume", "set", &disk, "--every", "1000d"]);
    assert!(host.done(&["pool", "get", member, "finder-cpu"]).contains("30%  pool"));
    assert!(host.done(&["pool", "get", member, "commit-interval"]).contains("1s  pool"));
    let said = host.done(&["pool", "tick", member]);
    let snapshot = said.split(':').take(2).collect::<Vec<_>>().join(":");
    assert!(snapshot.starts_with(&format!("{disk}@")), "{said}");
    assert!(host.done(&["pool", "tick", member]).ends_with("nothing was due\n"));
    host.done(&["volume", "set", &disk, "--every", "default"]);
    host.done(&["volume", "rm", &snapshot, "--force"]);
}

fn serve(host: &Host<'_>, number: usize, lease: &str) -> Server {
    let mut server =
        host.serve(MEMBERS[number], &format!("serve-{number}"), &["--lease", lease, "--standby"]);
    server.wait_until_it_serves();
    server
}

fn standby(host: &Host<'_>, number: usize, socket: &str) -> Server {
    host.serve(MEMBERS[number], socket, &["--lease", LONG_LEASE, "--standby"])
}

fn served(host: &Host<'_>, [one, two]: [&str; 2]) -> [Server; 2] {
    [serve(host, 0, one), serve(host, 1, two)]
}

/// Compares ledgers and index while nobody serves. Both members are served again afterwards, with
/// these leases, and have the blocks that were never changed.
fn checked(host: &Host<'_>, servers: [Server; 2], leases: [&str; 2]) -> [Server; 2] {
    servers.into_iter().for_each(Server::end);
    let check = host.json(&["domain", "check", DOMAIN]);
    assert_eq!(check["result"]["members"], 2);
    assert_eq!(check["result"]["unsettled"], serde_json::json!([]));
    assert!(check["result"]["records"].as_u64().unwrap() > EQUAL.end);
    MEMBERS.into_iter().for_each(|member| host.assert_clean(member));
    let servers = served(host, leases);
    assert_unchanged(&servers);
    servers
}

fn assert_unchanged(servers: &[Server; 2]) {
    for (number, server) in (0..).zip(servers) {
        let volume = server.volume();
        assert_written(&*volume, EQUAL, EQUAL_GENERATION);
        assert_written(&*volume, OWN, number);
    }
}

/// Returns a figure of what a member shares.
fn sharing(host: &Host<'_>, member: &str, name: &str) -> u64 {
    host.json(&["pool", "stat", member])["result"]["sharing"][name].as_u64().unwrap()
}

fn borrowed(host: &Host<'_>) -> u64 {
    MEMBERS.iter().map(|member| sharing(host, member, "borrowed")).sum()
}

fn equal_data_is_stored_once(host: &Host<'_>, servers: &[Server; 2]) {
    for (number, server) in (0u8..).zip(servers) {
        write(&*server.volume(), EQUAL, EQUAL_GENERATION);
        write(&*server.volume(), OWN, number);
        // The first member, which compresses, is the home of the equal contents.
        let text = host.done(&["pool", "dedup", MEMBERS[usize::from(number)]]);
        assert!(text.contains("shared with other members of the domain"), "{text}");
    }
    assert_eq!(borrowed(host), EQUAL.end);
    let stat = host.json(&["domain", "stat", DOMAIN]);
    assert_eq!(stat["result"]["contents"], EQUAL.end + 2 * (OWN.end - OWN.start));
    assert_unchanged(servers);
    for member in MEMBERS {
        let traffic = &host.json(&["pool", "stat", member])["result"]["sharing"]["traffic"];
        let of = |kind: &str, figure: &str| traffic[kind][figure].as_u64().unwrap();
        for kind in ["index", "ledger", "lease", "contents", "metadata"] {
            assert!(of(kind, "operations") > 0, "{member}, {kind}: {traffic}");
        }
        // An entry has a fingerprint and a value; contents are written, metadata as well.
        assert!(of("index", "sent_bytes") > 24 * EQUAL.end, "{member}: {traffic}");
        assert!(of("contents", "sent_bytes") > (OWN.end - OWN.start) * BLOCK as u64, "{traffic}");
        assert!(of("contents", "received_bytes") > 0, "{member}: {traffic}");
    }
    let packed = (EQUAL.end + OWN.end - OWN.start) / PACKED;
    let one_copy = (packed + OWN.end - OWN.start) * BLOCK as u64;
    let began = Instant::now();
    loop {
        let stored = host.stored_bytes(CONTENTS);
        // Ceph counts some bytes late, at the beginning too few of them.
        if (one_copy..one_copy + one_copy / 2).contains(&stored) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{stored} bytes are stored, not {one_copy}");
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Stands for no generation.
const NOTHING: u8 = u8::MAX;

/// A volume under load: rounds of writes, each with its generation, and then a flush.
pub(crate) struct Load {
    ends: AtomicBool,
    /// The last generation that was flushed, or [`NOTHING`].
    flushed: AtomicU8,
}

impl Load {
    pub(crate) const fn new() -> Self {
        Self { ends: AtomicBool::new(false), flushed: AtomicU8::new(NOTHING) }
    }

    /// Writes until it has to end, or until a write fails.
    pub(crate) fn run(&self, device: &dyn BlockDevice) -> Result<(), DeviceError> {
        for generation in std::iter::once(0).chain((1..=LAST_ROUND).cycle()) {
            if self.ends.load(Ordering::Relaxed) {
                break;
            }
            try_write(device, LOADED, generation)?;
            self.flushed.store(generation, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Checks that each block is that of the last flush, or of the round that came after it.
    pub(crate) fn assert_kept(&self, device: &dyn BlockDevice) {
        let flushed = self.flushed.load(Ordering::Relaxed);
        let next = flushed % LAST_ROUND + 1;
        for block in LOADED {
            let found = read(device, block).unwrap();
            let is_kept = [flushed, next].iter().any(|round| found == content(block, *round));
            assert!(is_kept, "block {block} is not of round {flushed} or {next}");
        }
    }
}

/// Runs both members under load while something happens.
fn under_load(servers: &[Server; 2], happens: impl FnOnce()) -> [Load; 2] {
    let loads = [Load::new(), Load::new()];
    let volumes = servers.each_ref().map(Server::volume);
    std::thread::scope(|scope| {
        for (load, volume) in loads.iter().zip(&volumes) {
            // Where the server ends, a write fails.
            scope.spawn(|| drop(load.run(&**volume)));
        }
        let began = Instant::now();
        while loads.iter().any(|load| load.flushed.load(Ordering::Relaxed) == NOTHING) {
            assert!(began.elapsed() < PATIENCE, "no round is flushed");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_secs(1));
        happens();
        loads.iter().for_each(Load::end);
    });
    loads
}

/// A process is killed under load. The other member reads what it borrows from it all the time, and
/// the standby has every flushed byte.
fn a_killed_process(host: &Host<'_>, servers: [Server; 2]) -> [Server; 2] {
    let standby = standby(host, 0, "killed");
    let mut killed = Instant::now();
    let loads = under_load(&servers, || {
        servers[0].signal(Signal::KILL);
        killed = Instant::now();
        assert_written(&*servers[1].volume(), EQUAL, EQUAL_GENERATION);
    });
    let volume = standby.volume();
    loads[0].assert_kept(&*volume);
    eprintln!("from the kill to the first bytes with a lease of {LEASE}: {:?}", killed.elapsed());
    loads[1].assert_kept(&*servers[1].volume());
    let [_, other] = servers;
    let servers = [standby, other];
    assert_unchanged(&servers);
    servers
}

/// A process is stopped while it shares, for longer than its lease. It must not change the index
/// when it goes on.
fn a_stopped_process(host: &Host<'_>, servers: [Server; 2]) -> [Server; 2] {
    let [one, mut stopped] = servers;
    write(&*one.volume(), LATER, EQUAL_GENERATION);
    write(&*stopped.volume(), LATER, EQUAL_GENERATION);
    std::thread::sleep(Duration::from_millis(200));
    stopped.signal(Signal::STOP);
    let standby = standby(host, 1, "stopped");
    let volume = standby.volume();
    write(&*volume, LOADED, OWN_GENERATION);
    stopped.signal(Signal::CONT);
    assert_eq!(stopped.wait(), 7, "displaced: {}", stopped.errors());
    MEMBERS.into_iter().for_each(|member| drop(host.done(&["pool", "dedup", member])));
    assert_written(&*volume, LATER, EQUAL_GENERATION);
    assert_written(&*volume, LOADED, OWN_GENERATION);
    assert_eq!(borrowed(host), EQUAL.end + LATER.end - LATER.start);
    [one, standby]
}

/// One of three storage servers is killed and started again. Nobody notices it but by the time.
fn a_storage_server_dies(host: &Host<'_>, servers: [Server; 2]) -> [Server; 2] {
    let loads = under_load(&servers, || {
        host.kill_storage_server(1);
        assert_unchanged(&servers);
        host.start_storage_server(1);
        std::thread::sleep(Duration::from_secs(2));
    });
    for (load, server) in loads.iter().zip(&servers) {
        load.assert_kept(&*server.volume());
    }
    servers
}

/// A full cluster refuses writes of contents. When it has room again, the same processes go on.
fn a_full_cluster(host: &Host<'_>, servers: [Server; 2]) -> [Server; 2] {
    let set_most_objects = |number: &str| {
        for pool in ["gemelo", CONTENTS] {
            host.ceph(&["osd", "pool", "set-quota", pool, "max_objects", number]);
        }
    };
    let until = |device: &dyn BlockDevice, is_full: bool| {
        let began = Instant::now();
        let mut generation = 1;
        while try_write(device, LOADED, generation).is_err() != is_full {
            assert!(began.elapsed() < PATIENCE, "it does not become full: {is_full}");
            std::thread::sleep(Duration::from_millis(200));
            generation = generation % LAST_ROUND + 1;
        }
        generation
    };
    set_most_objects("1");
    for server in &servers {
        until(&*server.volume(), true);
    }
    assert_unchanged(&servers);
    set_most_objects("0");
    for server in &servers {
        let volume = server.volume();
        let generation = until(&*volume, false);
        assert_written(&*volume, LOADED, generation);
    }
    servers
}

fn a_hand_over(host: &Host<'_>, servers: [Server; 2]) -> [Server; 2] {
    let [mut one, two] = servers;
    write(&*one.volume(), LOADED, 5);
    let standby = standby(host, 0, "handed");
    host.done(&["pool", "hand-over", MEMBERS[0]]);
    assert_eq!(one.wait(), 0, "{}", one.errors());
    assert_written(&*standby.volume(), LOADED, 5);
    [standby, two]
}

/// A member gives up its contents. Those that the other one uses stay, until it gives them up too.
fn everything_is_given_up(host: &Host<'_>, servers: [Server; 2]) {
    let remove = |member: &str| {
        host.done(&["volume", "rm", &format!("{member}/disk"), "--force"]);
        host.done(&["pool", "gc", member]);
    };
    remove(MEMBERS[0]);
    assert_written(&*servers[1].volume(), EQUAL, EQUAL_GENERATION);
    let refused = host.run(&["pool", "rm", MEMBERS[0], "--force"]);
    assert_eq!(refused.status, 3, "{}", refused.err);
    remove(MEMBERS[1]);
    let began = Instant::now();
    while host.json(&["domain", "stat", DOMAIN])["result"]["contents"] != 0
        || MEMBERS.iter().any(|member| sharing(host, member, "kept") > 0)
    {
        assert!(began.elapsed() < PATIENCE, "contents are left");
        std::thread::sleep(Duration::from_millis(200));
    }
    servers.into_iter().for_each(Server::end);
    MEMBERS.into_iter().for_each(|member| host.assert_clean(member));
    host.json(&["domain", "check", DOMAIN]);
    MEMBERS.into_iter().for_each(|member| drop(host.done(&["pool", "rm", member, "--force"])));
}
