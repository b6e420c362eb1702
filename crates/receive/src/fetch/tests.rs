//! Against a server of our own, by TLS: what is fetched, what is kept, and what is never asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{FetchError, Fetcher, WantedKey};
use hooklatch_core::config::{FetchConfig, KindSettings, Secret};
use hooklatch_core::types::{Clock, Name};
use hooklatch_store::FetchedKey;
use hooklatch_verify::KeySource;
use hooklatch_verify::spec::{ConfirmSpec, Spec};

/// The sender's own host: gives a fixed answer and counts requests.
pub(crate) struct Host {
    port: u16,
    ca: String,
    requests_n: Arc<AtomicUsize>,
    answer: Arc<Mutex<(u16, String)>>,
    asked: Arc<Mutex<String>>,
    _server: tokio::task::JoinSet<()>,
}

impl Host {
    pub(crate) async fn start() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()])
            .unwrap()
            .signed_by(&key, &authority)
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let tls = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests_n, answer) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new((200, String::new()))));
        let asked = Arc::new(Mutex::new(String::new()));
        let shared = (Arc::clone(&requests_n), Arc::clone(&answer), Arc::clone(&asked));
        let mut server = tokio::task::JoinSet::new();
        server.spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, shared) = (tls.clone(), shared.clone());
                connections.spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                        shared.0.fetch_add(1, Ordering::SeqCst);
                        let authorization = request.headers().get("authorization");
                        let authorization = authorization.map_or("", |value| value.to_str().unwrap());
                        *shared.2.lock().unwrap() =
                            format!("{} {} {authorization}", request.method(), request.uri().path());
                        let (code, body) = shared.1.lock().unwrap().clone();
                        let mut response = hyper::Response::new(Full::new(Bytes::from(body)));
                        *response.status_mut() = code.try_into().unwrap();
                        response
                            .headers_mut()
                            .insert("location", "https://localhost/elsewhere".parse().unwrap());
                        async move { Ok::<_, std::convert::Infallible>(response) }
                    });
                    let http = auto::Builder::new(TokioExecutor::new());
                    drop(http.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Self { port, ca: authority.pem(), requests_n, answer, asked, _server: server }
    }

    pub(crate) fn says(&self, code: u16, body: &str) {
        *self.answer.lock().unwrap() = (code, body.to_owned());
    }

    pub(crate) fn requests_n(&self) -> usize {
        self.requests_n.load(Ordering::SeqCst)
    }

    /// A kind whose keys are here.
    pub(crate) fn fetcher(&self, more: &str, clock: &Clock, private_hosts: &[&str]) -> Fetcher {
        let toml = include_str!("../../../../providers/circle/provider.toml");
        let (kind, _) = toml.split_once("[[fetch]]").unwrap();
        let port = self.port;
        let toml =
            format!("{kind}\n[[fetch]]\nsetting = \"public_keys_spki_b64\"\nhosts = [\"localhost\"]\n{more}")
                .replace("HOST", &format!("https://localhost:{port}"));
        let spec = Arc::new(Spec::parse(&toml).unwrap());
        let mut settings = KindSettings::default();
        settings.push("api_key", None, "canary");
        let options = FetchConfig {
            ca: Some(Secret::new(self.ca.clone())),
            private_hosts: private_hosts.iter().map(ToString::to_string).collect(),
            ..FetchConfig::default()
        };
        Fetcher::new(&spec, &settings, &options, clock).unwrap()
    }
}

pub(crate) const JSON: &str = "url = \"HOST/keys/{id}\"\nform = \"json\"\npointer = \"/data/key\"\n\
                    headers = { authorization = \"Bearer {setting:api_key}\" }\ncache_h = 1\ngrace_h = 2\n";
const HOUR_MS: i64 = 3_600_000;

fn wanted(id: &str) -> WantedKey {
    WantedKey { setting: "public_keys_spki_b64".to_owned(), id: id.to_owned() }
}

fn has(fetcher: &Fetcher, id: &str) -> Option<String> {
    fetcher.key("public_keys_spki_b64", id)
}

