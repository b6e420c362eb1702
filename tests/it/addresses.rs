//! The client address of a request, which proxies may set it, and which addresses may send to a provider.

use std::net::{IpAddr, SocketAddr};

use hooklatch::App;
use hooklatch::Running;
use hooklatch::testing::AppExt;
use hooklatch_operator::load::{Kinds, Settings, load_for_tools};

use crate::app::stripe_kind;
use crate::database::{Database, On, on_sqlite};
use crate::process::{SECRET, now_s, stripe, until};

on_sqlite!(an_allow_list_refuses_before_the_body_and_leaves_a_note);

async fn start(database: &Database, server: &str, admin: &str, provider: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    let toml = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n{server}\n[admin]\nlisten = \"127.0.0.1:0\"\n{admin}\n\
         tokens = [{{ name = \"ops\", role = \"viewer\", token = \"0123456789abcdef\" }}]\n\
         [database]\nurl = \"{}\"\n[providers.stripe]\nsecrets = [\"{SECRET}\"]\n{provider}\n",
        database.url
    );
    std::fs::write(&file, toml).unwrap();
    let settings = Settings { file: Some(file), ..Settings::default() };
    let config = load_for_tools(&settings, &Kinds::of(vec![stripe_kind()]));
    let config = config.unwrap_or_else(|why| panic!("{why:?}"));
    App::new(config).provider(stripe_kind()).start().await.unwrap()
}

/// A client whose connections come from this address of loopback.
fn from(address: &str) -> reqwest::Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    let address: IpAddr = address.parse().unwrap();
    // One connection for each request: refusals on a shared one are delayed.
    let builder = reqwest::Client::builder().no_proxy().local_address(address);
    builder.pool_max_idle_per_host(0).build().unwrap()
}

/// The status of the answer to a signed event that was sent with this header.
async fn sent(to: SocketAddr, client: &reqwest::Client, header: (&str, &str)) -> u16 {
    let (body, signature) = stripe(&format!("evt_{}", fastrand::u64(..)), now_s());
    let request = client.post(format!("http://{to}/webhooks/stripe")).header("stripe-signature", signature);
    request.header(header.0, header.1).body(body).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn only_a_trusted_proxy_sets_the_client_address() {
    let allowed = "allow_from = [\"192.0.2.0/24\", \"127.0.0.66\"]";
    // What each of three servers makes of a connection, and of what it says of itself.
    for (keys, cases) in [
        (
            "proxies = [\"127.0.0.1\"]\nforwarded = \"x-forwarded-for\"",
            [
                ("127.0.0.1", ("x-forwarded-for", "192.0.2.7"), 200),
                ("127.0.0.1", ("x-forwarded-for", "192.0.2.7, 198.51.100.1"), 403),
                ("127.0.0.1", ("x-forwarded-for", "198.51.100.1, 192.0.2.7"), 200),
                ("127.0.0.1", ("forwarded", "for=192.0.2.7"), 403),
                ("127.0.0.67", ("x-forwarded-for", "192.0.2.7"), 403),
                ("127.0.0.66", ("x-forwarded-for", "198.51.100.1"), 200),
            ],
        ),
        (
            "proxies = [\"127.0.0.1\"]\nforwarded = \"forwarded\"",
            [
                ("127.0.0.1", ("forwarded", "for=192.0.2.7;proto=https"), 200),
                ("127.0.0.1", ("forwarded", "for=192.0.2.7, for=unknown"), 403),
                ("127.0.0.1", ("x-forwarded-for", "192.0.2.7"), 403),
                ("127.0.0.67", ("forwarded", "for=192.0.2.7"), 403),
                ("127.0.0.66", ("forwarded", "for=198.51.100.1"), 200),
                ("127.0.0.66", ("x-other", "y"), 200),
            ],
        ),
        (
            "",
            [
                ("127.0.0.1", ("x-forwarded-for", "192.0.2.7"), 403),
                ("127.0.0.1", ("forwarded", "for=192.0.2.7"), 403),
                ("127.0.0.67", ("x-forwarded-for", "127.0.0.66"), 403),
                ("127.0.0.66", ("x-forwarded-for", "198.51.100.1"), 200),
                ("127.0.0.66", ("forwarded", "for=198.51.100.1"), 200),
                ("127.0.0.66", ("x-other", "y"), 200),
            ],
        ),
    ] {
        let database = Database::create(On::Sqlite).await.unwrap();
        let running = start(&database, keys, "", allowed).await;
        for (peer, header, want) in cases {
            let got = sent(running.receiver_addr, &from(peer), header).await;
            assert_eq!(got, want, "{keys}: {peer} {header:?}");
        }
        running.stop().await;
    }
}

async fn an_allow_list_refuses_before_the_body_and_leaves_a_note(database: &Database) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let running = start(database, "", "", "allow_from = [\"192.0.2.0/24\"]").await;
    // A body that never comes is not waited for.
    let mut stream = tokio::net::TcpStream::connect(running.receiver_addr).await.unwrap();
    let head = "POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\nx-marked: yes\r\ncontent-length: 1000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 256];
    let n = stream.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..n]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let url = format!("http://{}/v1/rejected?provider=stripe", running.admin_addr);
    let metrics = format!("http://{}/metrics", running.admin_addr);
    let client = from("127.0.0.1");
    let noted = "SELECT COUNT(*) FROM rejected_requests WHERE step = 'address' AND reason = 'address'
                 AND detail LIKE 'it came from 127.0.0.1,%' AND headers LIKE '%x-marked%' AND body_bytes_n = 0";
    until(
        "it is noted",
        std::time::Duration::from_secs(20),
        || url.clone(),
        async || database.count(noted).await == 1,
    )
    .await;
    let metrics_text = client.get(metrics).send().await.unwrap().text().await.unwrap();
    assert!(
        metrics_text.contains(r#"hooklatch_rejected_total{provider="stripe",reason="address"}"#),
        "{metrics_text}"
    );
    running.stop().await;
}

#[tokio::test]
async fn wrong_tokens_count_against_who_sent_them_not_against_his_proxy() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let admin = "proxies = [\"127.0.0.1\"]\nforwarded = \"x-forwarded-for\"";
    let running = start(&database, "", admin, "").await;
    let url = format!("http://{}/v1/events", running.admin_addr);
    let (proxy, stranger) = (from("127.0.0.1"), from("127.0.0.66"));
    let wrong = async |peer: &reqwest::Client, origin: &str| {
        let request = peer.get(&url).bearer_auth("guessed").header("x-forwarded-for", origin);
        request.send().await.unwrap().status().as_u16()
    };
    let mut statuses = Vec::new();
    // Each second makes up for one of them, so it is the eleventh only where they come fast.
    while statuses.len() < 40 && statuses.last() != Some(&429) {
        statuses.push(wrong(&proxy, "198.51.100.1").await);
    }
    assert_eq!(statuses.pop(), Some(429));
    assert!(statuses.len() >= 10 && statuses.iter().all(|status| *status == 401), "{statuses:?}");
    assert_eq!(wrong(&proxy, "198.51.100.2").await, 401, "another one behind the same proxy");
    assert_eq!(
        wrong(&stranger, "198.51.100.1").await,
        401,
        "it is he himself who counts, whatever he writes"
    );
    running.stop().await;
}
