//! Every way in which the receiver refuses a request: each moves one counter by one, and leaves a trace that has the
//! request's id.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::console::Browser;
use crate::contract::Operator;
use crate::database::{Database, On};
use crate::process::{Server, client, now_s, stripe, stripe_header, until};

/// One refusal.
struct Exit {
    /// The constant of `http::error::Problem` that answers; empty where another layer does.
    problem: &'static str,
    sent: Sent,
    status: u16,
    /// The provider, the outcome and the reason that are counted, and whether the request looked signed; no `signed`
    /// where it is rejected.
    counted: (&'static str, &'static str, &'static str, Option<&'static str>),
    trace: Trace,
}

enum Sent {
    /// These bytes.
    Raw(&'static str),
    /// A signed event of stripe for this provider.
    Event(&'static str),
    /// A signed event for stripe while another request holds all the memory.
    Beside(&'static str),
}

/// The trace that a refused request leaves.
#[derive(PartialEq)]
enum Trace {
    /// A log line.
    Log,
    /// A log line and a rejection.
    Rejection,
    /// The counter alone: it was no request yet.
    Counter,
}

/// Begins a body that is not sent on.
const HELD: &str = "POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 16000\r\n\r\n";

const EXITS: &[Exit] = &[
    Exit {
        problem: "METHOD",
        sent: Sent::Raw("PUT /webhooks/stripe HTTP/1.1\r\nhost: a\r\n\r\n"),
        status: 405,
        counted: ("stripe", "refused", "method_not_allowed", Some("no")),
        trace: Trace::Rejection,
    },
    Exit {
        problem: "METHOD",
        sent: Sent::Raw("GET /webhooks/stripe HTTP/1.1\r\nhost: a\r\n\r\n"),
        status: 405,
        counted: ("stripe", "none", "method_not_allowed", Some("no")),
        trace: Trace::Log,
    },
    Exit {
        problem: "OTHER_METHOD",
        sent: Sent::Raw("DELETE /webhooks/shop/key HTTP/1.1\r\nhost: a\r\n\r\n"),
        status: 405,
        counted: ("shop", "refused", "method_not_allowed", Some("no")),
        trace: Trace::Rejection,
    },
    Exit {
        problem: "NO_SUCH_PROVIDER",
        sent: Sent::Raw(
            "POST /webhooks/strpe?a=b HTTP/1.1\r\nhost: a\r\nstripe-signature: x\r\ncontent-length: 0\r\n\r\n",
        ),
        status: 404,
        counted: ("-", "refused", "no_such_provider", Some("yes")),
        trace: Trace::Log,
    },
    Exit {
        problem: "TOO_LARGE",
        sent: Sent::Raw(
            "POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\nstripe-signature: x\r\ncontent-length: 20000\r\n\r\n",
        ),
        status: 413,
        counted: ("stripe", "refused", "body_too_large", Some("yes")),
        trace: Trace::Rejection,
    },
    Exit {
        problem: "TOO_SLOW",
        sent: Sent::Raw("POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n{"),
        status: 408,
        counted: ("stripe", "refused", "body_too_slow", Some("no")),
        trace: Trace::Rejection,
    },
    Exit {
        problem: "BROKEN_BODY",
        sent: Sent::Raw(
            "POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        ),
        status: 400,
        counted: ("stripe", "refused", "body_broken", Some("no")),
        trace: Trace::Rejection,
    },
    Exit {
        problem: "BAD_HOST",
        sent: Sent::Raw("POST /webhooks/stripe HTTP/1.1\r\ncontent-length: 0\r\n\r\n"),
        status: 400,
        counted: ("stripe", "refused", "host_bad", Some("no")),
        trace: Trace::Rejection,
    },
    Exit {
        problem: "EXPECTATION",
        sent: Sent::Raw("POST /else HTTP/1.1\r\nhost: a\r\nexpect: tea\r\ncontent-length: 0\r\n\r\n"),
        status: 417,
        counted: ("-", "refused", "expectation_unknown", Some("no")),
        trace: Trace::Log,
    },
    Exit {
        problem: "BAD_CODING",
        sent: Sent::Raw(
            "POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        ),
        status: 400,
        counted: ("stripe", "refused", "coding_bad", Some("no")),
        trace: Trace::Rejection,
    },
    Exit {
        problem: "UNKNOWN_CODING",
        sent: Sent::Raw(
            "POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        ),
        status: 501,
        counted: ("stripe", "unavailable", "coding_unknown", Some("no")),
        trace: Trace::Log,
    },
    Exit {
        problem: "ADDRESS",
        sent: Sent::Event("fenced"),
        status: 403,
        counted: ("fenced", "rejected", "address", None),
        trace: Trace::Rejection,
    },
    Exit {
        problem: "REJECTED",
        sent: Sent::Raw("POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"),
        status: 401,
        counted: ("stripe", "rejected", "header_missing", None),
        trace: Trace::Rejection,
    },
    Exit {
        problem: "HANDLER_FAILED",
        sent: Sent::Event("strict"),
        status: 500,
        counted: ("strict", "unavailable", "handler_failed", Some("yes")),
        trace: Trace::Log,
    },
    Exit {
        problem: "SATURATED",
        sent: Sent::Beside(HELD),
        status: 503,
        counted: ("stripe", "unavailable", "saturated", Some("yes")),
        trace: Trace::Log,
    },
    Exit {
        problem: "",
        sent: Sent::Raw("NONSENSE\r\n\r\n"),
        status: 400,
        counted: ("-", "refused", "head_malformed", Some("no")),
        trace: Trace::Counter,
    },
    Exit {
        problem: "",
        sent: Sent::Raw(LONG_HEAD),
        status: 431,
        counted: ("-", "refused", "head_too_large", Some("no")),
        trace: Trace::Counter,
    },
    Exit {
        problem: "",
        sent: Sent::Raw("POST /webhooks/stripe HTTP/1.1\r\nhost:"),
        // The connection is closed.
        status: 0,
        counted: ("-", "refused", "head_too_slow", Some("no")),
        trace: Trace::Counter,
    },
];

/// A head that is larger than any that is read.
const LONG_HEAD: &str = {
    static HEAD: [u8; 70_000] = {
        let (mut head, start) = ([b'a'; 70_000], *b"POST /webhooks/stripe HTTP/1.1\r\nhost: ");
        let mut n = 0;
        while n < start.len() {
            head[n] = start[n];
            n += 1;
        }
        head
    };
    match std::str::from_utf8(&HEAD) {
        Ok(text) => text,
        Err(_) => "",
    }
};

/// The last one, because it stops the database.
const UNAVAILABLE: Exit = Exit {
    problem: "UNAVAILABLE",
    sent: Sent::Event("stripe"),
    status: 503,
    counted: ("stripe", "unavailable", "unavailable", Some("yes")),
    trace: Trace::Log,
};

const PROVIDERS: &str = "[providers.shop]\nkind = \"first_party\"\nsettings = { auth = \"bearer\" }\nsecrets = [\"token_of_a_shop_0123456789\"]\n\
    [providers.fenced]\nkind = \"stripe\"\nsecrets = [\"whsec_test_0123456789abcdef\"]\nallow_from = [\"192.0.2.0/24\"]\n\
    [providers.strict]\nkind = \"stripe\"\nsecrets = [\"whsec_test_0123456789abcdef\"]\non_handler_error = \"reject\"\n\
    [[providers.strict.routes]]\non = [\"*\"]\nto = \"templated\"\n\
    [destinations.templated]\nurl = \"http://127.0.0.1:9/{{ payload.nowhere.deep }}\"\n";

#[tokio::test]
async fn every_refusal_moves_one_counter_and_leaves_one_trace() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, PROVIDERS);
    server.server_keys(
        "header_timeout_ms = 2000\nbody_timeout_ms = 1500\nbody_bytes_max = 16384\ninflight_bytes_max = 16384",
    );
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace("filter = \"warn\"", "filter = \"info\"")).unwrap();
    server.spawn().await;
    for exit in EXITS {
        is_recorded(&server, &database, exit).await;
    }
    database.run("ALTER TABLE processed_webhook_events RENAME TO gone").await.unwrap();
    is_recorded(&server, &database, &UNAVAILABLE).await;
}

#[tokio::test]
async fn log_lines_have_the_duration_of_a_request_and_the_address_of_a_refused_one() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace("filter = \"warn\"", "filter = \"info\"")).unwrap();
    server.spawn().await;
    let refused = b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}";
    for (request, status, fields) in [
        (&event("stripe")[..], 200, &["\"took_ms\":", "\"outcome\":\"accepted\"", "\"event.id\":"][..]),
        (refused, 401, &["\"client.address\":\"127.0.0.1", "\"reason\":\"header_missing\""]),
    ] {
        let (answered, id) = answered(server.receiver, request).await;
        let id = id.unwrap();
        assert_eq!(answered, status, "{}", server.log());
        let mut line = String::new();
        let is_written = async || {
            let log = server.log();
            line = log.lines().find(|line| line.contains(&id)).unwrap_or_default().to_owned();
            !line.is_empty()
        };
        until("it is logged", Duration::from_secs(20), || server.log(), is_written).await;
        for field in fields {
            assert!(line.contains(field), "no {field} in {line}");
        }
    }
}

