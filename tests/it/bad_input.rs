//! Bad input to the real binary: each with its documented answer, and no row unless the signature was good.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hooklatch_core::types::{EventKey, EventState};
use reqwest::header::{HeaderMap, HeaderValue};

use crate::database::{Database, On};
use crate::process::{SECRET, Server, client, now_s, stripe, stripe_header};

struct Case {
    server: Server,
    client: reqwest::Client,
    database: Database,
}

impl Case {
    async fn start() -> Self {
        Self::with("").await
    }

    /// A server with these lines in `[server]`.
    async fn with(keys: &str) -> Self {
        let database = Database::create(On::Sqlite).await.unwrap();
        let mut server = Server::prepare(&database.url, "");
        server.server_keys(keys);
        server.spawn().await;
        Self { server, client: client(), database }
    }

    /// Sends `body` with these `stripe-signature` headers, and checks status, code and outcome.
    async fn check(&self, what: &str, body: &[u8], signatures: &[&str], want: (u16, &str)) {
        let mut headers = HeaderMap::new();
        for signature in signatures {
            headers.append("stripe-signature", HeaderValue::from_str(signature).unwrap());
        }
        let request =
            self.client.post(self.server.url("/webhooks/stripe")).headers(headers).body(body.to_vec());
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let outcome =
            response.headers().get("hooklatch-outcome").map(|value| value.to_str().unwrap().to_owned());
        let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
        let text = response.text().await.unwrap();
        let word = outcome.unwrap_or_else(|| {
            assert_eq!(content_type, "application/problem+json", "{what}");
            let problem: serde_json::Value = serde_json::from_str(&text).unwrap();
            problem["code"].as_str().unwrap().to_owned()
        });
        assert_eq!((status, word.as_str()), want, "{what}: {text}");
        assert!(!text.contains(SECRET) && !text.contains("v1="), "{what} says too much: {text}");
    }

    /// Sends raw bytes and reads the status of the answer.
    fn raw_status(&self, parts: &[&[u8]]) -> u16 {
        let mut stream = TcpStream::connect(self.server.receiver).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        for part in parts {
            // The server may answer and close before it has read everything.
            if stream.write_all(part).is_err() {
                break;
            }
        }
        let mut answer = Vec::new();
        let mut chunk = [0; 1024];
        while !answer.windows(2).any(|two| two == b"\r\n") {
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => break,
                Ok(n) => answer.extend_from_slice(&chunk[..n]),
            }
        }
        String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// Stops the server and counts what it kept.
    async fn rows(mut self) -> Vec<(String, String)> {
        self.server.kill();
        let store = self.database.store().await;
        let rows = crate::store::all_events(&store).await;
        rows.into_iter().map(|row| (row.key.event_id, row.state.to_string())).collect()
    }
}

#[tokio::test]
async fn what_is_not_believed_is_answered_401_and_leaves_no_row() {
    let case = Case::start().await;
    let at_s = now_s();
    let (body, good) = stripe("evt_1", at_s);
    let (_, stale) = stripe("evt_1", at_s - 3_600);
    let (_, future) = stripe("evt_1", at_s + 3_600);
    let wrong = good.replace("v1=", "v1=0");
    let refused = (401, "rejected");
    let body = body.as_bytes();
    case.check("wrong", body, &[&format!("t={at_s},v1={}", "0".repeat(64))], refused).await;
    case.check("of another length", body, &[&wrong], refused).await;
    case.check("missing", body, &[], refused).await;
    case.check("empty", body, &[""], refused).await;
    case.check("stale", body, &[&stale], refused).await;
    case.check("future", body, &[&future], refused).await;
    case.check("truncated", body, &[good.strip_suffix(good.chars().last().unwrap()).unwrap()], refused).await;
    case.check("without a signature", body, &[good.split(',').next().unwrap()], refused).await;
    case.check("doubled header", body, &[&good, &good], refused).await;
    case.check("two timestamps", body, &[&format!("t=1,{good}")], refused).await;
    case.check(
        "upper case",
        body,
        &[&good.to_uppercase().replace("T=", "t=").replace("V1=", "v1=")],
        refused,
    )
    .await;
    case.check("scheme v0", body, &[&good.replace("v1=", "v0=")], refused).await;
    case.check("another body", b"{}", &[&good], refused).await;
    case.check("10,000 signatures", body, &[&format!("t={at_s}{}", ",v1=00".repeat(10_000))], refused).await;
    assert_eq!(case.rows().await, []);
}

