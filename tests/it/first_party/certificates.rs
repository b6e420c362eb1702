//! A caller with a client certificate: accepted with the configured one alone, on our own listener with TLS.

use base64::Engine;
use hooklatch::App;
use hooklatch::testing::AppExt;
use hooklatch_operator::load::{Kinds, Settings, load_for_tools};
use sha2::{Digest, Sha256};

use super::{BODY, CommandResponse};
use crate::database::{Database, on_both};
use crate::tls_listeners::Authority;

on_both!(a_caller_is_known_by_its_certificate_and_by_nothing_that_it_writes);

/// The SHA-256 of a certificate in PEM form, in hex.
fn fingerprint(pem: &str) -> String {
    let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    hex::encode(Sha256::digest(base64::engine::general_purpose::STANDARD.decode(base64).unwrap()))
}

async fn a_caller_is_known_by_its_certificate_and_by_nothing_that_it_writes(database: &Database) {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.write(folder.path());
    let (own, other) = (authority.certify("vault"), authority.certify("shop"));
    let sha256 = fingerprint(&own.0);
    let toml = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[server.tls]\ncert_file = \"cert.pem\"\nkey_file = \"key.pem\"\n\
         client_ca_file = \"ca.pem\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[database]\nurl = \"{}\"\n\
         [providers.vault]\nkind = \"first_party\"\n\
         settings = {{ auth = \"mtls\", client_certificates = [\"{sha256}\"] }}\n",
        database.url
    );
    let file = folder.path().join("hooklatch.toml");
    std::fs::write(&file, toml).unwrap();
    let settings = Settings { file: Some(file), ..Settings::default() };
    let config = load_for_tools(&settings, &Kinds::of(hooklatch_receive::providers::builtin()));
    let running = App::new(config.unwrap_or_else(|why| panic!("{why:?}"))).start().await.unwrap();
    let url = format!("https://localhost:{}/webhooks/vault", running.receiver_addr.port());
    let client = |identity: Option<&(String, String)>| {
        let ca = std::fs::read(folder.path().join("ca.pem")).unwrap();
        let ca = reqwest::Certificate::from_pem(&ca).unwrap();
        let builder = reqwest::Client::builder().no_proxy().tls_certs_only([ca]);
        let identity =
            identity.map(|(pem, key)| reqwest::Identity::from_pem(format!("{pem}{key}").as_bytes()).unwrap());
        identity.into_iter().fold(builder, reqwest::ClientBuilder::identity).build().unwrap()
    };
    drop(rustls::crypto::ring::default_provider().install_default());
    for (what, identity, written, status) in [
        ("its certificate", Some(&own), None, 202),
        ("its certificate, and another's name written", Some(&own), Some("ab".repeat(32)), 202),
        ("another certificate of the same authority", Some(&other), None, 401),
        ("another, and the right one's name written", Some(&other), Some(sha256.clone()), 401),
    ] {
        let request = client(identity).post(&url).header("idempotency-key", "k1").body(BODY);
        let request = request.header("content-type", "application/json");
        let request =
            written.iter().fold(request, |request, one| request.header("hooklatch-client-certificate", one));
        let response = CommandResponse::of(request).await.unwrap();
        assert_eq!(response.status, status, "{what}: {response:?}");
    }
    let receipt = CommandResponse::of(client(Some(&own)).get(format!("{url}/k1"))).await.unwrap();
    assert_eq!((receipt.status, receipt.json()["event_id"].as_str()), (200, Some("k1")));
    assert_eq!(CommandResponse::of(client(Some(&other)).get(format!("{url}/k1"))).await.unwrap().status, 401);
    running.stop().await;
}
