//! The disk itself: each call waits at its gates, meets its fault, and then changes the image.

use super::*;

impl SimulatedDisk {
    /// Delays a call: at a gate, which may make it fail, and by the sleep of a slow disk.
    fn wait(&self, call: Call, offset: u64) {
        self.maybe_panic(Some(call));
        let (gate, delay) = {
            let mut world = self.world.lock().unwrap();
            world.gates.retain(|gate| Arc::strong_count(gate) > 1);
            let gate =
                world.gates.iter().find(|gate| gate.takes(self.which, call, offset)).cloned();
            (gate, world.delay())
        };
        if gate.is_some_and(|gate| gate.pass()) {
            let failing = (self.which, call, offset..offset + 1);
            self.world.lock().unwrap().failing.push(failing);
        }
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
    }

    fn maybe_panic(&self, call: Option<Call>) {
        let panics = self.world.lock().unwrap().panics(call);
        assert!(!panics, "a defect that the test has put in");
    }

    /// Reads a run as one call. An error hits one of its requests, and the others succeed.
    fn read_run(&self, run: &mut [DiskRead<'_>]) {
        let Some(offset) = run.first().map(|read| read.offset) else { return };
        self.wait(Call::Read, offset);
        let mut world = self.world.lock().unwrap();
        if world.check_broken(self.which).is_err() {
            let broken = || Err(io::Error::other("the disk does not answer"));
            return run.iter_mut().for_each(|read| read.outcome = broken());
        }
        let ranges: Vec<_> = run.iter().map(|read| range(read.offset, read.buffer.len())).collect();
        let hit = world.enter_run((self.which, Call::Read), &ranges, false);
        for (number, read) in run.iter_mut().enumerate() {
            let start = read.offset as usize;
            let live = &world.images[self.which].live;
            let is_there = start + read.buffer.len() <= live.len();
            let read_range = range(read.offset, read.buffer.len());
            let is_unreadable = world.unreadable.iter().any(|(which, range)| {
                *which == self.which && range.start < read_range.end && read_range.start < range.end
            });
            read.outcome = match (&hit, is_there) {
                _ if is_unreadable => Err(io::Error::other("the medium is bad")),
                (Some(hit), _) if hit.takes(number, world.is_down) => Err(hit.error()),
                (_, true) => {
                    live.read(start, read.buffer);
                    Ok(())
                }
                (_, false) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            };
        }
    }

    /// Writes a run as one call. An error hits one of its requests, of which any part from its
    /// front is written. A power cut happens at one of them: those before it are written, those
    /// after it are not.
    fn write_run(&self, run: &mut [DiskWrite<'_>]) {
        let Some(offset) = run.first().map(|write| write.offset) else { return };
        self.wait(Call::Write, offset);
        let mut world = self.world.lock().unwrap();
        if world.check_broken(self.which).is_err() {
            let broken = || Err(io::Error::other("the disk does not answer"));
            return run.iter_mut().for_each(|write| write.outcome = broken());
        }
        // The metadata disk has its journal and roots from the start. Contents go to a sparse file.
        let end = run.last().map_or(0, |write| write.offset as usize + write.bytes.len());
        let takes_space = self.which == DATA || end > world.images[METADATA].live.len();
        let ranges: Vec<_> =
            run.iter().map(|write| range(write.offset, write.bytes.len())).collect();
        if self.which == DATA && !world.is_down {
            world.change_room();
            let whole = range(offset, end - offset as usize);
            if world.thin.write(&whole).is_err() {
                let full = || Err(io::ErrorKind::StorageFull.into());
                return run.iter_mut().for_each(|write| write.outcome = full());
            }
        }
        let was_down = world.is_down;
        let hit = world.enter_run((self.which, Call::Write), &ranges, takes_space);
        for (number, write) in run.iter_mut().enumerate() {
            let is_hit = hit.as_ref().is_some_and(|hit| hit.takes(number, world.is_down));
            let bytes = match &hit {
                _ if was_down => 0,
                Some(hit) if hit.crashes && number > hit.number => 0,
                Some(hit) if is_hit && !hit.crashes => {
                    world.random.below(write.bytes.len() as u64 + 1) as usize
                }
                _ => write.bytes.len(),
            };
            if bytes > 0 {
                let place = world.landing_of(self.which, write.offset as usize, bytes);
                world.images[self.which].write(place, &write.bytes[..bytes]);
            }
            if let Some(hit) = hit.as_ref().filter(|_| is_hit) {
                write.outcome = Err(hit.error());
            }
        }
        if self.which == DATA {
            world.note_lost_by(&(offset as usize..end));
        }
        if hit.is_none() {
            world.maybe_shoot();
        }
        if self.writes_durably && !world.is_down {
            world.settle(self.which);
        }
    }

    const fn place(&self, call: Option<Call>, offset: u64) -> Place {
        Place { which: self.which, call, offset }
    }

    fn change(&self, change: impl FnOnce(&mut Image)) -> io::Result<()> {
        self.maybe_panic(None);
        let mut world = self.world.lock().unwrap();
        world.check_broken(self.which)?;
        let crashes = world.enter(self.place(None, 0), false)?;
        change(&mut world.images[self.which]);
        world.maybe_shoot();
        if self.writes_durably && !crashes {
            world.settle(self.which);
        }
        world.end_call(crashes)
    }
}

impl Disk for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.world.lock().unwrap().images[self.which].live.len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut world = self.world.lock().unwrap();
        world.check_broken(self.which)?;
        let crashes = world.enter(self.place(None, 0), true)?;
        world.images[self.which].set_len(length as usize);
        world.maybe_shoot();
        if self.writes_durably && !crashes {
            world.settle(self.which);
        }
        world.end_call(crashes)
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        for run in reads.chunk_by_mut(DiskRead::is_followed_by) {
            self.read_run(run);
        }
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        let mut runs: Vec<_> = writes.chunk_by_mut(DiskWrite::is_followed_by).collect();
        if self.writes_durably {
            let random = &mut self.world.lock().unwrap().random;
            (1..runs.len()).for_each(|at| runs.swap(at, random.below(at as u64 + 1) as usize));
        }
        runs.into_iter().for_each(|run| self.write_run(run));
    }

    fn writes_durably(&self) -> bool {
        self.writes_durably
    }

    /// Few contents go to the journal of a disk with durable writes.
    fn bytes_per_sync(&self) -> u64 {
        if self.writes_durably { 4 * BLOCK as u64 } else { 128 << 10 }
    }

    fn sync(&self) -> io::Result<()> {
        let until = {
            let mut world = self.world.lock().unwrap();
            world.syncs += 1;
            world.images[self.which].sequence
        };
        self.wait(Call::Sync, 0);
        let mut world = self.world.lock().unwrap();
        match world.enter(self.place(Some(Call::Sync), 0), false) {
            Ok(false) => {
                world.maybe_shoot();
                world.images[self.which].sync(until);
                Ok(())
            }
            Ok(true) => world.end_call(true),
            Err(error) => {
                if !world.is_down {
                    let World { random, images, .. } = &mut *world;
                    images[self.which].fail_sync(until, random);
                }
                Err(error)
            }
        }
    }

    /// A discarded range may read as anything. Here it reads as bytes that no client wrote.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        if self.which == DATA {
            self.world.lock().unwrap().thin.discard(&(offset..offset + length));
        }
        self.change(|image| image.write(offset as usize, &vec![0xDD; length as usize]))
    }
}
