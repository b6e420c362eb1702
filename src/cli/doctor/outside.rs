//! Sends probes through `server.public_url`, one after the other, as a sender would.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use reqwest::Client;
use reqwest::tls::TlsInfo;
use tokio::time::Instant;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::api::{FindingView, ProbeView};
use crate::doctor::{PLAIN, ProbeHeard, ProbeRequest, days_left, judge, plan};
use crate::net::{client_builder, read_capped};
use crate::types::Clock;

/// Longest time of one probe.
const PROBE_LIMIT: Duration = Duration::from_secs(15);
/// Longest time of all of them.
const ALL_LIMIT: Duration = Duration::from_mins(1);
/// Longest answer that is read. Bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// What came back, and the end of the certificate that was shown.
struct Sent {
    heard: ProbeHeard,
    not_after_s: Option<i64>,
}

/// Findings about the way to the receiver.
pub(super) async fn outside(view: &ProbeView, ca: Option<&Path>) -> anyhow::Result<Vec<FindingView>> {
    let client = client(ca)?;
    let until = Instant::now() + ALL_LIMIT;
    let mut probes: Vec<(ProbeRequest, ProbeHeard)> = Vec::new();
    let mut not_after_s = None;
    for request in plan(view) {
        let sent = if Instant::now() < until {
            send(&client, &request).await
        } else {
            Sent { heard: ProbeHeard::Failed("no time was left for it".to_owned()), not_after_s: None }
        };
        not_after_s = not_after_s.or(sent.not_after_s);
        let is_lost = probes.is_empty() && matches!(sent.heard, ProbeHeard::Failed(_));
        probes.push((request, sent.heard));
        if is_lost {
            // The others would not get there either.
            break;
        }
    }
    let mut findings = vec![scheme(&view.public_url, not_after_s)];
    findings.extend(judge(view, &probes));
    Ok(findings)
}

fn client(ca: Option<&Path>) -> anyhow::Result<Client> {
    let mut builder = client_builder().tls_info(true).timeout(PROBE_LIMIT);
    if let Some(path) = ca {
        let unusable = || format!("--public-ca-file {}", path.display());
        let pem = std::fs::read(path).with_context(unusable)?;
        let authorities = reqwest::Certificate::from_pem_bundle(&pem).with_context(unusable)?;
        builder = builder.tls_certs_only(authorities);
    }
    builder.build().context("could not make a client")
}

async fn send(client: &Client, probe: &ProbeRequest) -> Sent {
    let mut request = client.post(&probe.url).body(probe.body.clone());
    for (name, value) in &probe.headers {
        request = request.header(name, value);
    }
    let began = Instant::now();
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => return Sent { heard: ProbeHeard::Failed(words(error)), not_after_s: None },
    };
    let status = response.status().as_u16();
    let location = response.headers().get("location").and_then(|value| value.to_str().ok());
    // A redirect may hold the token.
    let location = location.map(|text| text.split('?').next().unwrap_or_default().to_owned());
    let not_after_s =
        response.extensions().get::<TlsInfo>().and_then(TlsInfo::peer_certificate).and_then(end_of);
    let heard = match read_capped(response, ANSWER_BYTES_MAX).await {
        Ok(body) => ProbeHeard::Answer {
            status,
            location,
            body: body.unwrap_or_default(),
            took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        },
        Err(error) => ProbeHeard::Failed(words(error)),
    };
    Sent { heard, not_after_s }
}

/// The reason of a failure without its URL, which has the token.
fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn end_of(der: &[u8]) -> Option<i64> {
    X509Certificate::from_der(der).ok().map(|(_, parsed)| parsed.validity().not_after.timestamp())
}

fn scheme(public_url: &str, not_after_s: Option<i64>) -> FindingView {
    let host = reqwest::Url::parse(public_url).ok().and_then(|url| Some(url.host_str()?.to_owned()));
    let host = host.unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback =
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if let Some(not_after_s) = not_after_s {
        return days_left(PLAIN, "certificate", not_after_s, Clock::system().now_ms());
    }
    if is_loopback {
        return PLAIN
            .note(format!("{public_url} is this machine alone"))
            .cure("set server.public_url to what senders call, before the first of them does");
    }
    if public_url.starts_with("https://") {
        return PLAIN.well("https");
    }
    PLAIN
        .warning(format!("{public_url} is plain HTTP"))
        .cure("put TLS before it, or set [server.tls], and change server.public_url")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::FindingVerdict::{self, Note, Warning, Well};

    #[test]
    fn plain_http_is_for_this_machine_alone() {
        #[track_caller]
        fn check(url: &str, want: FindingVerdict) {
            assert_eq!(scheme(url, None).verdict, want, "{url}");
        }
        check("http://127.0.0.1:8080", Note);
        check("http://[::1]:8080", Note);
        check("http://localhost", Note);
        check("http://hooks.example.com", Warning);
        check("https://hooks.example.com", Well);
        let soon_s = Clock::system().now_ms() / 1_000 + 3 * 86_400;
        assert_eq!(scheme("https://hooks.example.com", Some(soon_s)).verdict, Warning);
    }
}
