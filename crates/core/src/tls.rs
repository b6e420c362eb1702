//! TLS of our own listeners: certificates and keys from files, read again when those change, who a client says it is,
//! and how we call our own listener.
//!
//! Whom our calls believe is not here: that is each destination's own
//! (`crates/outbox/src/destinations/kinds/http/client.rs`).

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use sha2::{Digest, Sha256};
use tracing::{error, info};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::config::ListenerTlsConfig;
use crate::current::Current;
use crate::stop::Stop;
use crate::types::ClientCertificate;

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

/// What is seen of a file without reading it: device, inode, length, time of its last change.
type FileStamp = Option<(u64, u64, u64, i64, i64)>;

/// The stamps of all files; one that is not there has none.
fn stamps(config: &ListenerTlsConfig) -> [FileStamp; 3] {
    let stamp = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
    };
    [stamp(&config.cert_file), stamp(&config.key_file), config.client_ca_file.as_deref().and_then(stamp)]
}

/// Reads the files: TLS 1.2 and 1.3, HTTP/1.1 alone.
pub fn server_config(config: &ListenerTlsConfig) -> Result<MadeTls, TlsMistake> {
    let chain = certificates("cert_file", &config.cert_file)?;
    let not_after_s = chain
        .first()
        .and_then(|first| not_after_s(first))
        .ok_or_else(|| mistake("cert_file", &config.cert_file, "holds a certificate that cannot be read"))?;
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

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsMistake> {
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

/// Time between two looks at the files, which are not read unless they have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The TLS of one listener. Connections that stand keep what they began with.
pub struct ListenerTls {
    name: &'static str,
    files: ListenerTlsConfig,
    current: Current<ServerConfig>,
}

impl std::fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenerTls")
            .field("name", &self.name)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ListenerTls {
    /// Reads the files of the listener called `name` in metrics.
    pub fn new(name: &'static str, files: ListenerTlsConfig) -> Result<Self, TlsMistake> {
        let made = server_config(&files)?;
        let tls = Self { name, files, current: Current::new(Arc::clone(&made.config)) };
        tls.note(&made);
        Ok(tls)
    }

    /// The configuration for a connection that is accepted now.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.get()
    }

    /// Reads the files again whenever they have changed, until `stop`. What cannot be used changes nothing but a
    /// gauge, and a line says so.
    pub async fn watch(&self, mut stop: Stop) {
        // Of before the first reading nothing is known: the first look reads once more.
        let mut seen = [None; 3];
        while !stop.pause(LOOK_EVERY).await {
            self.look(&mut seen);
        }
    }

    /// Looks once; true when the files were read and taken over.
    fn look(&self, seen: &mut [FileStamp; 3]) -> bool {
        let now = stamps(&self.files);
        if now == *seen {
            return false;
        }
        *seen = now;
        match server_config(&self.files) {
            Ok(made) => {
                // An operator who replaces several files one by one is in the middle of it.
                if stamps(&self.files) != now {
                    *seen = [None; 3];
                }
                self.current.set(Arc::clone(&made.config));
                self.note(&made);
                info!(listener = self.name, not_after_s = made.not_after_s, "read the TLS files");
                true
            }
            Err(TlsMistake { key, why }) => {
                error!(
                    listener = self.name,
                    key, why, "the TLS files have changed and cannot be used: those of before count on"
                );
                metrics::gauge!("hooklatch_tls_files_broken", "listener" => self.name).set(1.0);
                false
            }
        }
    }

    fn note(&self, made: &MadeTls) {
        metrics::gauge!("hooklatch_tls_files_broken", "listener" => self.name).set(0.0);
        #[expect(clippy::cast_precision_loss, reason = "seconds of our time fit")]
        metrics::gauge!("hooklatch_tls_not_after_timestamp_seconds", "listener" => self.name)
            .set(made.not_after_s as f64);
    }
}

/// Reads a certificate that was verified in a handshake; `None` when it cannot be read.
pub fn client_certificate(der: &[u8]) -> Option<ClientCertificate> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.iter().filter_map(name).collect());
    Some(ClientCertificate {
        subject: certificate.subject().to_string(),
        names: names.unwrap_or_default(),
        fingerprint: Sha256::digest(der).into(),
    })
}

/// The end of a certificate's validity, in unix seconds; `None` when it cannot be read.
pub fn not_after_s(der: &[u8]) -> Option<i64> {
    X509Certificate::from_der(der).ok().map(|(_, found)| found.validity().not_after.timestamp())
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(format!("dns:{name}")),
        GeneralName::URI(uri) => Some(format!("uri:{uri}")),
        GeneralName::RFC822Name(email) => Some(format!("email:{email}")),
        _ => None,
    }
}