#[tokio::test]
async fn a_key_is_fetched_once_and_used_until_it_is_old_and_longer_while_its_host_is_away() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let fetcher = host.fetcher(JSON, &clock, &["localhost"]);
    host.says(200, r#"{"data":{"key":"k-1"}}"#);
    assert_eq!(has(&fetcher, "a/b"), None);
    fetcher.fetch(&wanted("a/b"), None).await.unwrap();
    assert_eq!(has(&fetcher, "a/b").as_deref(), Some("k-1"));
    assert_eq!(*host.asked.lock().unwrap(), "GET /keys/a%2Fb Bearer canary", "an id cannot climb");
    fetcher.fetch(&wanted("a/b"), None).await.unwrap();
    assert_eq!(host.requests_n(), 1);
    clock.advance(HOUR_MS);
    assert_eq!(has(&fetcher, "a/b"), None, "old");
    host.says(503, "");
    fetcher.fetch(&wanted("a/b"), None).await.expect("within its grace");
    assert_eq!(has(&fetcher, "a/b").as_deref(), Some("k-1"));
    clock.advance(2 * HOUR_MS);
    let away = fetcher.fetch(&wanted("a/b"), None).await;
    assert!(matches!(&away, Err(FetchError::Away(why)) if why.contains("503")), "{away:?}");
    host.says(200, r#"{"data":{"key":"k-2"}}"#);
    clock.advance(5_000);
    fetcher.fetch(&wanted("a/b"), None).await.unwrap();
    assert_eq!(has(&fetcher, "a/b").as_deref(), Some("k-2"), "it rotated");
}

#[tokio::test]
async fn many_who_want_one_key_make_one_call() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let fetcher = host.fetcher(JSON, &clock, &["localhost"]);
    host.says(200, r#"{"data":{"key":"k-1"}}"#);
    let key = wanted("a");
    let all = futures_util::future::join_all((0..50).map(|_| fetcher.fetch(&key, None))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(host.requests_n(), 1);
}

#[tokio::test]
async fn a_missing_key_is_distinguished_from_a_host_that_cannot_answer() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let fetcher = host.fetcher(JSON, &clock, &["localhost"]);
    for (n, (code, body, is_away)) in [
        (404, "", false),
        (400, "", false),
        (302, "", false),
        (200, r#"{"data":{}}"#, false),
        (200, "<html>", true),
        (401, "", true),
        (429, "", true),
        (500, "", true),
    ]
    .into_iter()
    .enumerate()
    {
        host.says(code, body);
        let fetched = fetcher.fetch(&wanted(&format!("k{n}")), None).await;
        assert_eq!(matches!(fetched, Err(FetchError::Away(_))), is_away, "{code} {body}: {fetched:?}");
        assert!(fetched.is_err());
    }
    host.says(200, &"x".repeat(70_000));
    let fetched = fetcher.fetch(&wanted("large"), None).await;
    assert!(matches!(&fetched, Err(FetchError::Away(why)) if why.contains("longer than")), "{fetched:?}");
    let n = host.requests_n();
    assert!(matches!(fetcher.fetch(&wanted("k0"), None).await, Err(FetchError::NoSuchKey(_))));
    assert_eq!(host.requests_n(), n, "it was asked for a moment ago");
}

#[tokio::test]
async fn a_flood_of_invented_keys_does_not_cause_a_flood_of_calls() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let fetcher = host.fetcher(JSON, &clock, &["localhost"]);
    host.says(404, "");
    let all = invented(&fetcher, 100).await;
    let away_n = all.iter().filter(|fetched| matches!(fetched, Err(FetchError::Away(_)))).count();
    assert!((30..40).contains(&host.requests_n()), "{}", host.requests_n());
    assert_eq!(away_n, 100 - host.requests_n());
    assert_eq!(fetcher.cache.kept().3, 0, "no request waits any more");
}

/// Many ask at once for keys that there are not.
async fn invented(fetcher: &Fetcher, n: usize) -> Vec<Result<(), FetchError>> {
    let keys: Vec<_> = (0..n).map(|n| wanted(&format!("invented{n}"))).collect();
    futures_util::future::join_all(keys.iter().map(|key| fetcher.fetch(key, None))).await
}

#[tokio::test]
async fn who_invents_ids_locks_out_neither_a_new_key_nor_one_that_was_good() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let fetcher = host.fetcher(JSON, &clock, &["localhost"]);
    host.says(200, r#"{"data":{"key":"k"}}"#);
    fetcher.fetch(&wanted("good"), None).await.unwrap();
    clock.advance(HOUR_MS);
    host.says(404, "");
    drop(invented(&fetcher, 31).await);
    host.says(200, r#"{"data":{"key":"k"}}"#);
    fetcher.fetch(&wanted("good"), None).await.expect("what was good is renewed whatever others ask");
    fetcher.fetch(&wanted("new"), None).await.expect("it waits for its own turn alone");
    assert!(has(&fetcher, "good").is_some() && has(&fetcher, "new").is_some());
}

#[tokio::test]
async fn nothing_is_kept_of_an_id_that_is_too_long_or_of_a_request_that_went_away() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let fetcher = Arc::new(host.fetcher(JSON, &clock, &["localhost"]));
    let long = "x".repeat(900_000);
    for _ in 0..2 {
        let fetched = fetcher.fetch(&wanted(&long), None).await;
        assert!(matches!(fetched, Err(FetchError::NoSuchKey(_))));
    }
    host.says(200, r#"{"data":{"key":"k"}}"#);
    for n in 0..20 {
        let key = wanted(&format!("k{n}"));
        let gone = futures_util::future::poll_immediate(Box::pin(fetcher.fetch(&key, None))).await;
        assert!(gone.is_none(), "it goes away while its key is fetched");
    }
    fetcher.fetch(&wanted("a"), None).await.unwrap();
    for _ in 0..2 {
        fetcher.fetch(&wanted("a"), None).await.unwrap();
    }
    let (keys_n, bytes_n, unknown_n, turns_n) = fetcher.cache.kept();
    assert_eq!((keys_n, unknown_n, turns_n), (1, 0, 0));
    assert!(bytes_n < 100, "{bytes_n}");
}

#[tokio::test]
async fn a_subscription_is_confirmed_once_and_many_are_no_flood_of_calls() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let fetcher = host.fetcher(JSON, &clock, &["localhost"]);
    let spec = "when = { \"/Type\" = \"c\" }\nurl = \"/u\"\nhosts = [\"localhost\"]\npath = \"/confirm\"\n";
    let spec: ConfirmSpec = toml::from_str(spec).unwrap();
    let url = |n: usize| format!("https://localhost:{}/confirm?Token={n:0>600}", host.port);
    host.says(500, "");
    assert!(fetcher.confirm(&spec, &url(0)).await.is_err());
    host.says(200, "");
    for _ in 0..5 {
        fetcher.confirm(&spec, &url(0)).await.unwrap();
    }
    assert_eq!(host.requests_n(), 2, "sent again it is confirmed already");
    for other in ["/", "/confirm/x", "/confirmed"] {
        let other = format!("https://localhost:{}{other}", host.port);
        assert!(matches!(fetcher.confirm(&spec, &other).await, Err(FetchError::NoSuchKey(_))));
    }
    let urls: Vec<String> = (1..=40).map(url).collect();
    let all = futures_util::future::join_all(urls.iter().map(|url| fetcher.confirm(&spec, url))).await;
    let away_n = all.iter().filter(|one| matches!(one, Err(FetchError::Away(_)))).count();
    assert!(away_n >= 25 && host.requests_n() <= 17, "{away_n} {}", host.requests_n());
}

#[tokio::test]
async fn a_certificate_is_taken_at_its_path_and_of_its_name_alone() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let more = "url = \"{id}\"\nform = \"pem\"\npath = \"/Service-{hex}.pem\"\nnames = [\"a.test\"]\n";
    let fetcher = host.fetcher(more, &clock, &["localhost"]);
    let pem = |name: &str| {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    };
    let url = |path: &str| wanted(&format!("https://localhost:{}{path}", host.port));
    for (name, path) in [
        ("b.test", "/Service-0.pem"),
        ("a.test.evil", "/Service-1.pem"),
        ("a.test", "/Service-.pem"),
        ("a.test", "/Service-2.pem?x"),
        ("a.test", "/Service-2.pem#x"),
        ("a.test", "/bucket/Service-3.pem"),
    ] {
        host.says(200, &pem(name));
        let refused = fetcher.fetch(&url(path), None).await;
        assert!(matches!(&refused, Err(FetchError::NoSuchKey(_))), "{name} {path}: {refused:?}");
    }
    let (.., unknown_n, turns_n) = fetcher.cache.kept();
    assert_eq!((unknown_n, turns_n), (2, 0), "of what may not be asked for nothing is kept");
    let elsewhere: Vec<_> = (0..60).map(|n| url(&format!("/bucket/Service-{n}.pem"))).collect();
    let asked = elsewhere.iter().map(|key| fetcher.fetch(key, None));
    let refused = futures_util::future::join_all(asked).await;
    assert!(refused.iter().all(|one| matches!(one, Err(FetchError::NoSuchKey(_)))), "and it costs no call");
    host.says(200, &pem("a.test"));
    fetcher.fetch(&url("/Service-4f.pem"), None).await.unwrap();
    host.says(200, "-----BEGIN CERTIFICATE-----");
    assert!(fetcher.fetch(&url("/Service-5.pem"), None).await.is_err(), "what is no key is not kept");
    assert_eq!(fetcher.cache.kept().0, 1);
}

