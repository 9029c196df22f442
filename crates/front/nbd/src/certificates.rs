//! Reads certificates and keys from PEM files, for servers and clients.

use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The reason why certificates or keys cannot be used.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum TlsError {
    /// The file cannot be read, or it holds no PEM section of the expected kind.
    #[error("cannot read the {what} of {}", path.shown())]
    File {
        /// The expected kind of PEM section.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the PEM reader.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The kind or size of the private key is not supported.
    #[error(
        "cannot use the private key in {}: it must be an ECDSA key on P-256 or P-384, an Ed25519 \
         key, or an RSA key of 2048, 3072 or 4096 bits; `openssl genpkey -algorithm EC -pkeyopt \
         ec_paramgen_curve:P-256 -out FILE` makes one",
        .0.shown()
    )]
    Key(PathBuf),
    /// The file holds no certificate.
    #[error("{} holds no certificate: give a PEM file with a certificate chain", .0.shown())]
    Empty(PathBuf),
    /// The certificate and the key do not belong together, or one of them is invalid.
    #[error("cannot use the certificate with its key")]
    Unusable(#[from] rustls::Error),
    /// The certificates cannot serve as authorities that verify clients.
    #[error("cannot use the certificate authority for clients")]
    Authority(#[from] rustls::server::VerifierBuilderError),
}

fn failed(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(rustls::pki_types::pem::Error) -> TlsError {
    move |source| TlsError::File { what, path: path.to_owned(), source }
}

/// Reads the certificates of a file. At least one is there.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let what = "certificates";
    let read = CertificateDer::pem_file_iter(path).map_err(failed(what, path))?;
    let found: Vec<_> = read.collect::<Result<_, _>>().map_err(failed(what, path))?;
    if found.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(found) }
}

/// Reads the private key of a file and checks that it can sign. The cryptographic library supports
/// RSA keys only if both primes have a multiple of 512 bits.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let key = PrivateKeyDer::from_pem_file(path).map_err(failed("private key", path))?;
    match rustls::crypto::ring::sign::any_supported_type(&key) {
        Ok(_) => Ok(key),
        Err(_) => Err(TlsError::Key(path.to_owned())),
    }
}

/// Reads the certificate authorities of a file, which verify the other side.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        roots.add(authority)?;
    }
    Ok(roots)
}
