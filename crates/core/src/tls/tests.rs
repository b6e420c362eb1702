//! Tests of files that change, are broken, or do not go together.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

use super::listener::ListenerTls;
use super::{client_certificate, server_config};
use crate::config::ListenerTlsConfig;

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
    assert!(!std::sync::Arc::ptr_eq(&first, &one));
    for broken in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&config.cert_file, broken).expect("written");
        assert!(!tls.look(&mut seen), "{broken}");
        assert!(std::sync::Arc::ptr_eq(&tls.current(), &one), "{broken}");
    }
    std::fs::remove_file(&config.cert_file).expect("removed");
    assert!(!tls.look(&mut seen) && std::sync::Arc::ptr_eq(&tls.current(), &one));
    write(&config, &made("two.test"));
    assert!(tls.look(&mut seen) && !std::sync::Arc::ptr_eq(&tls.current(), &one));
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
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("one");
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
