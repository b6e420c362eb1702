//! What the files of `[server.tls]` and `[admin.tls]` make.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::config::ListenerTlsConfig;

/// Largest file that is read. Bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reason why files cannot be used, and the key that names the one that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsMistake {
    /// `cert_file`, `key_file` or `client_ca_file`.
    pub key: &'static str,
    /// Sentence for people, which quotes nothing of the file.
    pub why: String,
}

/// A configuration that files made.
#[derive(Debug)]
pub struct MadeTls {
    pub config: Arc<ServerConfig>,
    /// End of our certificate's validity. Unix seconds.
    pub not_after_s: i64,
}

impl MadeTls {
    /// End of our certificate's validity. Unix seconds.
    pub fn not_after_s(&self) -> i64 {
        self.not_after_s
    }
}

/// What is seen of a file without reading it: device, inode, length, time of its last change.
pub(super) type FileStamp = Option<(u64, u64, u64, i64, i64)>;

/// The stamps of all files; one that is not there has none.
pub(super) fn stamps(config: &ListenerTlsConfig) -> [FileStamp; 3] {
    let stamp = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
    };
    [stamp(&config.cert_file), stamp(&config.key_file), config.client_ca_file.as_deref().and_then(stamp)]
}

/// Reads the files: TLS 1.2 and 1.3, HTTP/1.1 alone.
pub fn server_config(config: &ListenerTlsConfig) -> Result<MadeTls, TlsMistake> {
    let chain = certificates("cert_file", &config.cert_file)?;
    let first = chain.first().map(AsRef::as_ref).unwrap_or_default();
    let (_, parsed) = X509Certificate::from_der(first)
        .map_err(|_| mistake("cert_file", &config.cert_file, "holds a certificate that cannot be read"))?;
    let not_after_s = parsed.validity().not_after.timestamp();
    let key = PrivateKeyDer::from_pem_slice(&read("key_file", &config.key_file)?)
        .map_err(|_| mistake("key_file", &config.key_file, "holds no private key in PEM form"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsMistake { key: "cert_file", why: error.to_string() })?;
    let builder = match &config.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let unusable = |why: String| mistake("client_ca_file", path, &format!("cannot be used: {why}"));
            let mut roots = RootCertStore::empty();
            for certificate in certificates("client_ca_file", path)? {
                roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
            let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let clients = if config.is_client_needed { clients } else { clients.allow_unauthenticated() };
            builder.with_client_cert_verifier(clients.build().map_err(|error| unusable(error.to_string()))?)
        }
    };
    let mut made = builder.with_single_cert(chain, key).map_err(|error| {
        mistake("key_file", &config.key_file, &format!("does not go with the certificate: {error}"))
    })?;
    made.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(MadeTls { config: Arc::new(made), not_after_s })
}

fn mistake(key: &'static str, path: &Path, why: &str) -> TlsMistake {
    TlsMistake { key, why: format!("file `{}` {why}", path.display()) }
}

pub(crate) fn certificates(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsMistake> {
    let found: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(key, path)?)
        .collect::<Result<_, _>>()
        .map_err(|_| mistake(key, path, "holds a certificate that cannot be read"))?;
    if found.is_empty() {
        return Err(mistake(key, path, "holds no certificate in PEM form"));
    }
    Ok(found)
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsMistake> {
    let length = std::fs::metadata(path).map(|found| found.len());
    if length.as_ref().is_ok_and(|length| *length > FILE_BYTES_MAX) {
        return Err(mistake(key, path, "is larger than a mebibyte"));
    }
    std::fs::read(path).map_err(|error| mistake(key, path, &format!("cannot be read: {error}")))
}
