//! A pool's history in steps, and the judgement of what a repair leaves of it.

use super::*;
use std::cell::Cell;

/// The contents of a block over time: the step that wrote each, and its id.
pub(crate) type Contents = Vec<(usize, u64)>;

#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) name: String,
    /// The steps that made it, and the volumes that it is a copy of.
    pub(crate) made: Vec<usize>,
    pub(crate) gone: Option<usize>,
    pub(crate) blocks: Vec<Contents>,
    /// Blocks that were written in a step, with what was there before as well.
    pub(crate) written: BTreeSet<(usize, usize)>,
    /// The names that it had, and since when.
    pub(crate) renamed: Vec<(usize, String)>,
}

/// The steps of a test on a pool, and the commits of each step.
pub(crate) struct Story {
    pub(crate) simulation: Simulation,
    pub(crate) is_packed: bool,
    pub(crate) volumes: Vec<Expected>,
    /// The highest number of a commit after each step.
    pub(crate) steps: Vec<u64>,
}

pub(crate) const VOLUME_BLOCKS: u64 = 24;
pub(crate) const STEPS: usize = 9;

impl Story {
    pub(crate) fn tell(options: &PoolOptions, seed: u64) -> Self {
        let simulation = Simulation::new(seed);
        Pool::format(&simulation.disks(), options).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let is_packed = options.compression.is_some();
        let mut story = Self { simulation, is_packed, volumes: Vec::new(), steps: Vec::new() };
        let mut random = Random::new(seed);
        let modes = [DedupMode::Inline, DedupMode::Off, DedupMode::Inline];
        for (name, mode) in ["a", "b"].into_iter().zip(modes) {
            story.create(&pool, name, mode);
        }
        for _ in 0..10 {
            story.write(&pool, &mut random);
        }
        pool.checkpoint().unwrap();
        for step in 0..STEPS {
            match random.below(8) {
                0 => story.create(&pool, &format!("c{step}"), DedupMode::Inline),
                1 => story.copy(&pool, &mut random, &format!("copy{step}")),
                2 => story.swap_names(&pool, &format!("was{step}")),
                3 if step > 2 => story.remove(&pool, &mut random),
                _ => story.write(&pool, &mut random),
            }
        }
        story
    }

    pub(crate) fn end_step(&mut self) {
        self.steps.push(newest_commit(&self.simulation));
    }

    pub(crate) fn create(&mut self, pool: &Pool, name: &str, mode: DedupMode) {
        pool.create_volume(name, VOLUME_BLOCKS * BLOCK as u64, mode).unwrap();
        let made = self.steps.len();
        let blocks = vec![vec![(made, 0)]; VOLUME_BLOCKS as usize];
        self.volumes.push(Expected {
            name: name.into(),
            made: vec![made],
            gone: None,
            blocks,
            written: BTreeSet::new(),
            renamed: vec![(made, name.into())],
        });
        self.end_step();
    }

    pub(crate) fn live(&self) -> Vec<usize> {
        (0..self.volumes.len()).filter(|at| self.volumes[*at].gone.is_none()).collect()
    }

    pub(crate) fn copy(&mut self, pool: &Pool, random: &mut Random, name: &str) {
        let live = self.live();
        let source = self.volumes[live[random.below(live.len() as u64) as usize]].clone();
        pool.clone_volume(&source.name, name).unwrap();
        let made = self.steps.len();
        let renamed = vec![(made, name.into())];
        let made = [source.made.clone(), vec![made]].concat();
        self.volumes.push(Expected { name: name.into(), made, renamed, ..source });
        self.end_step();
    }

    /// The first volume is renamed, and a new one gets its name.
    pub(crate) fn swap_names(&mut self, pool: &Pool, other: &str) {
        let at = self.live()[0];
        let name = self.volumes[at].name.clone();
        pool.rename_volume(&name, other).unwrap();
        self.volumes[at].name = other.into();
        let step = self.steps.len();
        self.volumes[at].renamed.push((step, other.into()));
        self.end_step();
        self.create(pool, &name, DedupMode::Inline);
    }