#[tokio::test]
async fn a_stored_key_is_checked_like_a_fetched_one_and_expires_like_it() {
    let (host, clock, provider) = (Host::start().await, Clock::manual(0), Name::parse("x").unwrap());
    let more = "url = \"{id}\"\nform = \"pem\"\npath = \"/{hex}.pem\"\ncache_h = 1\ngrace_h = 1\n";
    let fetcher = |names: &str, clock: &Clock| {
        host.fetcher(&format!("{more}names = [\"{names}\"]\n"), clock, &["localhost"])
    };
    let first = fetcher("a.test", &clock);
    let params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    host.says(200, &params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem());
    let key = wanted(&format!("https://localhost:{}/1.pem", host.port));
    first.fetch(&key, None).await.unwrap();
    assert!(first.cache.unstored().is_empty(), "it verified nothing");
    first.cache.proved(&key);
    let proven = first.cache.unstored();
    let row = first.row(&provider, &proven[0]).expect("a row");
    first.cache.stored(&proven);
    assert!(first.cache.unstored().is_empty());
    host.says(503, "");
    let calls_n = host.requests_n();
    let restored = |names: &str, clock: &Clock, provider: &Name, row: &FetchedKey| {
        let fetcher = fetcher(names, clock);
        fetcher.restore(provider, std::slice::from_ref(row));
        fetcher
    };
    let at = |hours: i64| Clock::manual(hours * HOUR_MS);
    let other = Name::parse("y").unwrap();
    let renamed = FetchedKey { provider: "y".to_owned(), ..row.clone() };
    for (names, clock, provider, row, is_good, what) in [
        ("a.test", at(0), &provider, &row, true, "as before"),
        ("b.test", at(0), &provider, &row, false, "its name is checked again"),
        ("a.test", at(0), &other, &row, false, "another provider's"),
        ("a.test", at(0), &other, &renamed, false, "fetched for another provider"),
        ("a.test", at(1), &provider, &row, false, "old"),
        ("a.test", at(-9), &provider, &row, true, "a clock that was ahead"),
    ] {
        let restored = restored(names, &clock, provider, row);
        assert_eq!(has(&restored, &key.id).is_some(), is_good, "{what}");
    }
    assert_eq!(host.requests_n(), calls_n, "nothing of it is fetched");
    let old = restored("a.test", &at(1), &provider, &row);
    old.fetch(&key, None).await.expect("within its grace");
    let gone = at(3);
    let gone = restored("a.test", &gone, &provider, &row);
    drop(invented_urls(&gone, host.port).await);
    host.says(200, &params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem());
    let began = std::time::Instant::now();
    gone.fetch(&key, None).await.expect("an id that was good once goes before those that were not");
    assert!(began.elapsed().as_millis() < 200, "it waits for no call: {:?}", began.elapsed());
}

