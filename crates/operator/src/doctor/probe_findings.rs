//! Findings from the results of probes.

use sha2::{Digest, Sha256};

use super::check::{BODY, EXPECT, HEADERS, PATH, REACHED, REDIRECT, SIZE, TIME, or_well};
use super::probe::{ASPECTS, AnswerKey, PROBE_HEADER, ProbeRequest, ProbeWhat, USUAL_BYTES};
use hooklatch_contract::{ArrivedView, FindingView, ProbeAnswer, ProbeView, ProblemView};
use hooklatch_core::figures::grouped;

/// The response to a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResponse {
    /// A response, of this server or of anything in front of it.
    Answer {
        /// HTTP status of the answer.
        status: u16,
        /// Where a redirect leads.
        location: Option<String>,
        /// The beginning of its body.
        body: Vec<u8>,
        /// Time from the first byte that was sent. Milliseconds.
        took_ms: u64,
    },
    /// No answer, and why, for people.
    Failed(String),
}

/// The result of one probe.
enum ProbeResult {
    Arrived(ArrivedView, u64),
    Redirected(u16, String),
    Other(String),
}

/// Findings about the way to the receiver, from each probe and its response.
pub fn judge(view: &ProbeView, probes: &[(ProbeRequest, ProbeResponse)]) -> Vec<FindingView> {
    let Some(key) = AnswerKey::of_text(&view.answer_key) else {
        return vec![REACHED.unknown("the server gave no key for answers")];
    };
    let results: Vec<(&ProbeRequest, ProbeResult)> =
        probes.iter().map(|(request, response)| (request, result_of(&key, response))).collect();
    let Some((request, first)) = results.iter().find(|(request, _)| request.what == ProbeWhat::Plain) else {
        return vec![REACHED.unknown("no probe was sent")];
    };
    let url = format!("{}{}", view.public_url, request.path);
    let (arrived, took_ms) = match first {
        ProbeResult::Arrived(arrived, took_ms) => (arrived, *took_ms),
        ProbeResult::Redirected(status, to) => {
            let found = format!("POST {url}: {status} to {to}");
            return vec![REDIRECT.failure(found).cure(format!(
                "set server.public_url, and the URL at every sender, to where it leads: {to}"
            ))];
        }
        ProbeResult::Other(why) => {
            return vec![REACHED.failure(format!("POST {url}: {why}")).cure(REACH)];
        }
    };
    let mut findings =
        vec![REACHED.well(format!("POST {url}: answered by this installation after {took_ms} ms"))];
    findings.push(REDIRECT.well("none"));
    findings.extend(paths(request, arrived, &results));
    findings.extend(headers(&key, &results));
    findings.push(body(request, arrived, &results));
    findings.extend(sizes(view, &results));
    for (request, result) in &results {
        match (request.what, result) {
            (ProbeWhat::Expect, ProbeResult::Arrived(..)) => findings.push(EXPECT.well("answered")),
            (ProbeWhat::Expect, other) => {
                let remedy = "let the proxy answer `Expect: 100-continue` itself, or pass it on";
                findings.push(EXPECT.warning(other.words()).cure(remedy));
            }
            (ProbeWhat::Again, ProbeResult::Arrived(_, took_ms)) => {
                let patience_ms = u64::from(view.answer_within_ms);
                let grade = (*took_ms > patience_ms / 5, *took_ms > patience_ms);
                let remedy = "look at the proxy's own times, and at its distance";
                let bound = format!("the shortest patience of a sender: {} ms", grouped(patience_ms));
                findings.push(TIME.graded(format!("{took_ms} ms"), grade, remedy).against(bound));
            }
            (ProbeWhat::Again, other) => findings.push(TIME.warning(other.words()).cure(REACH)),
            _ => {}
        }
    }
    findings
}

const REACH: &str = "look at DNS, certificate, proxy and firewall in front of `server.listen`, and at `server.public_url`; \
     `hooklatch settings list` says what is in force";

