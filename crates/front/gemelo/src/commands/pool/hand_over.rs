//! `gemelo pool hand-over`.

use crate::context::Context;
use crate::exit::{Failure, Outcome, refused};
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_place::PoolPlace;
use gemelo_serve::{PoolRequest, Purpose};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let pool = &arguments.pool;
    let PoolPlace::Member(member) = pool else {
        let why = "only this host can have a pool in a directory: stop its server instead";
        return Err(refused!("{pool}: {why}"));
    };
    let epoch = member.epoch().map_err(|error| Failure::from(error).context(pool.to_string()))?;
    let access = pools::open(pool, Purpose::Look, context)?;
    let asked = pools::ask(&access, &PoolRequest::HandOver, context);
    access.close()?;
    asked?;
    member
        .wait_for_hand_over(epoch, &context.stop)
        .map_err(|error| Failure::from(error).context(pool.to_string()))?;
    context.print(&format!("{pool}: handed over\n"))?;
    Ok(Outcome::Done)
}