    pub(crate) fn remove(&mut self, pool: &Pool, random: &mut Random) {
        let live = self.live();
        if live.len() < 2 {
            return self.write(pool, random);
        }
        let at = live[random.below(live.len() as u64) as usize];
        pool.remove_volume(&self.volumes[at].name).unwrap();
        self.volumes[at].gone = Some(self.steps.len());
        self.end_step();
    }

    /// Writes and trims some blocks, and flushes.
    pub(crate) fn write(&mut self, pool: &Pool, random: &mut Random) {
        let step = self.steps.len();
        let live = self.live();
        for _ in 0..1 + random.below(12) {
            let volume = &mut self.volumes[live[random.below(live.len() as u64) as usize]];
            let lbn = random.below(VOLUME_BLOCKS);
            let id = random.below(30);
            let held = pool.volume(&volume.name).unwrap();
            let result = match id {
                0 => crate::common::trim(&held, lbn * BLOCK as u64, BLOCK as u64),
                _ => write(&held, lbn * BLOCK as u64, &content(id, BLOCK)),
            };
            // A full store refuses writes, which is not what is looked at here. A write of what is
            // there already may change nothing, so the write before it is the one that counts.
            volume.written.insert((step, lbn as usize));
            let history = &mut volume.blocks[lbn as usize];
            if result.is_ok() && history.last().is_some_and(|(_, last)| *last != id) {
                history.push((step, id));
            }
        }
        pool.flush().unwrap();
        self.end_step();
    }

    /// The step that a commit belongs to.
    pub(crate) fn step_of(&self, number: u64) -> usize {
        self.steps.iter().position(|last| number <= *last).unwrap()
    }

    /// Commits after the newest checkpoint that others follow.
    pub(crate) fn can_be_lost(&self) -> Vec<u64> {
        let disk = self.simulation.disks().metadata;
        let superblock = read_superblock(&*disk, &mut Vec::new()).unwrap();
        let root = find_roots(&*disk, &superblock, PoolSeed::of(&superblock)).unwrap().newest;
        let numbers = commits(&self.simulation.images()[1]).into_keys();
        let newest = newest_commit(&self.simulation);
        numbers.filter(|number| (root.next_commit..newest).contains(number)).collect()
    }

    /// The volume that this name stands for after a repair.
    pub(crate) fn find(&self, name: &str) -> Vec<&Expected> {
        let base = name.split(".before-commit-").next().unwrap();
        let had = |volume: &&Expected| volume.renamed.iter().any(|(_, had)| had == base);
        self.volumes.iter().filter(had).collect()
    }
}

/// Reads all volumes and compares each block with what it may hold.
pub(crate) fn judge(
    (story, pool): (&Story, &Pool),
    what: &str,
    allows: impl Fn(&str, usize, Option<&[u8]>) -> bool,
) {
    let told = |name: &str| {
        let tell = |volume: &Expected| format!("{volume:?}");
        let volumes: Vec<String> = story.find(name).into_iter().map(tell).collect();
        format!("{volumes:?}, steps {:?}", story.steps)
    };
    for summary in pool.volumes() {
        let volume = pool.volume(&summary.record.name).unwrap();
        for lbn in 0..(summary.record.size_bytes / BLOCK as u64) as usize {
            let found = read(&volume, (lbn * BLOCK) as u64, BLOCK).ok();
            let id = found.as_ref().map(|found| (0..30).find(|id| content(*id, BLOCK) == *found));
            assert!(
                allows(&summary.record.name, lbn, found.as_deref()),
                "{what}: block {lbn} of '{}' has content {id:?}: {}",
                summary.record.name,
                told(&summary.record.name)
            );
        }
    }
}

