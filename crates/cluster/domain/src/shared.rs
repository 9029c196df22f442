//! The settings of a domain that all members share: the fingerprints, and the pool that holds
//! contents. They are in the object `domain`.

use crate::codec::{Reader, Reason, Writer};
use crate::config::{DOMAIN_OBJECT, damaged};
use crate::error::{DomainError, Result};
use gemelo_format::{FingerprintKind, Fingerprinter};
use gemelo_objects::{ObjectError, Objects};

/// The key of the kind and the key of fingerprints.
const FINGERPRINT_KEY: &str = "fingerprint";
/// The key of the name of the pool for contents.
const DATA_POOL_KEY: &str = "data-pool";
/// The text whose fingerprint identifies kind and key.
const IDENTIFIED: &[u8] = b"gemelo domain";

/// The settings that all members of a domain share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedSettings {
    /// The kind of the fingerprints.
    pub fingerprint: FingerprintKind,
    /// The key of the fingerprints.
    pub key: [u8; 32],
    /// The pool that holds contents; `None` for the pool of the index.
    pub data_pool: Option<String>,
}

impl SharedSettings {
    /// Returns a number that identifies the kind and the key of the fingerprints.
    #[must_use]
    pub fn fingerprint_id(&self) -> [u8; 16] {
        Fingerprinter::new(self.fingerprint, self.key).of(IDENTIFIED).to_bytes()
    }

    /// Reads the settings of a domain.
    ///
    /// # Errors
    /// Fails if there is none, or if a value is damaged.
    pub fn open(objects: &dyn Objects) -> Result<Self> {
        let keys = [FINGERPRINT_KEY.to_owned(), DATA_POOL_KEY.to_owned()];
        let values = match objects.get_keys(DOMAIN_OBJECT, &keys) {
            Err(ObjectError::NotFound { .. }) => return Err(DomainError::NoDomain),
            values => values?,
        };
        let mut values = values.into_iter();
        let fingerprint = values.next().flatten().ok_or(DomainError::NoDomain)?;
        let decoded = decode_fingerprint(&fingerprint);
        let (fingerprint, key) =
            decoded.map_err(|reason| damaged(DOMAIN_OBJECT, FINGERPRINT_KEY, reason))?;
        let data_pool = values.next().flatten().map(|value| decode_pool(&value)).transpose();
        let data_pool =
            data_pool.map_err(|reason| damaged(DOMAIN_OBJECT, DATA_POOL_KEY, reason))?;
        Ok(Self { fingerprint, key, data_pool })
    }

    /// Returns the keys and their values.
    pub(crate) fn encode(&self) -> Vec<(String, Vec<u8>)> {
        let value = Writer::new(self.fingerprint.byte()).bytes(&self.key).finish(FINGERPRINT_KEY);
        let mut values = vec![(FINGERPRINT_KEY.to_owned(), value)];
        values.extend(self.data_pool.as_ref().map(|pool| {
            (DATA_POOL_KEY.to_owned(), Writer::new(0).bytes(pool.as_bytes()).finish(DATA_POOL_KEY))
        }));
        values
    }
}

fn decode_fingerprint(value: &[u8]) -> std::result::Result<(FingerprintKind, [u8; 32]), Reason> {
    let mut reader = Reader::new(FINGERPRINT_KEY, value)?;
    let kind = FingerprintKind::from_byte(reader.tag).ok_or("its kind is unknown")?;
    let key = reader.array()?;
    reader.finish().map(|()| (kind, key))
}

fn decode_pool(value: &[u8]) -> std::result::Result<String, Reason> {
    let text = Reader::new(DATA_POOL_KEY, value)?.rest();
    let text = std::str::from_utf8(text).map_err(|_| "it is no text")?;
    if text.is_empty() || text.contains('\0') { Err("it is no name") } else { Ok(text.into()) }
}

/// Reads a value and encodes it again.
pub(crate) fn recode_shared(key: &str, value: &[u8]) -> std::result::Result<Vec<u8>, Reason> {
    match key {
        DATA_POOL_KEY => {
            decode_pool(value).map(|pool| Writer::new(0).bytes(pool.as_bytes()).finish(key))
        }
        _ => decode_fingerprint(value)
            .map(|(kind, secret)| Writer::new(kind.byte()).bytes(&secret).finish(key)),
    }
}
