//! Requests as bytes, and the least of a client that sends them.

use std::fmt::Write;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::HOOKLATCH;

/// The published secret of `serve --dev` for stripe.
const STRIPE_SECRET: &str = "whsec_hooklatch-dev-secret-stripe----------";

/// A POST with these headers.
pub(crate) fn post(path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// The `n`th honest event.
pub(crate) fn stripe(n: u64) -> Vec<u8> {
    let body = format!(
        r#"{{"id":"evt_{n}","type":"invoice.paid","created":1767225600,"data":{{"object":{{"id":"in_{n}","amount_paid":500}}}}}}"#
    );
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(STRIPE_SECRET.as_bytes()).unwrap();
    mac.update(format!("{now_s}.{body}").as_bytes());
    let signature = format!("t={now_s},v1={}", hex::encode(mac.finalize().into_bytes()));
    post("/webhooks/stripe", &[("stripe-signature", &signature)], body.as_bytes())
}

/// A POST of `body` that `kind` believes.
pub(crate) fn signed(kind: &str, url: &str, body: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    std::fs::write(&file, body).unwrap();
    let run = Command::new(HOOKLATCH)
        .args(["sign", kind, "--headers", "--url", url, "--body"])
        .arg(&file)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    let headers: Vec<_> = text.lines().filter_map(|line| line.split_once(": ")).collect();
    post(&format!("/webhooks/{kind}"), &headers, body)
}

/// Sends a request on a connection that is open, and reads its answer to the end: the status.
pub(crate) async fn ask(stream: &mut TcpStream, request: &[u8]) -> Option<u16> {
    stream.write_all(request).await.ok()?;
    let mut answer = Vec::new();
    let (end, head) = loop {
        if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
            break (end + 4, String::from_utf8_lossy(answer.get(..end)?).to_ascii_lowercase());
        }
        if stream.read_buf(&mut answer).await.ok()? == 0 {
            return None;
        }
    };
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
    while answer.len() < end + length {
        if stream.read_buf(&mut answer).await.ok()? == 0 {
            return None;
        }
    }
    head.split(' ').nth(1)?.parse().ok()
}

/// As [`ask`], on a connection of its own.
pub(crate) async fn status(to: SocketAddr, request: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(to).await.ok()?;
    ask(&mut stream, request).await
}
