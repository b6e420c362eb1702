//! TLS on the listeners: the protocols, slow or foreign peers, and certificates that change.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hooklatch::App;
use hooklatch::Running;
use hooklatch::testing::AppExt;
use hooklatch_operator::load::{Kinds, Settings, load_for_tools};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::stripe_kind;
use crate::database::{Database, On};
use crate::process::{SECRET, post_stripe, until};

/// An authority of a test's own.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for `name` and its key, both in PEM form.
    pub(crate) fn certify(&self, name: &str) -> (String, String) {
        self.certify_as(&CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    fn certify_as(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Writes a certificate for `localhost` where both listeners look for it.
    pub(crate) fn write(&self, folder: &Path) {
        self.put(folder, self.certify("localhost"));
    }

    /// The same, which ends so soon.
    pub(crate) fn write_until(&self, folder: &Path, ends_in: Duration) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = (std::time::SystemTime::now() + ends_in).into();
        self.put(folder, self.certify_as(&params));
    }

    fn put(&self, folder: &Path, (certificate, key): (String, String)) {
        std::fs::write(folder.join("cert.pem"), certificate).unwrap();
        std::fs::write(folder.join("key.pem"), key).unwrap();
        std::fs::write(folder.join("ca.pem"), self.0.pem()).unwrap();
    }

    fn client(&self, identity: Option<&Self>) -> reqwest::Client {
        drop(rustls::crypto::ring::default_provider().install_default());
        let ca = reqwest::Certificate::from_pem(self.0.pem().as_bytes()).unwrap();
        let builder = reqwest::Client::builder().no_proxy().tls_certs_only([ca]);
        let builder = match identity {
            None => builder,
            Some(authority) => {
                let (certificate, key) = authority.certify("client");
                builder.identity(reqwest::Identity::from_pem((certificate + &key).as_bytes()).unwrap())
            }
        };
        builder.timeout(Duration::from_secs(20)).build().unwrap()
    }
}

/// A running app whose listeners both speak TLS.
struct Encrypted {
    running: Running,
    authority: Authority,
    folder: TempDir,
    _database: Database,
}

impl Encrypted {
    /// Starts it with `more` in `[server]` and `tls` in both tables of TLS.
    async fn start(more: &str, tls: &str) -> Self {
        let database = Database::create(On::Sqlite).await.unwrap();
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        authority.write(folder.path());
        let file = folder.path().join("hooklatch.toml");
        let files = format!("cert_file = \"cert.pem\"\nkey_file = \"key.pem\"\n{tls}");
        let toml = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{more}\n[server.tls]\n{files}\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[admin.tls]\n{files}\n\
             [database]\nurl = \"{}\"\n[providers.stripe]\nsecrets = [\"{SECRET}\"]\n",
            database.url
        );
        std::fs::write(&file, toml).unwrap();
        let settings = Settings { file: Some(file), ..Settings::default() };
        let config = load_for_tools(&settings, &Kinds::of(vec![stripe_kind()]));
        let config = config.unwrap_or_else(|why| panic!("{why:?}"));
        let running = App::new(config).provider(stripe_kind()).start().await.unwrap();
        Self { running, authority, folder, _database: database }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.running.receiver_addr.port())
    }

    fn admin_url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.running.admin_addr.port())
    }
}

