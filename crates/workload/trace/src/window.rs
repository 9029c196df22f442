//! Selects a stretch of a trace.

use crate::error::TraceError;
use crate::record::{Names, Record, RecordSource};

/// The bounds of a stretch of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Records left out at the start.
    pub skip: u64,
    /// Most records taken after that; `None` sets no limit.
    pub limit: Option<u64>,
    /// Longest time between the first and the last record taken, in nanoseconds of the trace;
    /// `None` sets no limit.
    pub time_ns: Option<u64>,
}

/// A source of the records in a stretch of another source.
#[derive(Debug)]
pub struct Window<Source> {
    source: Source,
    skip: u64,
    left: u64,
    time_ns: u64,
    first_ns: Option<u64>,
}

impl<Source: RecordSource> Window<Source> {
    /// Creates a source for a stretch of `source`.
    pub fn new(source: Source, stretch: Stretch) -> Self {
        Self {
            source,
            skip: stretch.skip,
            left: stretch.limit.unwrap_or(u64::MAX),
            time_ns: stretch.time_ns.unwrap_or(u64::MAX),
            first_ns: None,
        }
    }

    /// Returns the underlying source.
    pub const fn source(&self) -> &Source {
        &self.source
    }
}

impl<Source: RecordSource> RecordSource for Window<Source> {
    #[inline]
    fn next_record(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        while self.skip > 0 {
            self.skip -= 1;
            if !self.source.next_record(record)? {
                self.skip = 0;
                self.left = 0;
            }
        }
        if self.left == 0 || !self.source.next_record(record)? {
            return Ok(false);
        }
        self.left -= 1;
        let first_ns = *self.first_ns.get_or_insert(record.time_ns);
        if record.time_ns.saturating_sub(first_ns) > self.time_ns {
            self.left = 0;
            return Ok(false);
        }
        Ok(true)
    }

    fn names(&self) -> &Names {
        self.source.names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Seconds(u64, Names);

    impl RecordSource for Seconds {
        fn next_record(&mut self, record: &mut Record) -> Result<bool, TraceError> {
            record.time_ns = self.0 * 1_000_000_000;
            self.0 += 1;
            Ok(self.0 <= 10)
        }

        fn names(&self) -> &Names {
            &self.1
        }
    }

    #[test]
    fn stretches_are_cut_by_records_and_by_time() {
        let taken = |skip, limit, time_ns| {
            let mut window =
                Window::new(Seconds(0, Names::default()), Stretch { skip, limit, time_ns });
            let mut record = Record::new();
            let mut taken = Vec::new();
            while window.next_record(&mut record).unwrap() {
                taken.push(record.time_ns / 1_000_000_000);
            }
            assert!(!window.next_record(&mut record).unwrap());
            taken
        };
        assert_eq!(taken(0, None, None), (0..10).collect::<Vec<_>>());
        assert_eq!(taken(3, Some(2), None), [3, 4]);
        assert_eq!(taken(7, None, Some(1_000_000_000)), [7, 8]);
        assert_eq!(taken(0, Some(0), None), [0u64; 0]);
        assert_eq!(taken(20, None, None), [0u64; 0]);
    }
}
