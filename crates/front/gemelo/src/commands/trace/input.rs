//! The loop over the records of a trace, which reports progress and can be interrupted.

use crate::context::Context;
use gemelo_base::Unit;
use gemelo_trace::{Record, RecordSource};

/// Number of records between two checks of the stop flag and two reports of progress.
const REPORT_EVERY: u64 = 1 << 14;

/// Calls `each` with every record. Returns `true` at the end of the trace, and `false` if it was
/// interrupted before.
pub(crate) fn for_each<Source: RecordSource>(
    source: &mut Source,
    context: &Context,
    (phase, total): (&str, Option<u64>),
    mut each: impl FnMut(&Record, &Source) -> crate::Result<()>,
) -> crate::Result<bool> {
    context.monitor.begin(phase, Unit::Items, total);
    let mut record = Record::new();
    let mut unreported = 0;
    while source.next_record(&mut record)? {
        each(&record, source)?;
        unreported += 1;
        if unreported == REPORT_EVERY {
            context.monitor.advance(unreported);
            unreported = 0;
            if context.stop.is_raised() {
                return Ok(false);
            }
        }
    }
    context.monitor.finish();
    Ok(true)
}
