//! One result of all hosts, and the places to which it goes.

use crate::context::Context;
use crate::exit::{Failures, failed};
use crate::result_options::ResultOptions;
use gemelo_figures::AnyResult;
use gemelo_record::{HostFile, HostRecord, HostsFile, ResultFile, slowest};
use serde::Serialize;

/// Makes one file of the results of the hosts. Its warnings tell of hosts that failed.
pub(crate) fn join<Input, Measured>(
    hosts: Vec<HostRecord<Input, Measured>>,
    rate: impl Fn(&ResultFile<Input, Measured>) -> f64,
    merge: impl FnOnce(&[HostFile<'_, Input, Measured>]) -> Option<ResultFile<Input, Measured>>,
) -> crate::Result<HostsFile<Input, Measured>> {
    let files: Vec<_> = hosts.iter().filter_map(HostRecord::result).collect();
    let slowest_host = slowest(&files, rate).map(str::to_owned);
    let mut file = merge(&files).ok_or_else(|| failed!("no host has a result"))?;
    let failures = hosts.iter().filter_map(|host| Some((&host.host, host.failure.as_ref()?)));
    file.warnings.extend(failures.map(|(host, failure)| format!("host {host}: {failure}")));
    Ok(HostsFile { file, slowest_host, hosts })
}

/// Prints a result unless it goes to the standard output in another form, tells its warnings, and
/// writes it.
pub(crate) fn deliver<Input, Measured>(
    file: &HostsFile<Input, Measured>,
    shown: impl FnOnce() -> String,
    (files, force): (&ResultOptions, bool),
    context: &Context,
) -> Failures
where
    HostsFile<Input, Measured>: Serialize + Clone + Into<AnyResult>,
{
    let monitor = context.monitor.as_ref();
    let mut failures = Failures::default();
    if !files.is_standard_output() {
        failures.note(context.print(&shown()), monitor);
    }
    file.file.warnings.iter().for_each(|warning| monitor.warn(warning));
    files.write(force, file, &mut failures, monitor);
    failures
}
