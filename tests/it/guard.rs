//! The operator side against strangers who reach it, through a browser or by guessing: on the real binary.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::database::{Database, On};
use crate::process::{Server, client, stripe, stripe_header};

const OPERATOR: &str = "operator-token-0123456789";

/// A server with a token and a name.
async fn serve() -> (Database, Server) {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    let config = std::fs::read_to_string(server.config()).unwrap();
    let admin = format!(
        "hosts = [\"ops.internal\"]\n\
         tokens = [{{ name = \"ops\", role = \"operator\", token = \"{OPERATOR}\" }}]\n[database]"
    );
    std::fs::write(server.config(), config.replace("[database]", &admin)).unwrap();
    server.spawn().await;
    (database, server)
}

/// The status of the answer to one request, sent as it is.
fn status(to: SocketAddr, request: &str) -> u16 {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 64];
    let n = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..n]).split(' ').nth(1).unwrap().parse().unwrap()
}

/// The head of the answer to one request, sent as it is. Lower case.
fn head(to: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 4_096];
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        let n = stream.read(&mut part).unwrap();
        assert!(n > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&part[..n]);
    }
    let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    text.split_once("\r\n\r\n").unwrap().0.to_owned()
}

#[tokio::test]
async fn every_answer_to_operators_keeps_to_itself_also_those_that_say_no() {
    let (_database, server) = serve().await;
    let own = server.admin.to_string();
    let bearer = format!("authorization: Bearer {OPERATOR}\r\n");
    for (line, host, more, want) in [
        ("GET /sign-in", own.as_str(), "", 200),
        ("GET /", &own, "", 303),
        ("GET /nothing", &own, "", 404),
        ("DELETE /events", &own, "", 401),
        ("POST /sign-in", &own, "", 403),
        ("GET /", "evil.example", "", 421),
        ("GET /", &own, "origin: http://evil.example\r\n", 403),
        ("GET /metrics", &own, "", 200),
        ("GET /openapi.json", &own, "", 200),
        ("GET /v1/me", &own, "", 401),
        ("GET /v1/me", &own, &bearer, 200),
        ("GET /v1/events", &own, &bearer, 200),
        ("GET /v1/nothing", &own, &bearer, 404),
    ] {
        let request = format!("{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n");
        let head = head(server.admin, &request);
        assert!(head.starts_with(&format!("http/1.1 {want} ")), "{line} {more:?}: {head}");
        for part in [
            "\r\ncache-control: no-store",
            "\r\ncontent-security-policy: default-src 'none'",
            "frame-ancestors 'none'",
            "\r\nx-content-type-options: nosniff",
        ] {
            assert_eq!(head.matches(part).count(), 1, "{line} {more:?} of {host}: {part}: {head}");
        }
    }
}

/// A client whose requests come from this address.
fn from(last: u8) -> reqwest::Client {
    drop(client());
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    // One connection for each request: refusals on a shared one are delayed.
    let builder = reqwest::Client::builder().no_proxy().local_address(address);
    builder.pool_max_idle_per_host(0).build().unwrap()
}

async fn ask(client: &reqwest::Client, server: &Server, token: &str) -> (u16, Option<u32>) {
    let url = format!("http://{}/v1/events", server.admin);
    let response = client.get(url).bearer_auth(token).send().await.unwrap();
    let after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().parse().unwrap());
    (response.status().as_u16(), after)
}

#[tokio::test]
async fn guessing_tokens_is_seen_and_keeps_no_operator_out() {
    let (_database, server) = serve().await;
    let (operator, stranger, newcomer) = (from(2), from(3), from(4));
    assert_eq!(ask(&operator, &server, OPERATOR).await.0, 200);
    let (mut refused, began) = (Vec::new(), Instant::now());
    for n in 0..300 {
        refused.push(ask(&stranger, &server, &format!("guess-0123456789-{n}")).await);
    }
    let answered_n = refused.iter().filter(|(status, _)| *status == 401).count();
    // Ten at once, and one a second.
    let refused_n_max = 11 + usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!((10..=refused_n_max).contains(&answered_n), "{answered_n} of 300 tokens were answered as wrong");
    assert!(refused.iter().all(|(status, after)| *status == 401 || (*status == 429 && after.is_some())));
    for (who, whose) in [(&operator, "its own"), (&stranger, "a guesser's"), (&newcomer, "a new")] {
        for n in 0..20 {
            ask(&stranger, &server, &format!("guess-0123456789-{n}")).await;
        }
        // Once a second one of them is answered with 401.
        let mut refused_n = 0;
        while ask(&stranger, &server, "guess-0123456789").await.0 != 429 {
            refused_n += 1;
            assert!(refused_n < 20, "a guesser does not wait");
        }
        assert_eq!(ask(who, &server, OPERATOR).await.0, 200, "a good token passes from {whose} address");
    }
    let others: Vec<reqwest::Client> = (5..200).map(from).collect();
    let answers = join_all(others.iter().map(|other| ask(other, &server, "guess-0123456789"))).await;
    assert!(
        answers.iter().any(|(status, _)| *status == 429),
        "all of them together are too many: {answers:?}"
    );
    assert_eq!(ask(&from(200), &server, OPERATOR).await.0, 200, "which is nothing to an operator");
    let lines_n = server.log().matches("refused a wrong operator token").count();
    // Two a second.
    let lines_n_max = 2 * (2 + usize::try_from(began.elapsed().as_secs()).unwrap());
    assert!((1..=lines_n_max).contains(&lines_n), "{lines_n} lines: {}", server.log());
    assert!(!server.log().contains("guess-"), "what was presented is not logged");
    let metrics = server.admin_text("/metrics").await;
    for reason in ["token", "throttled"] {
        let name = format!("hooklatch_operator_refused_total{{reason=\"{reason}\"}}");
        assert!(metrics.contains(&name), "{metrics}");
    }
}

