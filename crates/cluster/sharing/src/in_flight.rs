//! An intent in the ledger, until its fate is settled.

use gemelo_domain::Intent;
use gemelo_domain::codec::{Reader, Reason, Writer};
use gemelo_format::Pbn;

/// The prefix of the keys of intents.
pub(crate) const INTENT_PREFIX: &str = "i.";

/// An intent, and the block of each of its steps that releases one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) intent: Intent,
    pub(crate) released: Vec<Option<Pbn>>,
}

impl InFlight {
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert_eq!(self.released.len(), self.intent.steps.len(), "each change has a block or none");
        let mut writer = Writer::new(0).u32(self.released.len() as u32);
        for pbn in &self.released {
            writer = writer.u32(pbn.map_or(0, Pbn::narrow));
        }
        writer.bytes(&self.intent.encode()).finish("")
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, Reason> {
        let mut reader = Reader::new("", value)?;
        let count = reader.u32()?;
        let released = (0..count).map(|_| reader.u32().map(|number| Pbn::new(number.into())));
        let released = released.collect::<Result<_, _>>()?;
        let released: Vec<Option<Pbn>> = released;
        let intent = Intent::decode(reader.rest())?;
        if released.len() != intent.steps.len() {
            return Err("it has other blocks than changes");
        }
        Ok(Self { released, intent })
    }
}

/// No two intents give a shard the same version, so the key is the intent's alone.
pub(crate) fn intent_key(intent: &Intent) -> String {
    let (shard, version) = (intent.shard, intent.receipt().0);
    format!("{INTENT_PREFIX}{:02}.{:08x}.{version:016x}", shard.depth(), shard.bits())
}