/// Many ask for certificates that there are not, until no call is left.
async fn invented_urls(fetcher: &Fetcher, port: u16) -> Vec<Result<(), FetchError>> {
    let keys: Vec<_> =
        (0x100..0x128).map(|n| wanted(&format!("https://localhost:{port}/{n:x}.pem"))).collect();
    futures_util::future::join_all(keys.iter().map(|key| fetcher.fetch(key, None))).await
}

#[tokio::test]
async fn an_id_of_another_form_costs_no_call_and_a_named_one_waits_for_none() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let fetcher = host.fetcher(&format!("{JSON}id = \"uuid\"\n"), &clock, &["localhost"]);
    for id in ["k", "", "879dc1135ca44ff7a6b754652083fcf8", "879dc113-5ca4-4ff7-a6b7-54652083fcfg"] {
        let refused = fetcher.fetch(&wanted(id), None).await;
        assert!(matches!(refused, Err(FetchError::NoSuchKey(_))), "{id}");
    }
    assert_eq!((host.requests_n(), fetcher.cache.kept().2), (0, 0));
    host.says(200, r#"{"data":{"key":"k"}}"#);
    fetcher.fetch(&wanted("879dc113-5ca4-4ff7-a6b7-54652083fcf8"), None).await.unwrap();

    let mut fetcher = host.fetcher(JSON, &clock, &["localhost"]);
    fetcher.settings.push("key_ids", None, "named");
    host.says(404, "");
    drop(invented(&fetcher, 40).await);
    host.says(200, r#"{"data":{"key":"k"}}"#);
    let began = std::time::Instant::now();
    fetcher.fetch(&wanted("named"), None).await.unwrap();
    assert!(began.elapsed().as_millis() < 200, "{:?}", began.elapsed());
}

#[tokio::test]
async fn only_pinned_public_hosts_are_asked() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let private = host.fetcher(JSON, &clock, &[]);
    let refused = private.fetch(&wanted("a"), None).await;
    assert!(refused.is_err(), "localhost is not a public address");
    let by_url =
        host.fetcher("url = \"{id}\"\npath = \"/{name}.pem\"\nform = \"pem\"\n", &clock, &["localhost"]);
    for url in [
        "http://localhost/x",
        "https://evil.test/x",
        "https://localhost.evil.test/x",
        "https://localhost@evil.test/x",
        "https://user@localhost/x",
        "https://127.0.0.1/x",
        "file:///etc/passwd",
        "",
    ] {
        let refused = by_url.fetch(&wanted(url), None).await;
        assert!(matches!(&refused, Err(FetchError::NoSuchKey(_))), "{url}: {refused:?}");
    }
    assert_eq!(host.requests_n(), 0);
    host.says(200, &host.ca);
    by_url.fetch(&wanted(&format!("https://localhost:{}/x.pem", host.port)), None).await.unwrap();
    let other = Host::start().await;
    let stranger = FetchConfig { ca: Some(Secret::new(other.ca.clone())), ..FetchConfig::default() };
    let fetcher = Fetcher::new(&by_url.spec, &by_url.settings, &stranger, &clock).unwrap();
    assert!(fetcher.fetch(&wanted(&format!("https://localhost:{}/x.pem", host.port)), None).await.is_err());
}

