//! The order in which stretches are arranged: in the background by their marks, and by a command
//! all of them.

use super::marks::{Marks, Stretch, Tick};
use super::runs::FreeRuns;
use super::{ArrangeReport, Arranger};
use crate::engine::VolumeShared;
use crate::engine::mover::chunk::Visited;
use crate::error::Result;
use gemelo_format::{Lbn, VolumeId};
use std::sync::Arc;

/// A stretch of a volume with chunks that are left.
struct Current {
    volume: Arc<VolumeShared>,
    stretch: Stretch,
}

/// The progress of one thread that arranges.
#[derive(Default)]
pub(super) struct Walk {
    current: Option<Current>,
    /// The volume of the last stretch. The next stretch is looked for in the volume after it.
    last: Option<VolumeId>,
    pub(super) runs: FreeRuns,
}

/// The rule that says which stretches are due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    /// Stretches that were written last no later than this.
    pub(super) until: Tick,
    /// `true` if stretches are due whose last write is unknown.
    pub(super) sweeps: bool,
}

impl Arranger {
    /// Arranges one chunk of a stretch that is due. Returns `None` if there is none.
    pub(super) fn arrange_next(&self, walk: &mut Walk, due: Due) -> Result<Option<ArrangeReport>> {
        self.mover.health.check_writable()?;
        if walk.current.is_none() {
            walk.current = self.next_stretch(walk.last, due)?;
        }
        let Some(Current { volume, stretch }) = walk.current.take() else { return Ok(None) };
        walk.last = Some(volume.id());
        let removed = volume.enter();
        let blocks = volume.blocks();
        let chunk = self.first_chunk(stretch, blocks);
        let marks = volume.marks();
        // A stretch that was written since it was taken is marked, and will be taken again.
        if *removed || chunk.first >= chunk.end || marks.is_marked(blocks, Lbn(chunk.first)) {
            return Ok(Some(ArrangeReport::default()));
        }
        let left = Stretch { first: chunk.end, ..stretch };
        let again = || marks.mark(blocks, std::iter::once(Lbn(chunk.first)), self.ticker.now());
        let arranged = match self.arrange_chunk(&volume, chunk, (&mut walk.runs, None)) {
            Ok(arranged) => arranged,
            Err(error) => {
                again();
                return Err(error);
            }
        };
        drop(removed);
        if arranged.is_left {
            again();
        } else if left.first < left.end {
            walk.current = Some(Current { volume, stretch: left });
        }
        Ok(Some(arranged.report))
    }

    fn first_chunk(&self, stretch: Stretch, blocks: u64) -> Stretch {
        let Stretch { first, end } = stretch;
        Stretch { first, end: end.min(blocks).min(first + self.mover.chunk_blocks()) }
    }

    /// Takes a stretch that is due, of the first volume after `last` that has one.
    fn next_stretch(&self, last: Option<VolumeId>, due: Due) -> Result<Option<Current>> {
        let mut volumes: Vec<_> = self.mover.catalogue.all().into_values().collect();
        volumes.sort_by_key(|volume| (Some(volume.id()) <= last, volume.id()));
        for volume in volumes {
            let removed = volume.enter();
            if *removed {
                continue;
            }
            let blocks = volume.blocks();
            let mut found = volume.marks().take(blocks, due.until);
            if found.is_none() && due.sweeps {
                found = self.sweep_on(&volume, blocks)?;
            }
            drop(removed);
            if let Some(stretch) = found {
                return Ok(Some(Current { volume, stretch }));
            }
        }
        Ok(None)
    }

    /// Moves the sweep of a volume on, and returns the stretch that it comes to.
    fn sweep_on(&self, volume: &VolumeShared, blocks: u64) -> Result<Option<Stretch>> {
        let marks = volume.marks();
        let Some(from) = marks.sweep_from() else { return Ok(None) };
        let mapped = self.mover.log.next_mapped(volume.id(), from, Lbn(blocks))?;
        let stretch = mapped.map(|lbn| Marks::stretch_of(blocks, lbn));
        marks.go_on(from, stretch.map(|stretch| Lbn(stretch.end)));
        Ok(stretch)
    }

    /// Arranges all stretches of all volumes, whether marked or not, until `each` returns an error.
    pub(crate) fn arrange_all(
        &self,
        mut each: impl FnMut(&ArrangeReport) -> Result<()>,
    ) -> Result<ArrangeReport> {
        let mut total = ArrangeReport::default();
        let (mut runs, mut visited) = (FreeRuns::default(), Visited::default());
        for volume in self.mover.volumes() {
            volume.marks().end_sweep();
            runs.forget();
            let mut step = |left: Stretch, visited: &Visited| {
                self.arrange_next_of(&volume, left, (&mut runs, visited))
            };
            let done = self.mover.each_chunk((&volume, &mut visited), &mut step, &mut |report| {
                total.add(report);
                each(&report)
            });
            if done.is_err() || total.is_short_of_room {
                volume.marks().mark_all();
            }
            done?;
        }
        self.mover.settle_old_places()?;
        Ok(total)
    }

    /// Arranges the chunk of a volume with the first of these LBNs. Returns the LBN after it.
    fn arrange_next_of(
        &self,
        volume: &VolumeShared,
        left: Stretch,
        means: (&mut FreeRuns, &Visited),
    ) -> Result<(ArrangeReport, u64)> {
        let (chunk_blocks, blocks) = (self.mover.chunk_blocks(), left.end);
        let first = left.first / chunk_blocks * chunk_blocks;
        let chunk = self.first_chunk(Stretch { first, ..left }, blocks);
        // A stretch of several chunks may be written again after its first chunk is done.
        if Marks::stretch_of(blocks, Lbn(first)).first == first {
            volume.marks().clear(blocks, Lbn(first));
        }
        Ok((self.arrange_with_room(volume, chunk, means)?, chunk.end))
    }

    /// Arranges a chunk. Without room it makes the moves so far durable, which frees the old
    /// places, and tries once more.
    fn arrange_with_room(
        &self,
        volume: &VolumeShared,
        chunk: Stretch,
        (runs, visited): (&mut FreeRuns, &Visited),
    ) -> Result<ArrangeReport> {
        let mut arranged = self.arrange_chunk(volume, chunk, (runs, Some(visited)))?;
        if arranged.report.is_short_of_room && self.mover.free_old_places()? {
            runs.forget();
            arranged = self.arrange_chunk(volume, chunk, (runs, Some(visited)))?;
        }
        if arranged.is_left {
            let again = std::iter::once(Lbn(chunk.first));
            volume.marks().mark(volume.blocks(), again, self.ticker.now());
        }
        Ok(arranged.report)
    }
}
