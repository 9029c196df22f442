//! The settings of a domain, in the object `domain`.

use crate::codec::{Reader, Reason, Writer};
use crate::error::{DomainError, Result};
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::shard::{MAX_DEPTH, Shard};
use crate::shared::SharedSettings;
use gemelo_format::{Features, is_block_size};
use gemelo_objects::{Guard, ObjectError, Objects, Operation, Request, Update};

/// The object with the settings.
pub(crate) const DOMAIN_OBJECT: &str = "domain";
/// The key of the settings.
const CONFIG_KEY: &str = "config";
/// Shards created at once.
const CREATED_AT_ONCE: usize = 256;

/// The settings that all members of a domain share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainConfig {
    /// The bytes of a block.
    pub block_bytes: u32,
    /// The bits of a fingerprint that choose a shard that was never split.
    pub depth: u8,
    /// Identifies the fingerprint's kind and key without giving the key away.
    pub fingerprint_id: [u8; 16],
    /// The features that this program does not know, of all values and ledgers of the domain. None
    /// of a domain that was opened is incompatible.
    pub unknown: Features,
}

impl DomainConfig {
    /// Creates the domain. A creation that was interrupted is continued by another one with the
    /// same settings.
    ///
    /// # Errors
    /// Fails if a domain with other settings exists.
    pub fn create(&self, objects: &dyn Objects) -> Result<()> {
        self.create_with(objects, None)
    }

    /// Creates the domain together with what its members share, whose fingerprints the settings
    /// name.
    ///
    /// # Errors
    /// Fails as [`Self::create`] does.
    pub fn create_shared(&self, objects: &dyn Objects, shared: &SharedSettings) -> Result<()> {
        self.create_with(objects, Some(shared))
    }

    fn create_with(&self, objects: &dyn Objects, shared: Option<&SharedSettings>) -> Result<()> {
        if self.depth > MAX_DEPTH {
            let reason = format!("{} shard bits; the most are {MAX_DEPTH}", self.depth);
            return Err(DomainError::Invalid { reason });
        }
        let mut set = vec![(CONFIG_KEY.into(), self.encode(false))];
        set.extend(shared.into_iter().flat_map(SharedSettings::encode));
        let update = Update { creates: true, set, ..Update::default() };
        match objects.update(DOMAIN_OBJECT, &update) {
            Ok(()) => {}
            Err(ObjectError::Exists { .. }) => match read(objects)? {
                Some((found, is_ready)) if found == *self && !is_ready => {
                    if let Some(shared) = shared
                        && SharedSettings::open(objects)? != *shared
                    {
                        return Err(DomainError::Exists);
                    }
                }
                _ => return Err(DomainError::Exists),
            },
            Err(error) => return Err(error.into()),
        }
        self.create_shards(objects)?;
        let expected = Some(self.encode(false));
        let guards = vec![Guard { key: CONFIG_KEY.into(), expected }];
        let set = vec![(CONFIG_KEY.into(), self.encode(true))];
        Ok(objects.update(DOMAIN_OBJECT, &Update { guards, set, ..Update::default() })?)
    }

    /// Reads the settings of a domain.
    ///
    /// # Errors
    /// Fails if there is none, or if its creation was interrupted.
    pub fn open(objects: &dyn Objects) -> Result<Self> {
        match read(objects)? {
            Some((config, true)) => Ok(config),
            _ => Err(DomainError::NoDomain),
        }
    }

    /// Reads the settings of a domain whose creation was interrupted, so that it can be continued.
    ///
    /// # Errors
    /// Fails if the store does, or if the settings are damaged.
    pub fn unfinished(objects: &dyn Objects) -> Result<Option<Self>> {
        Ok(read(objects)?.filter(|(_, is_ready)| !is_ready).map(|(config, _)| config))
    }

