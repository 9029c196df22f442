//! Test of PostgreSQL on ext4 on a served volume, under kills of `gemelo serve`. After each kill
//! PostgreSQL recovers, its own checkers find nothing, and every acknowledged commit is there.
//! `GEMELO_POSTGRES_KILLS` sets the number of kills of each server, and `GEMELO_KILL_SEED` their
//! times.

use crate::cluster::{COMMITTED, Cluster, Committer, Postmaster, wait_until};
use crate::support::mount::{Attached, Mounted, can_mount};
use crate::support::{MIB, Served, TestPool, setting, small};
use gemelo_base::random::Random;
use gemelo_format::{DedupMode, Policy};
use gemelo_tools::{all_there, run, tool};
use gemelo_volume::PoolOptions;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// Room for a long run; what is not written takes no space.
const VOLUME_BYTES: u64 = 1024 * MIB;
const TOOLS: [&str; 6] = ["nbdfuse", "losetup", "mount", "umount", "mkfs.ext4", "e2fsck"];
const COMMITTERS: u64 = 2;
/// Number of acknowledged commits of each committer before the server may be killed.
const FEWEST_COMMITS: u64 = 20;
/// The longest that clients commit after that, in milliseconds. Checkpoints come more often.
const LONGEST_RUN_MS: u64 = 1500;

/// A served volume and the file system on it. The order is that in which they are taken away.
struct Disk {
    mounted: Mounted,
    attached: Attached,
    server: Served,
}

impl Disk {
    /// Serves the volume and mounts it; mounting replays the file system's journal.
    fn new(pool: &TestPool, prepare: impl FnOnce(&Attached)) -> Self {
        let server = pool.serve();
        let attached = Attached::new(pool, "disk");
        prepare(&attached);
        let mounted = mount(pool, &attached);
        Self { mounted, attached, server }
    }

    fn make(attached: &Attached) {
        run(tool("mkfs.ext4").unwrap().args(["-q", "-F"]).arg(attached.device()));
    }

    /// Replays the file system's journal; after that its checker finds nothing.
    fn recover(pool: &TestPool, attached: &Attached) {
        mount(pool, attached).unmount();
        run(tool("e2fsck").unwrap().args(["-f", "-n"]).arg(attached.device()));
    }

    /// Takes all away in order and checks the pool.
    fn stop(self, pool: &TestPool) {
        self.mounted.unmount();
        self.attached.detach();
        self.server.stop();
        pool.check();
    }

    /// Kills the server under all that use it.
    fn kill(self, pool: &TestPool, clients: impl FnOnce()) {
        self.server.kill();
        clients();
        self.mounted.abandon();
        self.attached.abandon();
        pool.check();
    }
}

fn mount(pool: &TestPool, attached: &Attached) -> Mounted {
    Mounted::new(attached.device(), pool.file("mnt"), "rw,discard")
}

/// The acknowledgements that clients got before a kill.
struct Told {
    /// The last number acknowledged to each committer.
    committed: Vec<u64>,
    /// Rows of pgbench's history that another client has read.
    history: u64,
}

const HISTORY: &str = "SELECT count(*) FROM pgbench_history";
/// Each transaction of pgbench adds one amount to one account, teller and branch, and notes it.
const BALANCES: &str = "SELECT count(DISTINCT total) FROM (VALUES \
    ((SELECT sum(abalance) FROM pgbench_accounts)), ((SELECT sum(tbalance) FROM pgbench_tellers)), \
    ((SELECT sum(bbalance) FROM pgbench_branches)), ((SELECT sum(delta) FROM pgbench_history))) \
    AS totals (total)";

