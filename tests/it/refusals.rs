//! A refusal says what is wrong, where, and what to do: in the running program, by HTTP and on the command line.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::database::{Database, on_sqlite};
use crate::look::{TOKENS, serve, with};
use crate::process::client;

on_sqlite!(
    a_refused_request_names_what_was_wrong_and_what_would_do,
    a_refusal_without_a_token_names_the_scheme_and_closes_what_it_does_not_read,
    a_command_that_fails_names_what_it_did_not_find,
);

async fn a_refused_request_names_what_was_wrong_and_what_would_do(database: &Database) {
    let server = serve(database).await;
    let operator = with(&server, "operator");
    for (path, body, wanted) in [
        ("/events?state=nope", "", "`state` cannot be `nope`; it is one of `handled`, `ignored`"),
        ("/events?statte=done", "", "query parameter `statte` does not exist; the names here are `provider`"),
        ("/events?state=handled&state=handled", "", "query parameter `state` is given more than once"),
        ("/what-if", r#"{"filter":{"state":"nope"}}"#, "`filter.state` must be one of `handled`, `ignored`"),
        (
            "/what-if",
            r#"{"filter":{"stat":"handled"}}"#,
            "`filter.stat` does not exist; the fields here are `delivery`",
        ),
        ("/operations/preview", "{", "EOF while parsing"),
    ] {
        let (method, body) = if body.is_empty() { ("GET", None) } else { ("POST", Some(body.to_owned())) };
        let answer = operator.ask(method, path, &[], body).await;
        let detail = answer.body["detail"].as_str().unwrap_or_default();
        assert!(answer.status == 400 && detail.contains(wanted), "{path}: {:#}", answer.body);
        assert!(detail.len() < 1_000 && !detail.contains('\n'), "{detail}");
    }
    for (path, wanted) in [
        ("/events/stripe/nope", "there is no event `nope` of provider `stripe` here"),
        ("/messages/42", "there is no message `42` here"),
        ("/nowhere", "the API has no such path; /openapi.json lists"),
    ] {
        let url = format!("http://{}/v1{path}", server.admin);
        let token = TOKENS[1].1;
        let text = client().get(url).bearer_auth(token).send().await.unwrap().text().await.unwrap();
        assert!(text.contains(wanted), "{path}: {text}");
    }
}

/// The response to these bytes, until the connection is closed or `bytes_n` are read.
fn answered(addr: std::net::SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.extend_from_slice(&byte);
    }
    String::from_utf8(head).unwrap()
}

async fn a_refusal_without_a_token_names_the_scheme_and_closes_what_it_does_not_read(database: &Database) {
    let server = serve(database).await;
    let (receiver, admin) = (server.receiver, server.admin);
    let heads = tokio::task::spawn_blocking(move || {
        let unsigned = b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}";
        let large = b"POST /v1/operations HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100000\r\n\r\n{";
        let began = Instant::now();
        let too_large = b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 99000000\r\n\r\n{";
        let heads = [answered(receiver, unsigned), answered(admin, large), answered(receiver, too_large)];
        (heads, began.elapsed())
    });
    let ([unsigned, large, too_large], took) = heads.await.unwrap();
    let unsigned = unsigned.to_lowercase();
    assert!(unsigned.contains(" 401 ") && unsigned.contains("www-authenticate: signature"), "{unsigned}");
    let large = large.to_lowercase();
    assert!(large.contains(" 401 ") && large.contains("www-authenticate: bearer"), "{large}");
    assert!(large.contains("connection: close"), "{large}");
    assert!(too_large.contains(" 413 ") && took < Duration::from_secs(2), "{took:?}: {too_large}");
}

async fn a_command_that_fails_names_what_it_did_not_find(database: &Database) {
    let server = serve(database).await;
    let folder = server.config().parent().unwrap().to_owned();
    for (arguments, code, wanted) in [
        (&["keys"][..], 1, "Or look at a copy: `hooklatch backup FILE`"),
        (&["keys", "reseal"], 1, "senders repeat what they send meanwhile.\n"),
        (
            &["prune", "--dry-run"],
            1,
            "only one process may have it open. Stop the server (systemctl stop hooklatch)",
        ),
        (&["restore-check"], 1, "which is probably the running server"),
        (&["migrate"], 1, "which is probably the running server"),
        (&["what-if"], 1, "`hooklatch what-if --live` asks the server"),
        (&["events", "show", "nope"], 3, "no event has the id nope"),
        (&["events", "show", "stripe", "nope"], 3, "there is no event `nope` of provider `stripe`"),
        (&["events", "body", "stripe", "nope"], 3, "event `nope`"),
        (&["messages", "show", "42"], 3, "there is no message `42`"),
        (&["operations", "show", "op-9"], 3, "there is no operation `op-9`"),
        (&["destinations", "show", "nope"], 3, "there is no destination `nope`"),
        (&["providers", "--live", "nope"], 3, "there is no provider `nope`"),
        (&["pairing", "nope"], 3, "there is no pairing secret of provider `nope`"),
        (&["events", "list", "--state", "faild"], 2, "a similar value exists: 'failed'"),
        (&["sign", "strpe"], 2, "did you mean `stripe`?"),
        (&["sign", "stripe", "--type", "invoice.payd"], 2, "did you mean `invoice.paid`?"),
        (&["backup", "/nowhere/copy.db"], 1, "there is no folder `/nowhere`"),
        (
            &["events", "list", "--provider", "strpe"],
            3,
            "no provider is called `strpe`; did you mean `stripe`?",
        ),
        (&["events", "list", "--provider", "strpe", "--json"], 3, "did you mean `stripe`?"),
        (&["rejected", "list", "--provider", "nope"], 3, "no provider is called `nope`, or it is out of"),
        (&["messages", "list", "--destination", "billin"], 3, "did you mean `billing`?"),
        (&["lanes", "list", "--destination", "nope"], 3, "no lanes with destination nope: no destination is"),
        (&["lanes", "list", "--destination", "billing"], 0, "no lanes with destination billing"),
    ] {
        let ran = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
            .args(arguments)
            .arg("--config")
            .arg(server.config())
            .env("HOOKLATCH_TOKEN", TOKENS[1].1)
            .env("HOME", &folder)
            .output()
            .unwrap();
        let output = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
        assert!(output.contains(wanted), "{arguments:?}: no {wanted} in {output}");
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {output}");
        assert!(output.lines().count() <= 8, "{arguments:?}: {output}");
    }
}
