//! `gemelo domain stat`.

use super::{DomainArguments, Input};
use crate::context::Context;
use crate::exit::Outcome;
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::table::Table;
use clap::Args;
use gemelo_base::units::{format_count, format_size};
use gemelo_format::FingerprintKind;
use gemelo_record::ResultFile;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    domain: DomainArguments,
    #[command(flatten)]
    json: JsonOutput,
}

const KIND: Kind<ResultFile<Input, &'static DomainFigures>> =
    Kind::new("gemelo.domain/1", "Result of gemelo domain stat");

pub(crate) const DESCRIBED: Described = KIND.described();

#[derive(JsonSchema, Serialize)]
struct DomainFigures {
    /// Size of a block.
    block_bytes: u32,
    /// The hash function of the fingerprints.
    fingerprint: FingerprintKind,
    /// Ceph pool that holds contents.
    data_pool: String,
    /// Members of the domain.
    members: u64,
    /// Members that a client serves now.
    served_members: u64,
    /// Objects of the index that hold entries.
    shards: u64,
    /// Contents of the index.
    contents: u64,
    /// Contents of the fullest shard.
    max_shard_contents: u64,
}

impl DomainFigures {
    fn text(&self, domain: &str) -> String {
        let mut table = Table::new();
        table.row(["block size".to_owned(), format_size(u64::from(self.block_bytes))]);
        table.row(["contents in pool".to_owned(), self.data_pool.clone()]);
        table.row(["members".to_owned(), format_count(self.members)]);
        table.row(["members served".to_owned(), format_count(self.served_members)]);
        table.row(["shards".to_owned(), format_count(self.shards)]);
        table.row(["contents in the index".to_owned(), format_count(self.contents)]);
        table.row(["in the fullest shard".to_owned(), format_count(self.max_shard_contents)]);
        format!("{domain}\n{}", table.render(2))
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let uri = arguments.domain.uri();
    let client = arguments.domain.connect()?;
    let index = client.index_figures()?;
    let members = client.members()?;
    let mut served_members = 0;
    for (_, member) in &members {
        served_members += u64::from(client.look_at(*member)?.holder.is_some());
    }
    let figures = DomainFigures {
        block_bytes: client.config().block_bytes,
        fingerprint: client.shared().fingerprint,
        data_pool: client.shared().data_pool.clone().unwrap_or_else(|| uri.pool.clone()),
        members: members.len() as u64,
        served_members,
        shards: index.shards,
        contents: index.entries,
        max_shard_contents: index.max_shard_entries,
    };
    let text = figures.text(&uri.to_string());
    let input = Input { domain: uri.to_string() };
    let made = KIND.made(input, &figures, Vec::new());
    arguments.json.finish(context, made, &text)?;
    Ok(Outcome::Done)
}
