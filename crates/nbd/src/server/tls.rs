//! Whether and how sessions are encrypted.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

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

/// Why certificates cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file that cannot be read or holds no PEM of that kind.
    #[error("cannot read the {what} of {}", path.display())]
    File {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A file without certificates.
    #[error("{} holds no certificate", .0.display())]
    Empty(PathBuf),
    /// Certificate and key that do not fit, or are not valid.
    #[error("certificate and key cannot be used")]
    Unusable(#[from] rustls::Error),
    /// Authorities that cannot verify anybody.
    #[error("the clients' certificate authority cannot be used")]
    Authority(#[from] rustls::server::VerifierBuilderError),
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::File { what: "certificates", path: path.to_owned(), source };
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    if found.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(found) }
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
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::File {
        what: "private key",
        path: key.to_owned(),
        source,
    })?;
    Ok(Arc::new(builder.with_single_cert(certificates(certificate)?, private)?))
}
