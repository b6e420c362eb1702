//! Whom a destination's calls believe, and who we say we are: one TLS configuration, whichever client speaks it.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use hooklatch_core::config::{DestinationConfig, HttpVersion, TlsConfig, UnknownPolicy};

/// The TLS of one destination; `None` where none of its calls can need any, so that those go out from a machine
/// without certificate authorities, too. `Err(why)` for what cannot be used.
pub(crate) fn tls(config: &DestinationConfig) -> Result<Option<ClientConfig>, String> {
    let asks_by_tls =
        matches!(&config.unknown, UnknownPolicy::Query(query) if !query.url.starts_with("http:"));
    let proxies_by_tls = config.http.proxy.as_ref().is_some_and(|proxy| !proxy.reveal().starts_with("http:"));
    let tls = &config.http.tls;
    if tls.ca.is_none() && config.url.starts_with("http:") && !asks_by_tls && !proxies_by_tls {
        return Ok(None);
    }
    let mut client = client(tls)?;
    client.alpn_protocols = match config.http.version {
        HttpVersion::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        HttpVersion::Only11 => vec![b"http/1.1".to_vec()],
        HttpVersion::Only2 => vec![b"h2".to_vec()],
    };
    Ok(Some(client))
}

fn client(tls: &TlsConfig) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &tls.ca {
        Some(ca) => builder.with_root_certificates(authorities(ca.reveal())?),
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(system(provider)?)),
    };
    let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates(certificate.reveal())?;
    let key = PrivateKeyDer::from_pem_slice(key.reveal().as_bytes())
        .map_err(|_| "tls.key holds no private key that can be read".to_owned())?;
    builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
}

/// The authorities of the system.
fn system(provider: Arc<CryptoProvider>) -> Result<Verifier, String> {
    Verifier::new(provider).map_err(|error| error.to_string())
}

fn authorities(pem: &str) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem)? {
        store.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(store)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| "a certificate of `tls` cannot be read".to_owned())
}