#[tokio::test]
async fn what_is_no_webhook_has_its_documented_answer_and_leaves_no_row() {
    let case = Case::start().await;
    let (body, good) = stripe("evt_1", now_s());
    let get = case.client.get(case.server.url("/webhooks/stripe")).send().await.unwrap();
    assert_eq!((get.status().as_u16(), get.headers()["allow"].to_str().unwrap()), (405, "POST"));
    for path in ["/webhooks/absent", "/webhooks/", "/", "/webhooks/stripe/more", "/webhooks/%00"] {
        let sent =
            case.client.post(case.server.url(path)).header("stripe-signature", &good).body(body.clone());
        assert_eq!(sent.send().await.unwrap().status().as_u16(), 404, "{path}");
    }
    let large = vec![b'x'; (1 << 20) + 1];
    case.check("over the cap", &large, &[&stripe_header(&large, now_s())], (413, "body_too_large")).await;
    let chunked = b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    assert_eq!(case.raw_status(&[chunked, chunk.as_bytes(), chunk.as_bytes()]), 413, "no length, no end");
    let slow = b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{";
    // On a server of its own: nothing else is to be slower than that.
    let impatient = Case::with("body_timeout_ms = 700").await;
    assert_eq!(impatient.raw_status(&[slow]), 408, "slower than the timeout");
    assert_eq!(impatient.rows().await, []);
    let mut many = b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n".to_vec();
    for n in 0..1_000 {
        many.extend_from_slice(format!("x-{n}: 1\r\n").as_bytes());
    }
    many.extend_from_slice(b"\r\n{}");
    assert_eq!(case.raw_status(&[&many]), 431, "1,000 headers");
    let endless = [b"POST /webhooks/stripe HTTP/1.1\r\nx: ".to_vec(), vec![b'x'; 200_000]].concat();
    assert_eq!(case.raw_status(&[&endless]), 431, "a header that never ends");
    assert_eq!(case.raw_status(&[b"nonsense\r\n\r\n"]), 400);
    case.check("and a good one is still taken", body.as_bytes(), &[&good], (200, "accepted")).await;
    assert_eq!(case.rows().await, [("evt_1".to_owned(), "ignored".to_owned())]);
}

#[tokio::test]
async fn what_the_rfcs_forbid_is_refused_before_anybody_reads_it() {
    let case = Case::start().await;
    let (body, good) = stripe("evt_1", now_s());
    let check = |what: &str, headers: &str, body: &str, want: u16| {
        let request =
            format!("POST /webhooks/stripe HTTP/1.1\r\n{headers}stripe-signature: {good}\r\n\r\n{body}");
        assert_eq!(case.raw_status(&[request.as_bytes()]), want, "{what}");
    };
    let length = format!("content-length: {}\r\n", body.len());
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    check("no host", &length, &body, 400);
    check("two hosts", &format!("host: a\r\nhost: a\r\n{length}"), &body, 400);
    check("no host at all", &format!("host: a b\r\n{length}"), &body, 400);
    check("an expectation", &format!("host: a\r\nexpect: 200-maybe\r\n{length}"), &body, 417);
    check("chunked twice", "host: a\r\ntransfer-encoding: chunked, chunked\r\n", &chunked, 400);
    check("another coding", "host: a\r\ntransfer-encoding: gzip, chunked\r\n", &chunked, 501);
    assert_eq!(case.database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 0);
    check("chunked once", "host: a\r\ntransfer-encoding: chunked\r\n", &chunked, 200);
    let old = format!("POST /webhooks/stripe HTTP/1.0\r\n{length}stripe-signature: {good}\r\n\r\n{body}");
    assert_eq!(case.raw_status(&[old.as_bytes()]), 200, "HTTP/1.0 needs no host");
}

#[tokio::test]
async fn after_a_good_signature_what_cannot_be_read_is_kept_and_shown() {
    let case = Case::start().await;
    let bodies: [&[u8]; 4] = [b"not json", br#"{"id":"a","id":"b"}"#, &[0xff, 0xfe, 0x00], b""];
    for body in bodies {
        let what = String::from_utf8_lossy(body).into_owned();
        let signature = stripe_header(body, now_s());
        case.check(&what, body, &[&signature], (200, "unreadable")).await;
        case.check(&what, body, &[&signature], (200, "duplicate")).await;
    }
    let mut case = case;
    case.server.kill();
    let store = case.database.store().await;
    let rows = crate::store::all_events(&store).await;
    assert_eq!(rows.len(), bodies.len());
    for row in rows {
        assert_eq!(row.state, EventState::Unreadable);
        assert!(row.error.is_some_and(|why| !why.is_empty()), "it says why");
        assert!(row.key.event_id.starts_with("unreadable:"));
        assert!(store.event_get(&EventKey { ..row.key }).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn after_a_good_signature_what_has_no_id_is_dispatched_by_its_content_and_its_row_says_so() {
    let case = Case::start().await;
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(300));
    let bodies: [&[u8]; 4] =
        [br#"{"type":"x"}"#, long.as_bytes(), br#"{"id":"a\u0000b"}"#, br#"{"id":"a\nb"}"#];
    for body in bodies {
        let what = String::from_utf8_lossy(body).into_owned();
        let signature = stripe_header(body, now_s());
        case.check(&what, body, &[&signature], (200, "accepted")).await;
        case.check(&what, body, &[&signature], (200, "duplicate")).await;
    }
    let metrics = case.server.admin_text("/metrics").await;
    assert!(metrics.contains("hooklatch_unidentified_total{provider=\"stripe\"} 8"), "{metrics}");
    assert!(case.server.log().contains("an event is identified by its content"), "{}", case.server.log());
    let mut case = case;
    case.server.kill();
    let rows = crate::store::all_events(&case.database.store().await).await;
    assert_eq!(rows.len(), bodies.len());
    for row in rows {
        assert!(row.key.event_id.starts_with("content:"), "{row:?}");
        assert!(row.identity.starts_with("content/1 for want of another: "), "{row:?}");
    }
}

#[tokio::test]
async fn a_number_beyond_2_to_the_53_stays_itself() {
    let case = Case::start().await;
    for id in ["9007199254740993", "9007199254740992", "18446744073709551616", "18446744073709551617"] {
        let body = format!(r#"{{"id":{id},"type":"x"}}"#);
        case.check(id, body.as_bytes(), &[&stripe_header(&body, now_s())], (200, "accepted")).await;
    }
    assert_eq!(case.rows().await.len(), 4);
}

#[tokio::test]
async fn an_empty_list_of_secrets_keeps_the_server_from_starting() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::prepare(&database.url, "");
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace(&format!("\"{SECRET}\""), "")).unwrap();
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_hooklatch"))
        .args(["serve", "--config"])
        .arg(server.config())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(!run.status.success() && said.contains("providers.stripe.secrets"), "{said}");
}
