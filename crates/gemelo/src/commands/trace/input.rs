//! The loop over the records of a trace, with progress and interruption.

use crate::context::Context;
use crate::exit::bad_input;
use gemelo_base::Unit;
use gemelo_trace::{Record, RecordSource, TraceError};

/// Records between two looks at the stop flag, and reports of progress.
const REPORT_EVERY: u64 = 1 << 14;

/// An error of a trace, marked as bad input if the trace is at fault.
pub(crate) fn failed(error: TraceError) -> anyhow::Error {
    if error.is_bad_input() { bad_input(error.into()) } else { error.into() }
}

/// Gives every record to `each`. Returns whether the trace came to its end, rather than to Ctrl-C.
pub(crate) fn for_each<Source: RecordSource>(
    source: &mut Source,
    context: &Context,
    (phase, total): (&str, Option<u64>),
    mut each: impl FnMut(&Record, &Source) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    context.monitor.begin(phase, Unit::Items, total);
    let mut record = Record::new();
    let mut unreported = 0;
    while source.next_record(&mut record).map_err(failed)? {
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
