//! `gemelo domain`: domains of deduplication across hosts.

pub(super) mod check;
mod create;
pub(super) mod ls;
mod rm;
pub(super) mod stat;

use crate::context::Context;
use crate::exit::{Failure, Outcome};
use clap::{Args, Subcommand};
use gemelo_member::{DomainClient, DomainUri};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// The longest time that a command waits for an answer of the cluster. A storage server that died
/// is noticed after 20 seconds.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a domain in a namespace of a Ceph pool
    ///
    /// The pool holds the index and the metadata of the members and must be replicated. Contents
    /// can be in another pool, which may be erasure-coded. All members have the block size and the
    /// fingerprints of the domain. A creation that was interrupted is completed by the same
    /// command.
    Create(create::Arguments),
    /// Compare the ledgers of all members with the index
    ///
    /// Members may be served meanwhile: apparent contradictions are checked again. With --repair,
    /// shards are rebuilt from the ledgers; no member may be served then.
    Check(check::Arguments),
    /// List the members of a domain, with the clients that serve them
    Ls(ls::Arguments),
    /// Remove a domain that has no members
    ///
    /// Remove its members first, with 'gemelo pool rm'. Objects that are not of the domain stay.
    Rm(rm::Arguments),
    /// Show the settings of a domain and the figures of its index
    Stat(stat::Arguments),
}

/// The domain and how to connect to it.
#[derive(Debug, Args)]
struct DomainArguments {
    /// The domain: a pool of Ceph and a namespace in it
    #[arg(value_name = "rados:POOL/NAMESPACE")]
    domain: DomainUri,
    /// Configuration of Ceph [default: $CEPH_CONF, or /etc/ceph/ceph.conf]
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Name of the Ceph user, without client. [default: admin]
    #[arg(long, value_name = "USER")]
    id: Option<String>,
}

/// The input of a command, as its result file keeps it.
#[derive(JsonSchema, Serialize)]
struct Input {
    /// Name of the domain.
    domain: String,
}

impl DomainArguments {
    fn uri(&self) -> DomainUri {
        let mut uri = self.domain.clone();
        uri.configuration = self.conf.clone().or(uri.configuration);
        uri.user = self.id.clone().or(uri.user);
        uri
    }

    fn connect(&self) -> crate::Result<DomainClient> {
        let uri = self.uri();
        let connected = DomainClient::connect(&uri, PATIENCE);
        connected.map_err(|error| Failure::from(error).context(uri.to_string()))
    }
}

pub(crate) fn run(action: &Action, context: &Context) -> crate::Result<Outcome> {
    match action {
        Action::Create(arguments) => create::run(arguments, context),
        Action::Check(arguments) => check::run(arguments, context),
        Action::Ls(arguments) => ls::run(arguments, context),
        Action::Rm(arguments) => rm::run(arguments, context),
        Action::Stat(arguments) => stat::run(arguments, context),
    }
}