impl ProbeResult {
    fn words(&self) -> String {
        match self {
            Self::Arrived(..) => "it arrived".to_owned(),
            Self::Redirected(status, to) => format!("{status} to {to}"),
            Self::Other(why) => why.clone(),
        }
    }
}

fn result_of(key: &AnswerKey, response: &ProbeResponse) -> ProbeResult {
    let (status, location, body, took_ms) = match response {
        ProbeResponse::Failed(why) => return ProbeResult::Other(why.clone()),
        ProbeResponse::Answer { status, location, body, took_ms } => (*status, location, body, *took_ms),
    };
    if (300..400).contains(&status) {
        return ProbeResult::Redirected(status, location.clone().unwrap_or_else(|| "nowhere".to_owned()));
    }
    if let Ok(answer) = serde_json::from_slice::<ProbeAnswer>(body) {
        let arrived = serde_json::from_str::<ArrivedView>(&answer.arrived);
        return match arrived {
            Ok(arrived) if key.proves(&answer.arrived, &answer.proof) => {
                ProbeResult::Arrived(arrived, took_ms)
            }
            _ => ProbeResult::Other(format!(
                "{status}, and the answer is not the one that this installation gave: something on the way wrote it"
            )),
        };
    }
    let code = serde_json::from_slice::<ProblemView>(body).map(|problem| problem.code).unwrap_or_default();
    ProbeResult::Other(match (status, code.as_str()) {
        (_, "rejected" | "no_such_provider" | "method_not_allowed" | "address_refused") => format!(
            "{status} `{code}`: a Hooklatch answered that does not know the probe: another installation, or the proxy \
             drops both the header `hooklatch-probe` and the query"
        ),
        (_, "body_too_large" | "saturated" | "body_too_slow" | "body_broken") => {
            format!("{status} `{code}`: the receiver itself refused it")
        }
        (431, _) => "431: the headers are too large for something on the way".to_owned(),
        (413, _) => "413: something before the receiver takes no body of this size".to_owned(),
        (status, _) => {
            format!("{status}, and it is no answer of ours: something before the receiver gave it")
        }
    })
}

fn paths(
    request: &ProbeRequest,
    arrived: &ArrivedView,
    all: &[(&ProbeRequest, ProbeResult)],
) -> Vec<FindingView> {
    let mut found = Vec::new();
    let as_sent = format!("POST {}", request.path);
    let as_arrived = format!("{} {}", arrived.method, arrived.path);
    if as_sent != as_arrived {
        let words = format!("sent {as_sent}, arrived {as_arrived}");
        found.push(
            PATH.failure(words).cure("let the proxy pass method and path on as they come, without a rewrite"),
        );
    } else if !arrived.is_in_query {
        found.push(
            PATH.warning("the query was dropped")
                .cure("let the proxy pass the query on: some kinds sign it, or read it"),
        );
    }
    for (request, result) in all.iter().filter(|(request, _)| request.what == ProbeWhat::Path) {
        let is_there = matches!(result, ProbeResult::Arrived(arrived, _) if arrived.path == request.path);
        if !is_there {
            let why = PATH.failure(result.words()).about(&request.path);
            found.push(why.cure("let the proxy pass on everything below /webhooks/"));
        }
    }
    or_well(found, || PATH.well(as_arrived))
}

fn headers(key: &AnswerKey, all: &[(&ProbeRequest, ProbeResult)]) -> Vec<FindingView> {
    let (mut found, mut sent_n, mut is_unknown_dropped) = (Vec::new(), 0, false);
    let signed = all.iter().filter(|(one, _)| matches!(one.what, ProbeWhat::Plain | ProbeWhat::Path));
    for (request, result) in signed {
        let ProbeResult::Arrived(arrived, _) = result else { continue };
        is_unknown_dropped |= !arrived.is_in_header;
        for (name, value) in request.headers.iter().filter(|(name, _)| name != PROBE_HEADER.as_str()) {
            sent_n += 1;
            let digest = key.digest(name, std::iter::once(value.as_bytes()));
            let what = match arrived.headers.iter().find(|header| header.name == *name) {
                None => "dropped, or renamed",
                Some(header) if header.digest != digest => "its value was changed, or another one added",
                Some(_) => continue,
            };
            let why = HEADERS.failure(format!("{what}, on the way to {}", request.path)).about(name);
            found.push(why.cure(format!("let the proxy pass `{name}` on as it comes")));
        }
    }
    let mut found = or_well(found, || HEADERS.well(format!("{sent_n} as they were sent")));
    if is_unknown_dropped {
        let why =
            HEADERS.note("headers that the proxy does not know are dropped").about(PROBE_HEADER.as_str());
        found.push(why.cure("if a kind that you add later reads another header, let the proxy pass it on"));
    }
    found
}