/// New writes of every content there ever was must read back: nothing is shared with a block that
/// holds something else.
pub(crate) fn use_again(pool: &Pool, what: &str) {
    for name in pool.volumes().into_iter().map(|volume| volume.record.name).collect::<Vec<_>>() {
        pool.remove_volume(&name).unwrap();
        if pool.volumes().len() < 2 {
            break;
        }
    }
    pool.create_volume("new", 30 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("new").unwrap();
    let bytes: Vec<u8> = (1..=30).flat_map(|id| content(id, BLOCK)).collect();
    write(&volume, 0, &bytes).unwrap();
    assert!(read(&volume, 0, bytes.len()).unwrap() == bytes, "{what}: new writes");
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
}

pub(crate) fn check_repaired(damaged: &Simulation, what: &str) -> Pool {
    let report = check_data(&damaged.disks());
    assert!(report.is_clean(), "{what}: {:?}", report.problems);
    let pool = open(&damaged.disks(), tuning()).unwrap();
    assert!(!pool.is_read_only());
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
    pool
}

/// After the repair of a pool that compresses, a block holds what it held at some time, or gives an
/// error: its place may have been given to another content and back. Returns the errors.
fn judge_packed(story: &Story, damaged: &Simulation, what: &str) -> u64 {
    let pool = open(&damaged.disks(), tuning()).unwrap();
    let errors = Cell::new(0);
    judge((story, &pool), what, |name, lbn, found| {
        errors.set(errors.get() + u64::from(found.is_none()));
        story.find(name).iter().any(|volume| {
            let mut history = volume.blocks[lbn].iter();
            found.is_none_or(|found| history.any(|(_, id)| content(*id, BLOCK) == *found))
        })
    });
    errors.get()
}

/// After a skip a block holds what it held at some time, or gives an error. One that the lost step
/// did not write, or that was written since, holds what it held last.
pub(crate) fn skip(story: &Story, images: &[Vec<u8>; 2], number: u64, what: &str) -> u64 {
    let lost = story.step_of(number);
    let what = &format!("{what}, skipped");
    let damaged = Simulation::of_images(1, images.clone());
    let is_healed = repair_with(&damaged.disks(), LossChoice::Skip).is_some();
    if story.is_packed {
        return judge_packed(story, &damaged, what);
    }
    assert!(is_healed, "{what}: each content has a place");
    let pool = check_repaired(&damaged, what);
    let names: BTreeSet<String> =
        pool.volumes().into_iter().map(|volume| volume.record.name).collect();
    for volume in &story.volumes {
        let is_touched = volume.made.contains(&lost)
            || volume.gone.is_some()
            || volume.renamed.iter().any(|(step, _)| *step == lost);
        assert!(is_touched || names.contains(&volume.name), "{what}: '{}' is gone", volume.name);
    }
    judge((story, &pool), what, |name, lbn, found| {
        story.find(name).iter().any(|volume| {
            let history = &volume.blocks[lbn];
            let is_touched = volume.written.contains(&(lost, lbn))
                || volume.made.contains(&lost)
                || volume.gone == Some(lost);
            let newest = history.last().map(|(_, id)| content(*id, BLOCK));
            let is_exact = !is_touched || history.last().unwrap().0 > lost;
            match found {
                None => !is_exact,
                Some(found) if is_exact => Some(found) == newest.as_deref(),
                Some(found) => history.iter().any(|(_, id)| content(*id, BLOCK) == *found),
            }
        })
    });
    use_again(&pool, what);
    0
}

/// After going back a block holds what it held before the lost step, or gives an error.
pub(crate) fn roll_back(story: &Story, images: &[Vec<u8>; 2], number: u64, what: &str) -> u64 {
    let lost = story.step_of(number);
    let what = &format!("{what}, rolled back");
    let damaged = Simulation::of_images(1, images.clone());
    let is_healed = repair_with(&damaged.disks(), LossChoice::RollBack).is_some();
    if story.is_packed {
        return judge_packed(story, &damaged, what);
    }
    assert!(is_healed, "{what}: each content has a place");
    let pool = check_repaired(&damaged, what);
    judge((story, &pool), what, |name, lbn, found| {
        story.find(name).iter().any(|volume| {
            let before = volume.blocks[lbn].iter().rev().find(|(step, _)| *step < lost);
            let expected = before.map_or(0, |(_, id)| *id);
            found.is_none_or(|found| content(expected, BLOCK) == *found)
        })
    });
    use_again(&pool, what);
    0
}
