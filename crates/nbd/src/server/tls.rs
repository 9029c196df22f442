//! Whether and how sessions are encrypted.

use crate::certificates::{TlsError, authorities, certificates, private_key};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use std::path::Path;
use std::sync::Arc;

/// Whether sessions are encrypted.
#[derive(Debug, Clone, Default)]
pub enum TlsPolicy {
    /// Never.
    #[default]
    Off,
    /// If the client asks for it.
    Offered(Arc<ServerConfig>),
    /// Always; others are told so and nothing else.
    Required(Arc<ServerConfig>),
}

impl TlsPolicy {
    pub(crate) fn is_required(&self) -> bool {
        matches!(self, Self::Required(_))
    }

    pub(crate) fn config(&self) -> Option<Arc<ServerConfig>> {
        match self {
            Self::Off => None,
            Self::Offered(config) | Self::Required(config) => Some(Arc::clone(config)),
        }
    }
}

/// A server's settings from PEM files: its certificate chain, its key and, if clients must show a certificate, the
/// authorities that may have signed it.
///
/// # Errors
/// If a file cannot be read, or what it holds cannot be used.
pub fn tls_from_files(
    certificate: &Path,
    key: &Path,
    client_authority: Option<&Path>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    Ok(Arc::new(builder.with_single_cert(certificates(certificate)?, private_key(key)?)?))
}