/// A client's configuration that believes the first certificate in `file`, PEM, whatever the server is called by.
pub fn pinned_client(file: &Path) -> Result<ClientConfig, TlsMistake> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pinned = certificates("cert_file", file)?.into_iter().next().unwrap_or_else(|| Vec::new().into());
    let verifier = Arc::new(PinnedCertificate { pinned, provider: Arc::clone(&provider) });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsMistake { key: "cert_file", why: error.to_string() })?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

#[derive(Debug)]
struct PinnedCertificate {
    pinned: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == self.pinned.as_ref() {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

    use super::*;

    fn made(name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::new(vec![name.to_owned()]).expect("a name").self_signed(&key);
        (certificate.expect("a certificate").pem(), key.serialize_pem())
    }

    fn files(folder: &Path) -> ListenerTlsConfig {
        ListenerTlsConfig {
            cert_file: folder.join("cert.pem"),
            key_file: folder.join("key.pem"),
            client_ca_file: None,
            is_client_needed: false,
        }
    }

    fn write(config: &ListenerTlsConfig, (certificate, key): &(String, String)) {
        std::fs::write(&config.cert_file, certificate).expect("written");
        std::fs::write(&config.key_file, key).expect("written");
    }

    #[test]
    fn files_that_change_are_read_again_and_broken_ones_leave_what_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = files(folder.path());
        write(&config, &made("one.test"));
        let tls = ListenerTls::new("test", config.clone()).expect("good files");
        let (mut seen, first) = ([None; 3], tls.current());
        assert!(tls.look(&mut seen) && !tls.look(&mut seen), "once, and then only when they change");
        assert_eq!(tls.current().alpn_protocols, [b"http/1.1".to_vec()]);
        let one = tls.current();
        assert!(!Arc::ptr_eq(&first, &one));
        for broken in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&config.cert_file, broken).expect("written");
            assert!(!tls.look(&mut seen), "{broken}");
            assert!(Arc::ptr_eq(&tls.current(), &one), "{broken}");
        }
        std::fs::remove_file(&config.cert_file).expect("removed");
        assert!(!tls.look(&mut seen) && Arc::ptr_eq(&tls.current(), &one));
        write(&config, &made("two.test"));
        assert!(tls.look(&mut seen) && !Arc::ptr_eq(&tls.current(), &one));
    }

    #[test]
    fn problems_with_files_are_reported_by_the_key_that_names_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let (good, other) = (made("one.test"), made("two.test"));
        let config = ListenerTlsConfig { client_ca_file: None, ..files(folder.path()) };
        let check = |certificate: &str, key: &str, ca: Option<&str>, want: &str, why: &str| {
            write(&config, &(certificate.to_owned(), key.to_owned()));
            let ca_file: Option<PathBuf> = ca.map(|text| {
                let path = folder.path().join("ca.pem");
                std::fs::write(&path, text).expect("written");
                path
            });
            let config = ListenerTlsConfig { client_ca_file: ca_file, ..config.clone() };
            let mistake = server_config(&config).expect_err("a mistake");
            assert_eq!(mistake.key, want, "{mistake:?}");
            assert!(mistake.why.contains(why) && !mistake.why.contains("BEGIN"), "{mistake:?}");
        };
        check("", &good.1, None, "cert_file", "no certificate");
        check(&good.0, "", None, "key_file", "no private key");
        check(&good.0, &good.0, None, "key_file", "no private key");
        check(&good.0, &other.1, None, "key_file", "does not go with");
        check(&good.0, &good.1, Some(""), "client_ca_file", "no certificate");
        let missing = files(&folder.path().join("nowhere"));
        assert!(server_config(&missing).expect_err("no such file").why.contains("cannot be read"));
    }

    #[test]
    fn a_client_is_identified_by_its_certificate() {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("one");
        let mut params = CertificateParams::new(vec!["ledger.test".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, "ledger");
        let uri = "spiffe://example/ledger".try_into().expect("a URI");
        params.subject_alt_names.push(SanType::URI(uri));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &authority).expect("a certificate");
        let read = client_certificate(certificate.der()).expect("it can be read");
        assert!(read.subject.contains("CN=ledger"), "{read:?}");
        assert_eq!(read.names, ["dns:ledger.test", "uri:spiffe://example/ledger"]);
        assert_ne!(read.fingerprint, client_certificate(authority.der()).expect("it, too").fingerprint);
        assert_eq!(client_certificate(b"nonsense"), None);
    }
}
