//! The encryption of sessions.

use crate::certificates::{TlsError, authorities, certificates, private_key};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use std::path::Path;
use std::sync::Arc;

/// The encryption that a server offers or requires.
#[derive(Debug, Clone, Default)]
pub enum TlsPolicy {
    /// The server does not encrypt.
    #[default]
    Off,
    /// A session is encrypted if the client requests it.
    Offered(Arc<ServerConfig>),
    /// Every session is encrypted. A client that has not started TLS is refused.
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

/// Makes a server's TLS configuration from PEM files: its certificate chain, its key and, if
/// clients must show a certificate, the authorities that may have signed it.
///
/// # Errors
/// Fails if a file cannot be read, or if its content cannot be used.
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
