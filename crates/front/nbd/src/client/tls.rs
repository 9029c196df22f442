//! The TLS configuration of a client: the trusted authorities and its own certificate. The files in
//! the directory have the names that libnbd and QEMU give them.

use super::{ServerAddress, UriTls};
use crate::certificates::{TlsError, authorities, certificates, private_key};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;

/// The authorities that may have signed the server's certificate.
const AUTHORITIES: &str = "ca-cert.pem";
/// The client's certificate and key. Both are optional.
const CERTIFICATE: &str = "client-cert.pem";
const KEY: &str = "client-key.pem";

/// Makes the configuration that an address demands.
pub(super) fn config(tls: &UriTls) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder.with_root_certificates(authorities(&tls.certificates.join(AUTHORITIES))?);
    let (certificate, key) = (tls.certificates.join(CERTIFICATE), tls.certificates.join(KEY));
    let config = if certificate.exists() {
        builder.with_client_auth_cert(certificates(&certificate)?, private_key(&key)?)?
    } else {
        builder.with_no_client_auth()
    };
    Ok(Arc::new(config))
}

/// Returns the name that the server's certificate must have; `None` if it is not a valid name.
pub(super) fn server_name(server: &ServerAddress, tls: &UriTls) -> Option<ServerName<'static>> {
    let name = match (&tls.hostname, server) {
        (Some(name), _) => name,
        (None, ServerAddress::Tcp(host, _)) => host,
        (None, ServerAddress::Unix(_)) => "localhost",
    };
    ServerName::try_from(name.to_owned()).ok()
}