async fn is_recorded(server: &Server, database: &Database, exit: &Exit) {
    let before = counted(&server.admin_text("/metrics").await);
    // Open until the end: a connection that is lost is a refusal, too.
    let mut holding = Vec::new();
    let (status, request_id) = match exit.sent {
        Sent::Raw(bytes) => answered(server.receiver, bytes.as_bytes()).await,
        Sent::Event(provider) => answered(server.receiver, &event(provider)).await,
        Sent::Beside(head) => {
            let held = [head.as_bytes(), &[b' '; 15_000]].concat();
            let mut last = (0, None);
            until(
                "there is no memory left",
                Duration::from_secs(20),
                || server.log(),
                async || {
                    let mut stream = TcpStream::connect(server.receiver).await.unwrap();
                    stream.write_all(&held).await.unwrap();
                    last = answered(server.receiver, &event("stripe")).await;
                    holding.push(stream);
                    last.0 != 200
                },
            )
            .await;
            last
        }
    };
    let what = format!("{} {:?}", exit.problem, exit.counted);
    assert_eq!(status, exit.status, "{what}\n{}", server.log());
    let (provider, outcome, reason, signed) = exit.counted;
    let ended = format!("hooklatch_requests_total{{provider=\"{provider}\",outcome=\"{outcome}\"}}");
    let why = match signed {
        Some(signed) => {
            format!(
                "hooklatch_refused_total{{provider=\"{provider}\",reason=\"{reason}\",signed=\"{signed}\"}}"
            )
        }
        None => format!("hooklatch_rejected_total{{provider=\"{provider}\",reason=\"{reason}\"}}"),
    };
    let mut moved = BTreeMap::new();
    // Hyper answers what is no request before we hear of it.
    until(
        &what,
        Duration::from_secs(20),
        || server.log(),
        async || {
            moved = counted(&server.admin_text("/metrics").await);
            moved.retain(|series, n| *n != before.get(series).copied().unwrap_or_default());
            !moved.is_empty()
        },
    )
    .await;
    let is_other =
        |series: &&String| !series.contains("outcome=\"accepted\"") && !series.contains("\"duplicate\"");
    let moved: BTreeSet<&String> = moved.keys().filter(is_other).collect();
    let wanted = BTreeSet::from([&ended, &why]);
    // What holds the memory may be refused, too.
    let is_held = !holding.is_empty() && moved.is_superset(&wanted);
    assert!(moved == wanted || is_held, "{what}: {moved:?}");
    drop(holding);
    let Some(id) = request_id else {
        assert!(exit.trace == Trace::Counter, "{what}");
        return;
    };
    // Of one reason a line a second is written: what held the memory may have had it.
    let log = server.log();
    let is_left_out = is_held && log.contains(&format!("\"reason\":\"{reason}\""));
    assert!(log.contains(&id) || is_left_out, "{what}: the log has {id}\n{log}");
    if exit.trace == Trace::Rejection {
        let noted = "SELECT rejection_id || ' ' || provider || ' ' || reason || ' ' || client_address FROM rejected_requests";
        let wanted = format!("{id} {provider} {reason} 127.0.0.1");
        until(
            &what,
            Duration::from_secs(20),
            || server.log(),
            async || database.texts(noted).await.contains(&wanted),
        )
        .await;
    }
}