/// The certificate that a new connection gets.
async fn shown(to: SocketAddr, trusted: &[&Authority]) -> Option<CertificateDer<'static>> {
    let mut roots = rustls::RootCertStore::empty();
    for authority in trusted {
        roots.add(authority.0.der().clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(to).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.ok()?;
    stream.get_ref().1.peer_certificates()?.first().cloned().map(CertificateDer::into_owned)
}

#[tokio::test]
async fn both_listeners_speak_http_1_1_over_tls_and_the_commands_reach_them() {
    let app = Encrypted::start("", "").await;
    let client = app.authority.client(None);
    assert_eq!(post_stripe(&client, &app.url("/webhooks/stripe"), "evt_1").await.as_deref(), Ok("accepted"));
    let answer = client.get(app.admin_url("/livez")).send().await.unwrap();
    assert_eq!(
        (answer.version(), answer.text().await.unwrap().as_str()),
        (http::Version::HTTP_11, "alive\n")
    );
    let stranger = Authority::new().client(None);
    assert!(stranger.get(app.admin_url("/livez")).send().await.is_err(), "another authority");
    let (url, folder) = (app.admin_url(""), app.folder.path().to_owned());
    let health = async |more: &'static [&'static str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.args(["health", "--url", &url]).args(more).current_dir(&folder);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        output.status.success()
    };
    assert!(health(&["--ca-file", "ca.pem"]).await);
    assert!(!health(&[]).await && !health(&["--ca-file", "key.pem"]).await);
    let (file, address) = (folder.join("hooklatch.toml"), app.running.admin_addr.to_string());
    let own = async |more: &str| {
        let text =
            std::fs::read_to_string(&file).unwrap().replace("[admin.tls]\n", &format!("[admin.tls]\n{more}"));
        std::fs::write(folder.join("own.toml"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command
            .args(["health", "--config", "own.toml"])
            .env("HOOKLATCH__ADMIN__LISTEN", &address)
            .current_dir(&folder);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(own("").await, (true, String::new()), "its own certificate is believed, whatever its name");
    let (is_healthy, said) = own("client_ca_file = \"ca.pem\"\nclient_needed = true\n").await;
    assert!(!is_healthy && said.contains("`health` has none"), "{said}");
    Authority::new().write(&folder);
    let (is_healthy, said) = own("").await;
    // The listener looks at its files every second: until then it shows what these files no longer hold.
    assert!(is_healthy || said.contains("no answer from"), "{said}");
    app.running.stop().await;
}

#[tokio::test]
async fn plain_http_on_a_tls_listener_is_closed_and_nothing_of_it_is_taken() {
    let app = Encrypted::start("", "").await;
    for to in [app.running.receiver_addr, app.running.admin_addr] {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    }
    app.running.stop().await;
}

#[tokio::test]
async fn a_certificate_is_replaced_without_a_restart_and_a_broken_one_is_not_taken() {
    let app = Encrypted::start("", "").await;
    let (to, client) = (app.running.receiver_addr, app.authority.client(None));
    let first = shown(to, &[&app.authority]).await.unwrap();
    let livez =
        async || client.get(app.admin_url("/livez")).send().await.map(|answer| answer.status().as_u16());
    assert_eq!(livez().await.ok(), Some(200));
    let other = Authority::new();
    other.write(app.folder.path());
    let both = [&app.authority, &other];
    until("the new certificate is shown", Duration::from_secs(20), String::new, async || {
        shown(to, &both).await.is_some_and(|now| now != first)
    })
    .await;
    // The receiver and the operator side look at their files one after the other.
    let admin = app.running.admin_addr;
    until("and on the other side", Duration::from_secs(20), String::new, async || {
        shown(admin, &both).await.is_some_and(|now| now != first)
    })
    .await;
    assert_eq!(livez().await.ok(), Some(200), "a connection that stands has one more answer");
    assert!(livez().await.is_err(), "a new one would have to trust the new certificate");
    let second = shown(to, &both).await.unwrap();
    std::fs::write(app.folder.path().join("cert.pem"), "nonsense").unwrap();
    let broken = "hooklatch_tls_files_broken{listener=\"receiver\"} 1";
    let fresh = other.client(None);
    until("it is reported", Duration::from_secs(20), String::new, async || {
        let metrics = fresh.get(app.admin_url("/metrics")).send().await.unwrap().text().await.unwrap();
        metrics.contains(broken)
    })
    .await;
    assert_eq!(shown(to, &both).await.unwrap(), second, "the one of before counts on");
    app.running.stop().await;
}

#[tokio::test]
async fn a_stalled_handshake_times_out_and_yields_to_others_before_that() {
    let app =
        Encrypted::start("header_timeout_ms = 60000\nconnections_n_max = 8\npeer_share_percent = 100", "")
            .await;
    let to = app.running.receiver_addr;
    let mut silent = Vec::new();
    for n in 0..8 {
        let mut stream = TcpStream::connect(to).await.unwrap();
        // Nothing at all, or the beginning of a handshake.
        if n % 2 == 0 {
            stream.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
        }
        silent.push(stream);
    }
    let client = app.authority.client(None);
    for n in 0..4 {
        let sent = post_stripe(&client, &app.url("/webhooks/stripe"), &format!("evt_{n}")).await;
        assert_eq!(sent.as_deref(), Ok("accepted"));
    }
    app.running.stop().await;
    let app = Encrypted::start("header_timeout_ms = 300", "").await;
    let mut stream = TcpStream::connect(app.running.receiver_addr).await.unwrap();
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    assert!(closed.is_ok() && answer.is_empty(), "{closed:?}");
    app.running.stop().await;
}

#[tokio::test]
async fn a_client_certificate_is_requested_where_authorities_are_configured() {
    for is_needed in [true, false] {
        let app =
            Encrypted::start("", &format!("client_ca_file = \"ca.pem\"\nclient_needed = {is_needed}")).await;
        let livez = async |identity: Option<&Authority>| {
            let answer = app.authority.client(identity).get(app.admin_url("/livez")).send().await;
            answer.is_ok_and(|answer| answer.status().is_success())
        };
        assert!(livez(Some(&app.authority)).await, "{is_needed}");
        assert_eq!(livez(None).await, !is_needed);
        assert!(!livez(Some(&Authority::new())).await, "one that is shown must be believed");
        app.running.stop().await;
    }
}

#[test]
fn unusable_certificate_files_are_errors_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    authority.write(folder.path());
    std::fs::write(folder.path().join("other.pem"), other.certify("localhost").1).unwrap();
    let file = folder.path().join("hooklatch.toml");
    for (tls, why) in [
        ("cert_file = \"cert.pem\"\nkey_file = \"key.pem\"", None),
        ("cert_file = \"cert.pem\"", Some("server.tls.key_file")),
        ("cert_file = \"none.pem\"\nkey_file = \"key.pem\"", Some("none.pem` cannot be read")),
        ("cert_file = \"cert.pem\"\nkey_file = \"other.pem\"", Some("does not go with the certificate")),
        ("cert_file = \"key.pem\"\nkey_file = \"key.pem\"", Some("holds no certificate")),
        (
            "cert_file = \"cert.pem\"\nkey_file = \"key.pem\"\nclient_needed = true",
            Some("no authority is named"),
        ),
        ("cert_file = \"cert.pem\"\nkey_file = \"key.pem\"\nciphers = 1", Some("server.tls.ciphers")),
    ] {
        std::fs::write(&file, format!("[server.tls]\n{tls}\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        let output = command.args(["check", "--config"]).arg(&file).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.success(), why.is_none(), "{tls}: {said}");
        assert!(why.is_none_or(|why| said.contains(why)), "{tls}: {said}");
    }
}
