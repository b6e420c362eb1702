//! Proxies before the receiver that change requests as proxies do: a check reports each, and none makes an event.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{OPERATOR, examine};
use crate::database::{Database, on_sqlite};
use crate::process::{Server, client};

on_sqlite!(each_change_by_a_proxy_is_reported_by_its_check_and_makes_no_event);

/// What a proxy does besides passing on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Nothing,
    WritesJsonAnew,
    ChangesLineEnds,
    DropsSignature,
    ChangesSignature,
    DropsUnknownHeaders,
    DropsQuery,
    DropsHeaderAndQuery,
    StripsPrefix,
    AddsSegment,
    Redirects,
    TakesLittle,
    TakesTiny,
    AnswersItself,
    LiesWithAnAnswer,
    RefusesExpect,
    Fails,
}

struct Proxy {
    does: Does,
    to: SocketAddr,
    client: reqwest::Client,
}

fn answer(status: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

async fn pass(State(proxy): State<Arc<Proxy>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut body = body.collect().await.unwrap().to_bytes().to_vec();
    let mut path = parts.uri.path_and_query().unwrap().to_string();
    let without_query = parts.uri.path().to_owned();
    match proxy.does {
        Does::WritesJsonAnew => {
            if let Ok(value) = serde_json::from_slice::<Value>(&body) {
                body = serde_json::to_vec(&value).unwrap();
            }
        }
        Does::ChangesLineEnds => body.retain(|byte| *byte != b'\r'),
        Does::DropsSignature => drop(parts.headers.remove("stripe-signature")),
        Does::ChangesSignature => {
            if let Some(value) = parts.headers.get_mut("stripe-signature") {
                *value = HeaderValue::from_static("t=1");
            }
        }
        Does::DropsUnknownHeaders => drop(parts.headers.remove("hooklatch-probe")),
        Does::DropsQuery => path = without_query,
        Does::DropsHeaderAndQuery => {
            parts.headers.remove("hooklatch-probe");
            path = without_query;
        }
        Does::StripsPrefix => path = path.replacen("/webhooks", "", 1),
        Does::AddsSegment => path = format!("/in{path}"),
        Does::Redirects => {
            let mut response = answer(308, "");
            let location = HeaderValue::try_from(format!("https://www.example.com{path}")).unwrap();
            response.headers_mut().insert("location", location);
            return response;
        }
        Does::TakesLittle if body.len() > 300_000 => return answer(413, "too large"),
        Does::TakesTiny if body.len() > 100_000 => return answer(413, "too large"),
        Does::AnswersItself => return answer(200, "ok"),
        Does::LiesWithAnAnswer => {
            let arrived = json!({
                "method": "POST", "path": without_query, "is_in_header": true, "is_in_query": true,
                "body_bytes_n": body.len(), "body_digest": "00", "headers": [],
            });
            let said = json!({ "arrived": arrived.to_string(), "proof": "00".repeat(32) });
            return answer(200, said.to_string());
        }
        Does::RefusesExpect if parts.headers.contains_key("expect") => return answer(417, ""),
        Does::Fails => return answer(502, "bad gateway"),
        _ => {}
    }
    let hop = ["host", "content-length", "connection", "transfer-encoding", "expect"];
    let mut passed = proxy.client.request(parts.method, format!("http://{}{path}", proxy.to)).body(body);
    for (name, value) in
        parts.headers.iter().filter(|(name, _): &(&HeaderName, _)| !hop.contains(&name.as_str()))
    {
        passed = passed.header(name, value);
    }
    let response = passed.header("x-forwarded-for", "192.0.2.1").send().await.unwrap();
    answer(response.status().as_u16(), response.bytes().await.unwrap())
}

async fn proxy(does: Does, to: SocketAddr) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let router = Router::new().fallback(pass).with_state(Arc::new(Proxy { does, to, client: client() }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    addr
}

/// What a proxy does, the checks that tell it with their verdicts, and a word of what they found.
type Row<'a> = (Does, &'a [(&'a str, &'a str)], &'a str);

async fn each_change_by_a_proxy_is_reported_by_its_check_and_makes_no_event(database: &Database) {
    let mut server = Server::prepare(&database.url, OPERATOR);
    let reached = [("public.reached", "failure")];
    let table: [Row<'_>; 17] = [
        (Does::Nothing, &[], ""),
        (
            Does::WritesJsonAnew,
            &[("public.body", "failure")],
            "white space in JSON, the order of keys, escapes in JSON",
        ),
        (Does::ChangesLineEnds, &[("public.body", "failure")], "rewritten are line ends"),
        (Does::DropsSignature, &[("public.headers", "failure")], "dropped"),
        (Does::ChangesSignature, &[("public.headers", "failure")], "value was changed"),
        (Does::DropsUnknownHeaders, &[], ""),
        (Does::DropsQuery, &[("public.path", "warning")], "query was dropped"),
        (Does::DropsHeaderAndQuery, &reached, "drops both"),
        (Does::StripsPrefix, &[("public.path", "failure")], "arrived POST /stripe"),
        (Does::AddsSegment, &[("public.path", "failure")], "arrived POST /in/webhooks/stripe"),
        (
            Does::Redirects,
            &[("public.redirect", "failure")],
            "308 to https://www.example.com/webhooks/stripe",
        ),
        (Does::TakesLittle, &[("public.size", "warning")], "413"),
        (Does::TakesTiny, &[("public.size", "failure"), ("public.size", "warning")], "413"),
        (Does::AnswersItself, &reached, "no answer of ours"),
        (Does::LiesWithAnAnswer, &reached, "something on the way wrote it"),
        (Does::RefusesExpect, &[("public.expect", "warning")], "417"),
        (Does::Fails, &reached, "502"),
    ];
    for (does, wanted, words) in table {
        let at = proxy(does, server.receiver).await;
        let keys = format!("public_url = \"http://{at}\"\nbody_bytes_max = 1048576\n");
        let text = std::fs::read_to_string(server.config()).unwrap();
        let text = if let Some((before, rest)) = text.split_once("public_url") {
            format!("{before}{keys}[admin]{}", rest.split_once("[admin]").unwrap().1)
        } else {
            server.server_keys(&keys);
            std::fs::read_to_string(server.config()).unwrap()
        };
        std::fs::write(server.config(), text).unwrap();
        server.kill();
        server.spawn().await;
        let found = examine(&server, &[]).await;
        let of_the_way: Vec<(String, String)> =
            found.bad().into_iter().filter(|(check, _)| check.starts_with("public.")).collect();
        let wanted: Vec<(String, String)> =
            wanted.iter().map(|(check, verdict)| ((*check).to_owned(), (*verdict).to_owned())).collect();
        assert_eq!(of_the_way, wanted, "{does:?}: {}", found.text);
        assert!(found.text.contains(words), "{does:?}: {}", found.text);
        // The query of a redirect, which has the token, is not shown.
        assert!(!found.text.contains("hooklatch-probe="), "{does:?}: {}", found.text);
        let is_failure = wanted.iter().any(|(_, verdict)| verdict == "failure");
        let of_warnings = if wanted.is_empty() { 0 } else { 8 };
        found.ends_with(if is_failure { 1 } else { of_warnings });
        assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 0, "{does:?}");
    }
}