fn event(provider: &str) -> Vec<u8> {
    let (body, _) = stripe(&format!("evt_{}", fastrand::u64(..)), now_s());
    let signature = stripe_header(&body, now_s());
    format!(
        "POST /webhooks/{provider} HTTP/1.1\r\nhost: a\r\nstripe-signature: {signature}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Status and request id of the answer to these bytes.
async fn answered(to: SocketAddr, bytes: &[u8]) -> (u16, Option<String>) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = vec![0; 4_096];
    let n = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..n]).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let id = answer.lines().find_map(|line| line.strip_prefix("hooklatch-request-id: "));
    (status, id.map(str::to_owned))
}

/// The counters of requests.
fn counted(metrics: &str) -> BTreeMap<String, u64> {
    let names = ["hooklatch_requests_total{", "hooklatch_refused_total{", "hooklatch_rejected_total{"];
    let lines = metrics.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    lines
        .filter_map(|line| {
            let (series, n) = line.rsplit_once(' ')?;
            Some((series.to_owned(), n.parse().ok()?))
        })
        .collect()
}

#[tokio::test]
async fn a_get_or_head_without_a_signature_to_a_post_only_provider_is_no_rejection() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(
        &database.url,
        "[providers.mangopay]\nsecrets = [\"mangopay-token-0123456789\"]\n\
         [providers.meta]\nsecrets = [\"meta-secret-0123456789abcdef\"]\n\
         settings.verify_token = \"meta-verify-token-0123456789\"\n\
         [providers.chargebee]\nsettings = { username = \"hooks\", password = \"chargebee-password-0123\" }\n\
         [providers.midtrans]\nsecrets = [\"midtrans-secret-0123456789\"]\n",
    )
    .await;
    let client = client();
    let check = async |method: &str, provider: &str, signature: Option<&str>, want: (u16, &str)| {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = client.request(method.clone(), server.url(&format!("/webhooks/{provider}")));
        if let Some(signature) = signature {
            request = request.header("stripe-signature", signature);
        }
        let response = request.send().await.unwrap();
        let allow = response.headers().get("allow").map_or("", |value| value.to_str().unwrap());
        assert_eq!((response.status().as_u16(), allow), want, "{method} {provider}");
    };
    // Opened in a browser, or by a monitor: no event was lost.
    for provider in ["stripe", "midtrans"] {
        check("GET", provider, None, (405, "POST")).await;
        check("HEAD", provider, None, (405, "POST")).await;
    }
    check("HEAD", "chargebee", None, (405, "POST")).await;
    // A redirect made a GET of a signed event, or may have: this kind signs in no header. A method that no browser uses.
    check("GET", "stripe", Some("t=1,v1=00"), (405, "POST")).await;
    check("GET", "chargebee", None, (405, "POST")).await;
    check("PUT", "stripe", None, (405, "POST")).await;
    // Events or handshakes that are GETs, but wrong; a method that is neither.
    check("GET", "mangopay", None, (401, "")).await;
    check("HEAD", "mangopay", None, (405, "GET")).await;
    check("GET", "meta", None, (405, "POST")).await;
    check("HEAD", "meta", None, (405, "POST")).await;
    let mut noted = Vec::new();
    let rows = "SELECT provider || ' ' || reason FROM rejected_requests ORDER BY provider, reason";
    let wanted = [
        "chargebee method_not_allowed",
        "mangopay malformed",
        "mangopay method_not_allowed",
        "meta method_not_allowed",
        "stripe method_not_allowed",
        "stripe method_not_allowed",
    ];
    let all = async || {
        noted = database.texts(rows).await;
        noted.len() >= wanted.len()
    };
    until("those are recorded", Duration::from_secs(20), || server.log(), all).await;
    assert_eq!(noted, wanted, "and the others are not: each provider's are written in their order");
    let metrics = server.admin_text("/metrics").await;
    assert!(!metrics.contains("hooklatch_rejected_total{provider=\"stripe\""), "{metrics}");
    assert!(
        metrics.contains("hooklatch_requests_total{provider=\"midtrans\",outcome=\"none\"} 2"),
        "{metrics}"
    );
    assert!(!metrics.contains("reason=\"method_not_allowed\",signed=\"yes\"} 2"), "{metrics}");
}