#[tokio::test]
async fn a_key_set_is_searched_by_id_and_a_certificate_needs_its_chain() {
    let (host, clock) = (Host::start().await, Clock::manual(0));
    let fetcher = host.fetcher("url = \"HOST/certs\"\nform = \"jwks\"\n", &clock, &["localhost"]);
    host.says(200, r#"{"keys":[{"kid":"a","kty":"RSA"},{"kid":"b","kty":"EC"}]}"#);
    fetcher.fetch(&wanted("b"), None).await.unwrap();
    assert_eq!(has(&fetcher, "b").as_deref(), Some(r#"{"kid":"b","kty":"EC"}"#));
    fetcher.fetch(&wanted("a"), None).await.unwrap();
    let asked = invented(&fetcher, 31).await;
    assert!(asked.iter().all(Result::is_err) && has(&fetcher, "a").is_some());
    assert_eq!(host.requests_n(), 1, "one answer has all the keys, and says which there are not");
    clock.advance(5_000);
    assert!(matches!(fetcher.fetch(&wanted("c"), None).await, Err(FetchError::NoSuchKey(_))));
    let chained = host.fetcher("url = \"HOST/c\"\nform = \"pem\"\nchain = true\n", &clock, &["localhost"]);
    let stranger = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    let stranger = stranger.self_signed(&KeyPair::generate().unwrap()).unwrap();
    host.says(200, &stranger.pem());
    let refused = chained.fetch(&wanted("x"), None).await;
    assert!(
        matches!(&refused, Err(FetchError::NoSuchKey(why)) if why.contains("not believed")),
        "{refused:?}"
    );
}
