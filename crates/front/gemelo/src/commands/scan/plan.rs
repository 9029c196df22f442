//! `gemelo scan --plan` predicts the memory and the time of a scan.

use super::arguments::ScanArguments;
use crate::context::Context;
use crate::exit::{Outcome, refused};
use crate::kind::{Described, Kind};
use crate::table::Table;
use gemelo_base::units::{format_count, format_duration_ns, format_rate, format_size};
use gemelo_record::ResultFile;
use gemelo_scan::{PlanResult, ScanOptions, ScanRequest};

const KIND: Kind<ResultFile<&'static ScanRequest, &'static PlanResult>> =
    Kind::new("gemelo.scan-plan/1", "Result of gemelo scan --plan");

pub(super) const DESCRIBED: Described = KIND.described();

pub(super) fn run(arguments: &ScanArguments, context: &Context) -> crate::Result<Outcome> {
    if arguments.outputs.files.report.path().is_some() {
        return Err(refused!(
            "--plan counts nothing that --report could show: leave one of them out"
        ));
    }
    arguments.outputs.check(&arguments.block_size)?;
    let options = ScanOptions::new(arguments.to_request())?;
    let plan = gemelo_scan::plan(&options, context.monitor.as_ref(), &context.stop)?;
    let input = options.request();
    let made = KIND.made(input, &plan, Vec::new());
    arguments.outputs.write_json(context, made)?;
    if !arguments.outputs.files.json.is_standard_output() {
        context.print(&text(&plan))?;
    }
    let is_whole = plan.unreadable == 0 && !context.stop.is_raised();
    Ok(if is_whole { Outcome::Done } else { Outcome::Partial })
}

fn text(plan: &PlanResult) -> String {
    let mut table = Table::new();
    table.row(["files".to_owned(), format_count(plan.files)]);
    table.row(["directories".to_owned(), format_count(plan.directories)]);
    table.row(["data".to_owned(), format_size(plan.data_bytes)]);
    table.row(["without holes".to_owned(), format_size(plan.read_bytes)]);
    for size in &plan.block_sizes {
        let name = format!("table at {}, at most", format_size(u64::from(size.block_bytes)));
        table.row([name, format_size(size.table_bytes)]);
    }
    table.row(["buffers and samples".to_owned(), format_size(plan.fixed_bytes)]);
    table.row(["memory, at most".to_owned(), format_size(plan.memory_bytes)]);
    let rate = plan.bytes_per_s.map_or("unknown".to_owned(), format_rate);
    table.row(["rate of one thread".to_owned(), rate]);
    let time = plan
        .estimate_ns
        .map_or("unknown".to_owned(), |time| format!("about {}", format_duration_ns(time)));
    table.row(["time".to_owned(), time]);
    let sampled = format_size(plan.sampled_bytes);
    format!(
        "{}The rate was measured on {sampled} from random places. The page cache can have made it \
         higher than that of the scan.\n",
        table.render(0)
    )
}