#[test]
fn no_refusal_of_the_receiver_is_missing_here() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/operator/src/http");
    let mut in_source = BTreeSet::new();
    let mut text: String =
        ["receiver.rs", "edge.rs"].map(|file| std::fs::read_to_string(root.join(file)).unwrap()).concat();
    let errors = std::fs::read_to_string(root.join("error.rs")).unwrap();
    let (_, of_receive) = errors.split_once("impl From<&ReceiveError> for Problem {").unwrap();
    text.push_str(&of_receive.split_once("\n}\n").unwrap().0.replace("Self::", "Problem::"));
    // The method by which events come depends on the kind.
    text = text.replace("Problem::method_of(", "Problem::METHOD(");
    for rest in text.split("Problem::").skip(1) {
        let name: String = rest.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
        if name.len() > 1 {
            in_source.insert(name);
        }
    }
    let forced: BTreeSet<String> = EXITS
        .iter()
        .chain([&UNAVAILABLE])
        .map(|exit| exit.problem)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    assert_eq!(in_source, forced, "each exit of the receiver is forced by the test above");
}

const TOKENS: &str = "[[admin.tokens]]\nname = \"ann\"\nrole = \"operator\"\ntoken = \"anns-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"vics-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"bob\"\nrole = \"operator\"\ntoken = \"bobs-token-0123456789\"\nproviders = [\"stripe\"]\n";

