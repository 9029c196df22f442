//! A host: it serves a member that nobody serves, and starts again whenever its process ends.

use crate::disk::Disks;
use crate::process::Process;
use crate::{FAULTS_UNTIL_NS, MEMBERS, Tally};
use gemelo_base::Clock;
use gemelo_domain::{DomainConfig, DomainError, MemberId, Result};
use gemelo_objects::simulated::{Client, World};
use gemelo_objects::{Locks, ObjectError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Contents of all volumes: few, so that members share many of them.
const CONTENTS: u64 = 40;

pub(crate) fn run(
    world: &World,
    mut client: Client,
    disks: &Arc<Disks>,
    config: DomainConfig,
    tally: &Tally,
) {
    while world.now_ns() < FAULTS_UNTIL_NS {
        draw_fate(world, &client);
        if let Err(error) = serve(world, &client, disks, config, tally) {
            expect_excusable(&error, tally);
        }
        client = world.reconnect(&client);
        client.clock().sleep_until_ns(world.now_ns() + world.draw(50_000_000));
    }
}

/// One process in two dies, one in four is stopped beyond its lease, one in four cut off.
fn draw_fate(world: &World, client: &Client) {
    let instance = client.instance();
    let at_ns = world.now_ns() + world.draw(600_000_000);
    match world.draw(4) {
        0 | 1 => world.kill_at(&instance, at_ns),
        2 => world.stop(&instance, at_ns..at_ns + 200_000_000 + world.draw(800_000_000)),
        _ => world.cut_off(&instance, at_ns..at_ns + world.draw(800_000_000)),
    }
}

/// Serves one member until something fails.
fn serve(
    world: &World,
    client: &Client,
    disks: &Arc<Disks>,
    config: DomainConfig,
    tally: &Tally,
) -> Result<()> {
    let first = world.draw(u64::from(MEMBERS)) as u32;
    for step in 0..MEMBERS {
        let member = MemberId((first + step) % MEMBERS + 1);
        match Process::start(client, disks, config, member, tally) {
            Ok(process) => return work(world, process, client),
            Err(DomainError::InUse { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn work(world: &World, mut process: Process<'_>, client: &Client) -> Result<()> {
    while world.now_ns() < FAULTS_UNTIL_NS {
        let clock = client.clock();
        if process.tenure.ends_ns() < clock.now_ns() + 200_000_000 {
            process.renew()?;
        }
        let content = world.draw(CONTENTS);
        match world.draw(16) {
            0..6 => process.write(content)?,
            6..9 => process.overwrite(content)?,
            9 | 10 => process.take_and_give()?,
            11 => drop(process.collect(5)?),
            12 => process.split()?,
            13 if world.draw(20) == 0 => return process.hand_over(),
            _ => process.verify(content)?,
        }
        clock.sleep_until_ns(clock.now_ns() + world.draw(2_000_000));
    }
    Ok(())
}

fn expect_excusable(error: &DomainError, tally: &Tally) {
    let of_journal = |source: &(dyn std::error::Error + 'static)| {
        source.downcast_ref::<DomainError>().is_some_and(|error| is_excusable(error, tally))
    };
    let is_excused = match error {
        DomainError::Journal(source) => of_journal(source.as_ref()),
        other => is_excusable(other, tally),
    };
    assert!(is_excused, "{error:?}");
}

fn is_excusable(error: &DomainError, tally: &Tally) -> bool {
    let is_fenced = matches!(error, DomainError::Object(ObjectError::Fenced { .. }));
    tally.fenced.fetch_add(u64::from(is_fenced), Ordering::Relaxed);
    let is_unknown = matches!(error, DomainError::Object(error) if error.is_unknown());
    is_fenced || is_unknown || matches!(error, DomainError::NotHeld | DomainError::Contended { .. })
}
