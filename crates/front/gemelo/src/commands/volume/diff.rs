//! `gemelo volume diff`.

use crate::context::Context;
use crate::exit::{Outcome, refused};
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::pools;
use crate::table::Table;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_base::units::{format_counted, format_size};
use gemelo_place::{PoolPlace, VolumePath};
use gemelo_record::ResultFile;
use gemelo_serve::{PoolAccess, PoolRequest, Purpose, Reply};
use gemelo_volume::{DifferenceKind, DifferingRange};
use schemars::JsonSchema;
use serde::Serialize;

const KIND: Kind<ResultFile<Input<'static>, Differences>> =
    Kind::new("gemelo.volume-diff/1", "Result of gemelo volume diff");

pub(crate) const DESCRIBED: Described = KIND.described();

/// Most ranges that the text lists. The JSON lists all.
const MAX_LISTED: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The earlier snapshot: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/EARLIER", value_parser = volume_path_parser())]
    earlier: VolumePath,
    /// The later snapshot, or a volume, of the same pool
    #[arg(value_name = "POOL/LATER", value_parser = volume_path_parser())]
    later: VolumePath,
    #[command(flatten)]
    json: JsonOutput,
}

#[derive(JsonSchema, Serialize)]
struct Input<'a> {
    /// The pool.
    pool: &'a PoolPlace,
    /// The name of the earlier snapshot.
    earlier: &'a str,
    /// The name of the later one.
    later: &'a str,
}

/// What differs.
#[derive(Default, JsonSchema, Serialize)]
struct Differences {
    /// Size of the earlier snapshot.
    earlier_size_bytes: u64,
    /// Size of the later one.
    later_size_bytes: u64,
    /// Bytes that were zeros, and hold data now.
    new_bytes: u64,
    /// Bytes of blocks that hold other data.
    changed_bytes: u64,
    /// Bytes that held data, and are zeros now.
    zero_bytes: u64,
    /// The ranges in order.
    ranges: Vec<DifferingRange>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let Arguments { earlier, later, .. } = arguments;
    if earlier.pool != later.pool {
        return Err(refused!(
            "{earlier} and {later} are of different pools, which share no maps: give two volumes of \
             one pool"
        ));
    }
    let access = pools::open(&later.pool, Purpose::Send, context)?;
    let found = arguments.compare(&access, context)?;
    access.close()?;
    let text = text(&found);
    let input = Input { pool: &later.pool, earlier: &earlier.name, later: &later.name };
    arguments.json.finish(context, KIND.made(input, found, Vec::new()), &text)?;
    Ok(Outcome::Done)
}

impl Arguments {
    fn compare(&self, access: &PoolAccess, context: &Context) -> crate::Result<Differences> {
        let (mut found, mut from_bytes) = (Differences::default(), 0);
        loop {
            let request = PoolRequest::DifferingRanges {
                name: self.later.name.clone(),
                since: self.earlier.name.clone(),
                from_bytes,
            };
            let Reply::DifferingRanges(some) = pools::ask(access, &request, context)? else {
                return Err(pools::other_version());
            };
            (found.earlier_size_bytes, found.later_size_bytes) =
                (some.since_size_bytes, some.size_bytes);
            some.ranges.into_iter().for_each(|range| found.add(range));
            if some.end_bytes >= some.size_bytes || some.end_bytes <= from_bytes {
                return Ok(found);
            }
            from_bytes = some.end_bytes;
        }
    }
}

impl Differences {
    fn add(&mut self, range: DifferingRange) {
        let sum = match range.kind {
            DifferenceKind::New => &mut self.new_bytes,
            DifferenceKind::Changed => &mut self.changed_bytes,
            DifferenceKind::Zero => &mut self.zero_bytes,
        };
        *sum += range.length_bytes;
        match self.ranges.last_mut() {
            Some(last)
                if last.kind == range.kind
                    && last.offset_bytes + last.length_bytes == range.offset_bytes =>
            {
                last.length_bytes += range.length_bytes;
            }
            _ => self.ranges.push(range),
        }
    }
}

const fn name_of(kind: DifferenceKind) -> &'static str {
    match kind {
        DifferenceKind::New => "new",
        DifferenceKind::Changed => "changed",
        DifferenceKind::Zero => "zero now",
    }
}

fn text(found: &Differences) -> String {
    let Differences { earlier_size_bytes, later_size_bytes, new_bytes, .. } = found;
    let mut table = Table::new();
    for range in found.ranges.iter().take(MAX_LISTED) {
        table.row([
            format!("byte {}", range.offset_bytes),
            format_size(range.length_bytes),
            name_of(range.kind).to_owned(),
        ]);
    }
    let mut text = table.render(0);
    if found.ranges.len() > MAX_LISTED {
        let more = format_counted((found.ranges.len() - MAX_LISTED) as u64, "further range");
        text += &format!("and {more}, which --json lists\n");
    }
    text += &format!(
        "{} changed, {} new, {} zero now, in {}\n",
        format_size(found.changed_bytes),
        format_size(*new_bytes),
        format_size(found.zero_bytes),
        format_counted(found.ranges.len() as u64, "range")
    );
    if earlier_size_bytes != later_size_bytes {
        text += &format!(
            "the size was {}, and is {}\n",
            format_size(*earlier_size_bytes),
            format_size(*later_size_bytes)
        );
    }
    text
}