#[tokio::test]
async fn a_path_with_a_typo_is_shown_with_the_provider_that_was_meant() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, TOKENS).await;
    for path in ["/webhooks/strpe?secret=of-a-query", "/webhooks/strpe", "/wp-login.php"] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(answered(server.receiver, head.as_bytes()).await.0, 404);
    }
    let ann = Operator::new(server.admin, "anns-token-0123456789");
    let found = ann.ask("GET", "/backlog", &[], None).await.body["unknown_paths"].clone();
    // What looks like a sender's comes first, and is not replaced by anything else of the same client.
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    let wanted = [
        ("path", "/webhooks/strpe".into()),
        ("nearest_provider", "stripe".into()),
        ("requests_n", 2.into()),
        ("client_address", "127.0.0.1".into()),
    ];
    for (field, want) in wanted {
        let want: serde_json::Value = want;
        assert_eq!(found[0][field], want, "{found}");
    }
    let vic = Operator::new(server.admin, "vics-token-0123456789");
    let seen = vic.ask("GET", "/backlog", &[], None).await.body["unknown_paths"].clone();
    assert!(seen[0]["path"] == "/webhooks/strpe" && seen[0]["client_address"].is_null(), "{seen}");
    let bob = Operator::new(server.admin, "bobs-token-0123456789");
    assert_eq!(bob.ask("GET", "/backlog", &[], None).await.body["unknown_paths"], serde_json::json!([]));
    let findings = ann.ask("GET", "/doctor", &[], None).await.body["findings"].clone();
    let paths = findings.as_array().unwrap().iter().find(|one| one["check"] == "receiver.paths").unwrap();
    assert!(paths["verdict"] == "warning" && paths["found"].to_string().contains("`stripe`"), "{paths}");
    let person = Browser::signed_in(server.admin, "anns-token-0123456789").await;
    for page in ["/", "/rejected"] {
        let text = person.get(page).await.text;
        assert!(text.contains("/webhooks/strpe") && text.contains("Probably meant for"), "{page}: {text}");
        assert!(!text.contains("of-a-query"), "{page}");
    }
}

#[tokio::test]
async fn the_largest_push_that_github_documents_is_not_too_large() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let more = "[providers.github]\nsecrets = [\"secret_of_github_0123456789\"]\n";
    let server = Server::start(&database.url, more).await;
    let body = format!("{{\"ref\":\"{}\"}}", "x".repeat(1_500_000));
    let mut mac =
        <hmac::Hmac<sha2::Sha256> as hmac::KeyInit>::new_from_slice(b"secret_of_github_0123456789").unwrap();
    hmac::Mac::update(&mut mac, body.as_bytes());
    let signature = hex::encode(hmac::Mac::finalize(mac).into_bytes());
    let request = client().post(server.url("/webhooks/github")).header("x-github-event", "push");
    let request = request
        .header("x-github-delivery", "d1")
        .header("x-hub-signature-256", format!("sha256={signature}"));
    let sent = request.header("content-type", "application/json").body(body).send().await.unwrap();
    assert_eq!(
        (sent.status().as_u16(), &sent.headers()["hooklatch-outcome"]),
        (200, &"accepted".parse().unwrap())
    );
    let head = "POST /webhooks/github HTTP/1.1\r\nhost: a\r\ncontent-length: 26214401\r\n\r\n";
    let mut stream = TcpStream::connect(server.receiver).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}