#[tokio::test]
async fn only_requests_to_our_own_names_and_from_no_other_page_are_served_to_operators() {
    let (_database, server) = serve().await;
    let check = |path: &str, host: &str, more: &str, want: u16| {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {OPERATOR}\r\nconnection: close\r\n{more}\r\n"
        );
        assert_eq!(status(server.admin, &request), want, "{path} of {host} with {more:?}");
    };
    let own = server.admin.to_string();
    for path in ["/metrics", "/v1/events", "/v1/rejected", "/v1/providers"] {
        for ours in [own.as_str(), "localhost:8081", "ops.internal", "[::1]:9"] {
            check(path, ours, "", 200);
        }
        for other in ["evil.example", "127.0.0.1.evil.example:8081", "10.1.2.3"] {
            check(path, other, "", 421);
        }
        check(path, &own, "origin: http://evil.example\r\n", 403);
        check(path, &own, "origin: null\r\n", 403);
        // What else listens on a name of ours is not us, and browsers send it our cookie.
        check(path, "ops.internal", "origin: http://ops.internal:3000\r\n", 403);
        check(path, "ops.internal", "origin: http://ops.internal\r\n", 200);
        check(path, &own, "sec-fetch-site: cross-site\r\n", 403);
        check(path, &own, &format!("origin: http://{own}\r\nsec-fetch-site: same-origin\r\n"), 200);
    }
    check(&format!("http://evil.example:{}/metrics", server.admin.port()), &own, "", 421);
    check("/readyz", "any.name", "", 200);
    check("/livez", "any.name", "origin: http://evil.example\r\n", 200);
    for path in ["/v1/operations", "/livez", "/dev/echo-fail"] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {own}\r\norigin: http://evil.example\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        assert_eq!(status(server.admin, &request), 403, "POST {path}");
    }
    assert!(server.log().contains("a web page may have made"), "{}", server.log());
}

#[tokio::test]
async fn a_dev_server_takes_nothing_from_web_pages_and_no_endless_failures() {
    let server = Server::dev().await;
    let fail = format!("http://{}/dev/echo-fail", server.admin);
    for (order, want) in [
        (r#"{"status":500,"times":2}"#, 200),
        (r#"{"hang_ms":60000,"times":1000}"#, 200),
        (r#"{"times":0}"#, 200),
        (r#"{"times":4000000000}"#, 400),
        (r#"{"times":1,"hang_ms":86400000}"#, 400),
        (r#"{"times":1,"status":99}"#, 400),
        (r#"{"times":1,"status":600}"#, 400),
    ] {
        let sent = client().post(&fail).body(order).send().await.unwrap();
        assert_eq!(sent.status().as_u16(), want, "{order}");
    }
    let url = server.url("/webhooks/stripe");
    let (body, _) = stripe("evt_1", 0);
    let signature = stripe_header(&body, crate::process::now_s());
    let post = |name: &'static str, value: String| {
        client()
            .post(&url)
            .header("stripe-signature", &signature)
            .header(name, value)
            .body(body.clone())
            .send()
    };
    for (name, value) in [
        ("origin", "http://evil.example".to_owned()),
        ("origin", format!("http://{}", server.receiver)),
        ("sec-fetch-site", "cross-site".to_owned()),
    ] {
        assert_eq!(post(name, value).await.unwrap().status().as_u16(), 403, "{name}");
    }
    assert_eq!(post("x-other", "1".to_owned()).await.unwrap().status().as_u16(), 200);
    let echo = client().get(format!("http://{}/dev/echo", server.admin)).header("host", "evil.example");
    assert_eq!(echo.send().await.unwrap().status().as_u16(), 421);
}
