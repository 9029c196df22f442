//! Certificates and keys from PEM files, for servers and clients.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use thiserror::Error;

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
    /// A private key of a kind or size that is not supported.
    #[error(
        "the private key of {} cannot be used: it must be an ECDSA key on P-256 or P-384, an Ed25519 key, or an RSA key \
         of 2048, 3072 or 4096 bits; `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out FILE` makes one",
        .0.display()
    )]
    Key(PathBuf),
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

fn failed(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(rustls::pki_types::pem::Error) -> TlsError {
    move |source| TlsError::File { what, path: path.to_owned(), source }
}

/// The certificates of a file, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let what = "certificates";
    let read = CertificateDer::pem_file_iter(path).map_err(failed(what, path))?;
    let found: Vec<_> = read.collect::<Result<_, _>>().map_err(failed(what, path))?;
    if found.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(found) }
}

/// The private key of a file, one that can sign. The cryptographic library takes RSA keys only if both primes have a
/// multiple of 512 bits.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let key = PrivateKeyDer::from_pem_file(path).map_err(failed("private key", path))?;
    match rustls::crypto::ring::sign::any_supported_type(&key) {
        Ok(_) => Ok(key),
        Err(_) => Err(TlsError::Key(path.to_owned())),
    }
}

/// The authorities of a file, to verify others with.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        roots.add(authority)?;
    }
    Ok(roots)
}