/// Clients commit until the server of the disk is killed.
fn commit_until_killed(
    (pool, disk): (&TestPool, Disk),
    (cluster, postmaster): (&Cluster, Postmaster),
    before: &Told,
    random: &mut Random,
) -> Told {
    let load = cluster.load(random.below(u64::from(u32::MAX)));
    let committers: Vec<Committer> = (0..)
        .zip(&before.committed)
        .map(|(committer, &last)| Committer::start(cluster, committer, last))
        .collect();
    wait_until("commits of every client", || {
        let have = committers.iter().zip(&before.committed);
        have.into_iter().all(|(now, last)| now.acknowledged() >= last + FEWEST_COMMITS)
            && cluster.number(HISTORY) > before.history
    });
    std::thread::sleep(Duration::from_millis(random.below(LONGEST_RUN_MS)));
    let history = cluster.number(HISTORY);
    let mut committed = Vec::new();
    disk.kill(pool, || {
        postmaster.abandon();
        load.wait();
        committed.extend(committers.into_iter().map(Committer::wait));
    });
    Told { committed, history }
}

/// Everything that clients were told of is there, and nothing that nobody wrote; gives what is
/// there.
fn compare(cluster: &Cluster, told: &Told) -> Told {
    let mut found = Told { committed: Vec::new(), history: cluster.number(HISTORY) };
    for (committer, &acknowledged) in told.committed.iter().enumerate() {
        let row = cluster.sql(&format!("{COMMITTED} WHERE committer = {committer}"));
        let row: Vec<u64> = row.split('|').map(|field| field.parse().unwrap()).collect();
        let (rows, last, wrong) = (row[0], row[1], row[2]);
        assert_eq!((rows, wrong), (last, 0), "committer {committer}: rows lost or wrong");
        // The answer to one commit may have been lost on its way.
        let possible = acknowledged..=acknowledged + 1;
        assert!(possible.contains(&last), "committer {committer}: {last}, not {possible:?}");
        found.committed.push(last);
    }
    assert!(found.history >= told.history, "{} of {} rows", found.history, told.history);
    assert_eq!(cluster.number(BALANCES), 1, "the balances of pgbench agree");
    found
}

fn postgresql_keeps_every_acknowledged_commit(policy: Policy) {
    let Some(programs) = crate::cluster::programs().filter(|_| can_mount() && all_there(&TOOLS))
    else {
        return;
    };
    let seed = setting("GEMELO_KILL_SEED", 1);
    eprintln!("GEMELO_KILL_SEED={seed}");
    let mut random = Random::new(seed);
    // A short journal, so that many kills fall into checkpoints.
    let options = PoolOptions { journal_bytes: Some(MIB), policy, ..small(2 * VOLUME_BYTES) };
    let pool = TestPool::new(&options, &[("disk", VOLUME_BYTES, DedupMode::Inline)]);
    // PostgreSQL's user has to reach what lies in it.
    fs::set_permissions(pool.directory.path(), fs::Permissions::from_mode(0o711)).unwrap();

    let mut disk = Disk::new(&pool, Disk::make);
    let data = disk.mounted.path().join("data");
    let cluster = Cluster::create(programs, data, pool.file("postgresql"));
    let mut postmaster = cluster.start();
    cluster.prepare();
    let mut told = Told { committed: vec![0; COMMITTERS as usize], history: 0 };
    for kill in 0..setting("GEMELO_POSTGRES_KILLS", 1) {
        told = commit_until_killed((&pool, disk), (&cluster, postmaster), &told, &mut random);
        disk = Disk::new(&pool, |attached| Disk::recover(&pool, attached));
        postmaster = cluster.start();
        told = compare(&cluster, &told);
        eprintln!("kill {kill}: {:?} and {} commits are there", told.committed, told.history);
        cluster.check_relations();
        postmaster.stop();
        disk.stop(&pool);
        // Nothing of it is in memory, so all pages are read from the pool.
        disk = Disk::new(&pool, |_| ());
        cluster.check_pages();
        postmaster = cluster.start();
    }
    postmaster.stop();
    disk.stop(&pool);
}

#[test]
fn postgresql_keeps_every_acknowledged_commit_on_a_pool() {
    postgresql_keeps_every_acknowledged_commit(Policy::Compact);
}

#[test]
fn postgresql_keeps_every_acknowledged_commit_with_an_index_on_disk() {
    postgresql_keeps_every_acknowledged_commit(Policy::Dtb);
}