    /// Checks that this program knows all features without which it may not write to the domain.
    ///
    /// # Errors
    /// Fails with the name of one that it does not know.
    pub fn check_writable(&self) -> Result<()> {
        match self.unknown.first_read_compatible() {
            Some(what) => Err(DomainError::ReadableOnly { what }),
            None => Ok(()),
        }
    }

    /// Checks the same of the domain in these objects. Nothing hinders where there is none.
    pub(crate) fn check_writable_there(objects: &dyn Objects) -> Result<()> {
        read(objects)?.map_or(Ok(()), |(config, _)| config.check_writable())
    }

    /// Returns whether there is a domain, or one that is half made or half removed.
    pub(crate) fn is_there(objects: &dyn Objects) -> Result<bool> {
        Ok(read(objects)?.is_some())
    }

    /// Makes a domain one whose creation was not completed, so that nothing opens it.
    pub(crate) fn unfinish(objects: &dyn Objects) -> Result<()> {
        let Some((config, _)) = read(objects)? else { return Ok(()) };
        let set = vec![(CONFIG_KEY.into(), config.encode(false))];
        Ok(objects.update(DOMAIN_OBJECT, &Update { set, ..Update::default() })?)
    }

    fn create_shards(&self, objects: &dyn Objects) -> Result<()> {
        let header = ShardHeader::new(ShardState::Open).encode();
        let set = vec![(HEADER_KEY.into(), header)];
        let update = Update { creates: true, set, ..Update::default() };
        let names: Vec<String> = Shard::all(self.depth).map(Shard::object).collect();
        for names in names.chunks(CREATED_AT_ONCE) {
            let create = |name| Request::new(name, Operation::Update(&update));
            let mut requests: Vec<_> = names.iter().map(String::as_str).map(create).collect();
            objects.execute(&mut requests);
            for request in requests {
                match request.outcome {
                    // An earlier attempt created it; no member uses it yet.
                    Err(ObjectError::Exists { .. }) => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }

    pub(crate) fn encode(&self, is_ready: bool) -> Vec<u8> {
        let writer = Writer::new(u8::from(is_ready)).u32(self.block_bytes);
        let writer = writer.u32(u32::from(self.depth)).bytes(&self.fingerprint_id);
        writer.bytes(&self.unknown.to_bytes()).finish(CONFIG_KEY)
    }

    pub(crate) fn decode(value: &[u8]) -> std::result::Result<(Self, bool), Reason> {
        let mut reader = Reader::new(CONFIG_KEY, value)?;
        let is_ready = match reader.tag {
            0 => false,
            1 => true,
            _ => return Err("its state is unknown"),
        };
        let block_bytes = reader.u32()?;
        if !is_block_size(block_bytes) {
            return Err("its size of a block is out of range");
        }
        let depth = u8::try_from(reader.u32()?).ok().filter(|depth| *depth <= MAX_DEPTH);
        let depth = depth.ok_or("it has too many shards")?;
        let fingerprint_id = reader.array()?;
        let unknown = Features::from_bytes(&reader.array()?).unwrap_or(Features::NONE);
        let config = Self { block_bytes, depth, fingerprint_id, unknown };
        reader.finish()?;
        Ok((config, is_ready))
    }
}

fn read(objects: &dyn Objects) -> Result<Option<(DomainConfig, bool)>> {
    let value = objects.value_if_there(DOMAIN_OBJECT, CONFIG_KEY)?;
    let Some(value) = value else { return Ok(None) };
    let damaged = |reason| damaged(DOMAIN_OBJECT, CONFIG_KEY, reason);
    let (config, is_ready) = DomainConfig::decode(&value).map_err(damaged)?;
    match config.unknown.first_incompatible() {
        Some(what) => Err(DomainError::Unknown { what }),
        None => Ok(Some((config, is_ready))),
    }
}

/// Returns the error about a damaged value.
pub(crate) fn damaged(object: &str, key: &str, reason: Reason) -> DomainError {
    DomainError::Damaged { object: object.into(), key: key.into(), reason }
}
