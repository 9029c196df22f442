//! Snapshots of several volumes, the way back to a snapshot, and holds.

use super::*;
use gemelo_format::Origin;
use gemelo_volume::NewCopy;

/// The tags of holds.
const TAGS: [&str; 3] = ["backup", "audit", "test"];

impl Driver<'_> {
    /// Snapshots all volumes at one moment, if there are few.
    pub(super) fn snapshot_all(&mut self) -> Result<(), Down> {
        let sources: Vec<String> = self.model.volumes.keys().cloned().collect();
        if sources.is_empty() || sources.len() > 3 {
            return Ok(());
        }
        let copies: Vec<NewCopy> =
            sources.into_iter().map(|source| NewCopy { source, name: self.fresh_name() }).collect();
        self.change(
            |pool| pool.snapshot_volumes(&copies),
            |volumes| {
                for NewCopy { source, name } in &copies {
                    let copy = volumes[source].clone();
                    let copy = ModelVolume { read_only: true, holds: Vec::new(), ..copy };
                    volumes.insert(name.clone(), copy);
                }
            },
        )
    }

    /// Gives a volume the contents of one of its snapshots.
    pub(super) fn roll_back(&mut self) -> Result<(), Down> {
        let records: Vec<_> = self.pool.volumes().into_iter().map(|one| one.record).collect();
        let pairs = records.iter().filter(|snapshot| snapshot.read_only).filter_map(|snapshot| {
            let Origin::Clone { volume, .. } = snapshot.birth.origin else { return None };
            let of = records.iter().find(|record| record.id == volume && !record.read_only)?;
            Some((of.name.clone(), snapshot.name.clone()))
        });
        let pairs: Vec<(String, String)> = pairs.collect();
        let at = self.random.below(pairs.len().max(1) as u64) as usize;
        let Some((name, snapshot)) = pairs.get(at) else { return Ok(()) };
        let handle = self.pool.volume(name).unwrap();
        self.model.begin_change(|volumes| {
            let blocks = volumes[snapshot].blocks.clone();
            volumes.get_mut(name).unwrap().blocks = blocks;
        });
        if let Err(error) = self.pool.roll_back_volume(name, snapshot) {
            self.failed(&error)?;
            // A handle from before tells whether it was made, which may not be durable.
            if read(&handle, 0, BLOCK).is_ok() {
                self.model.end_change(false);
                return Ok(());
            }
            self.simulation.set_fault(Fault::Never);
            self.pool.flush().map_err(|_| Down)?;
        }
        assert!(read(&handle, 0, BLOCK).is_err(), "a handle from before sees {name}");
        self.model.end_change(true);
        self.model.rolled_back += 1;
        Ok(())
    }

    /// Adds a hold to a snapshot, or takes one away. A snapshot with a hold is not removed.
    pub(super) fn hold(&mut self) -> Result<(), Down> {
        let named = self.any_volume().filter(|name| self.model.volumes[name].read_only);
        let Some(name) = named else { return Ok(()) };
        let tag = TAGS[self.random.below(TAGS.len() as u64) as usize];
        let is_held = self.model.volumes[&name].holds.iter().any(|held| held == tag);
        self.change(
            |pool| pool.hold_snapshot(&name, tag, !is_held),
            |volumes| {
                let holds = &mut volumes.get_mut(&name).unwrap().holds;
                holds.retain(|held| held != tag);
                if !is_held {
                    holds.push(tag.to_owned());
                }
                holds.sort();
            },
        )
    }

    pub(super) fn remove(&mut self) -> Result<(), Down> {
        let Some(name) = self.any_volume() else { return Ok(()) };
        if !self.model.volumes[&name].holds.is_empty() {
            let refused = self.pool.remove_volume(&name);
            let is_refused = matches!(refused, Err(VolumeError::Held { .. }));
            return if is_refused { Ok(()) } else { self.done(refused.map(drop)) };
        }
        self.change(|pool| pool.remove_volume(&name), |volumes| drop(volumes.remove(&name)))
    }
}
