//! The state that flowops of a thread keep between their turns, by cell.

/// The state of a limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limit {
    pub(super) last: u64,
    pub(super) credit: i64,
}

/// The sums of `testrandvar`.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: u64,
    sum: f64,
    squares: f64,
}

/// The state that flowops of a thread keep, by cell.
pub(super) struct FlowopState {
    limits: Vec<Limit>,
    moments: Vec<Moments>,
}

impl FlowopState {
    pub(super) fn new(cells: usize) -> Self {
        Self { limits: vec![Limit::default(); cells], moments: vec![Moments::default(); cells] }
    }

    pub(super) fn limit_mut(&mut self, cell: usize) -> &mut Limit {
        &mut self.limits[cell]
    }

    /// Adds a value that `testrandvar` drew.
    pub(super) fn add_value(&mut self, cell: usize, value: f64) {
        let moments = &mut self.moments[cell];
        moments.count += 1;
        moments.sum += value;
        moments.squares += value * value;
    }

    /// Returns a line about each `testrandvar` that drew values. `name_of` names a cell.
    pub(super) fn moment_lines<'a>(
        &'a self,
        name_of: impl Fn(usize) -> &'a str,
    ) -> impl Iterator<Item = String> {
        let drawn = self.moments.iter().enumerate().filter(|(_, moments)| moments.count > 0);
        drawn.map(move |(cell, moments)| {
            let mean = moments.sum / moments.count as f64;
            let deviation = (moments.squares / moments.count as f64 - mean * mean).max(0.0).sqrt();
            format!(
                "testrandvar {}: ops = {}, mean = {mean:8.2}, stddev = {:8.2}",
                name_of(cell),
                moments.count,
                deviation / mean
            )
        })
    }
}