fn body(request: &ProbeRequest, arrived: &ArrivedView, all: &[(&ProbeRequest, ProbeResult)]) -> FindingView {
    if is_whole(request, arrived) {
        return BODY.well(format!("{} bytes as they were sent", request.body.len()));
    }
    let changed = all.iter().filter_map(|(request, result)| match (request.what, result) {
        (ProbeWhat::Aspect(n), ProbeResult::Arrived(arrived, _)) if !is_whole(request, arrived) => {
            ASPECTS.get(n).map(|aspect| aspect.name)
        }
        _ => None,
    });
    let changed: Vec<&str> = changed.collect();
    let coded = arrived.headers.iter().any(|header| header.name == "content-encoding");
    let how = match (coded, changed.is_empty()) {
        (true, _) => "it arrived in a content coding that it was not sent in".to_owned(),
        (false, true) => "each rewritten thing by itself arrives as it was sent".to_owned(),
        (false, false) => format!("rewritten are {}", changed.join(", ")),
    };
    let found = format!("{} bytes were sent, {} arrived: {how}", request.body.len(), arrived.body_bytes_n);
    BODY.failure(found).cure(
        "turn off what reads or rewrites bodies on the way (JSON parsing, filters, compression, a framework's body \
         parser), or let /webhooks/ pass around it",
    )
}

fn is_whole(request: &ProbeRequest, arrived: &ArrivedView) -> bool {
    arrived.body_digest == hex::encode(Sha256::digest(&request.body))
}

fn sizes(view: &ProbeView, all: &[(&ProbeRequest, ProbeResult)]) -> Vec<FindingView> {
    let mut found = Vec::new();
    for (request, result) in all {
        let ProbeWhat::Size(bytes) = request.what else { continue };
        let why = match result {
            ProbeResult::Arrived(arrived, _) if is_whole(request, arrived) => continue,
            ProbeResult::Arrived(arrived, _) => format!("{} bytes arrived", grouped(arrived.body_bytes_n)),
            other => other.words(),
        };
        let why = format!("a body of {} bytes: {why}", grouped(u64::from(bytes)));
        let bad = if bytes <= USUAL_BYTES { SIZE.failure(why) } else { SIZE.warning(why) };
        let wanted = view.body_bytes_max;
        found.push(bad.cure(format!(
            "raise the proxy's limit to {wanted} bytes (nginx: client_max_body_size), or lower server.body_bytes_max"
        )));
    }
    let words = || SIZE.well(format!("{} bytes arrive whole", grouped(u64::from(view.body_bytes_max))));
    or_well(found, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    use crate::doctor::probe::{ProbeKey, plan, probe_answer};
    use hooklatch_contract::FindingVerdict::{self, Failure, Unknown, Warning};
    use hooklatch_contract::ProbePath;

    fn view() -> (ProbeView, AnswerKey) {
        let made = ProbeKey::new(&uuid::Uuid::nil()).make(0);
        let path =
            |name: &str| ProbePath { path: format!("/webhooks/{name}"), headers: vec!["x-sig".to_owned()] };
        let view = ProbeView {
            token: made.token,
            answer_key: made.answer_key.text(),
            good_until_ms: made.good_until_ms,
            public_url: "https://hooks.test".to_owned(),
            paths: vec![path("a"), path("b")],
            body_bytes_max: 1 << 20,
            answer_within_ms: 5_000,
        };
        (view, made.answer_key)
    }

    /// The answer of the receiver to this request, as if nothing stood on the way.
    fn straight(key: &AnswerKey, request: &ProbeRequest, took_ms: u64) -> ProbeResponse {
        let mut built = http::Request::builder().method("POST").uri(request.url.as_str());
        for (name, value) in &request.headers {
            built = built.header(name, value);
        }
        let (parts, ()) = built.body(()).expect("a request").into_parts();
        let answer = probe_answer(key, &parts, &Bytes::from(request.body.clone()));
        let body = serde_json::to_vec(&answer).expect("JSON");
        ProbeResponse::Answer { status: 200, location: None, body, took_ms }
    }

    #[track_caller]
    fn check(
        fares: impl Fn(&AnswerKey, &ProbeRequest) -> ProbeResponse,
        want: &[(&str, FindingVerdict)],
        words: &str,
    ) {
        let (view, key) = view();
        let probes: Vec<(ProbeRequest, ProbeResponse)> =
            plan(&view).into_iter().map(|request| (request.clone(), fares(&key, &request))).collect();
        let found = judge(&view, &probes);
        let bad = found.iter().filter(|one| one.verdict >= Unknown);
        let bad: Vec<_> = bad.map(|one| (one.check.as_str(), one.verdict)).collect();
        assert_eq!(bad, want, "{found:?}");
        assert!(found.iter().any(|one| one.found.contains(words)), "{found:?}");
        let report = format!("{found:?}");
        assert!(!report.contains(&view.token) && !report.contains(&view.answer_key));
    }

    fn said(status: u16, body: &str) -> ProbeResponse {
        ProbeResponse::Answer { status, location: None, body: body.as_bytes().to_vec(), took_ms: 1 }
    }

    #[test]
    fn failed_probes_are_reported_by_their_purpose() {
        check(|key, request| straight(key, request, 10), &[], "as they were sent");
        check(|key, request| straight(key, request, 1_001), &[("public.time", Warning)], "1001 ms");
        check(|key, request| straight(key, request, 5_001), &[("public.time", Failure)], "5001 ms");
        let only = |what: fn(ProbeWhat) -> bool, response: fn() -> ProbeResponse| {
            move |key: &AnswerKey, request: &ProbeRequest| {
                if what(request.what) { response() } else { straight(key, request, 10) }
            }
        };
        let of_path = only(|what| what == ProbeWhat::Path, || said(404, "not here"));
        check(of_path, &[("public.path", Failure)], "404");
        let silent = only(|what| what == ProbeWhat::Expect, || ProbeResponse::Failed("timed out".to_owned()));
        check(silent, &[("public.expect", Warning)], "timed out");
        let large = only(|what| what == ProbeWhat::Size(1 << 20), || said(413, ""));
        check(large, &[("public.size", Warning)], "413");
    }

    #[test]
    fn a_response_of_another_server_is_recognised() {
        let reached = [("public.reached", Failure)];
        check(|_, _| ProbeResponse::Failed("connection refused".to_owned()), &reached, "connection refused");
        check(|_, _| said(502, "bad gateway"), &reached, "no answer of ours");
        check(|_, _| said(431, ""), &reached, "too large");
        check(
            |_, _| said(401, r#"{"type":"x","status":401,"code":"rejected","title":"x"}"#),
            &reached,
            "another installation",
        );
        // Who has seen the token does not have the key of the answers.
        let other = ProbeKey::new(&uuid::Uuid::max()).make(0).answer_key;
        check(move |_, request| straight(&other, request, 1), &reached, "something on the way wrote it");
        let moved = |_: &AnswerKey, _: &ProbeRequest| ProbeResponse::Answer {
            status: 301,
            location: Some("https://www.hooks.test/".to_owned()),
            body: Vec::new(),
            took_ms: 1,
        };
        check(moved, &[("public.redirect", Failure)], "301 to https://www.hooks.test/");
    }
}
