//! `explain`: why a saved request is or is not believed, step by step. Never shows the expected signature.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::desk::{Desk, PagingArgs};
use super::reach::ReachArgs;
use super::rejected::list_rejected;
use super::shared::{find_kind, say};
use super::sign::signer;

use crate::load::Kinds;
use crate::provider::ActiveProvider;
use crate::receive::diagnose;
use crate::spec::words;
use crate::types::Clock;
use crate::vectors::{Vector, judge_one};
use crate::verify::{RawRequest, VerifyError};

#[derive(Args)]
pub(super) struct ExplainArgs {
    /// `POST /webhooks/NAME`, headers, an empty line and the body; or one vector as a JSON object. A first
    /// line `# now=1700000000` sets the time to judge it at.
    #[arg(required_unless_present = "recent")]
    file: Option<PathBuf>,
    /// List what a running server refused lately, and why, instead.
    #[arg(long, conflicts_with_all = ["file", "secret"])]
    recent: bool,
    /// The provider, when the request's path does not say.
    #[arg(long)]
    provider: Option<String>,
    /// Judge with this secret instead of the configured ones.
    #[arg(long)]
    secret: Option<String>,
    #[command(flatten)]
    reach: ReachArgs,
}

pub(super) fn explain(args: &ExplainArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let Some(path) = args.file.as_ref().filter(|_| !args.recent) else {
        let desk = Desk::open(&args.reach, file, kinds)?;
        list_rejected(&desk, args.provider.as_deref(), &PagingArgs::default())?;
        return Ok(ExitCode::SUCCESS);
    };
    let saved = std::fs::read(path).with_context(|| format!("could not read `{}`", path.display()))?;
    if saved.trim_ascii_start().starts_with(b"{") {
        let vector: Vector = serde_json::from_slice(&saved).context("the file is not a vector")?;
        let judged = judge_one(&vector, kinds);
        say(format!("{}: {} at step `{}`: {}", judged.id, judged.verdict, judged.step, judged.why));
        if judged.verdict == "valid" {
            let kind = find_kind(kinds, &vector.kind)?;
            let provider = vector.provider(kind).map_err(|why| anyhow::anyhow!("{why}"))?;
            let request = vector.request().map_err(|why| anyhow::anyhow!("{why}"))?;
            return Ok(told(&provider, &request));
        }
        return Ok(ExitCode::FAILURE);
    }
    let parsed = parse(&saved)?;
    let name = args.provider.clone().or(parsed.provider).context("name the provider with --provider")?;
    let signer = signer(&name, args.secret.as_deref(), file, kinds)?;
    let query = parsed.query.map(|query| format!("?{query}")).unwrap_or_default();
    let request = RawRequest { url: format!("{}{query}", signer.url), ..parsed.request };
    Ok(told(&signer.provider, &request))
}

/// Says what was found, and whether it would be believed.
fn told(provider: &ActiveProvider, request: &RawRequest) -> ExitCode {
    let spec = provider.spec();
    say(format!("kind        {} ({})", spec.kind, spec.docs));
    say(format!("body        {} bytes", request.body.len()));
    if spec.has_signed_url() {
        say(format!("signed url  {}", request.url));
    }
    for name in &spec.signature.headers {
        let n = request.headers.get_all(name.as_str()).iter().count();
        say(format!("header      {name}: {n} times"));
    }
    if let Some(reply) = provider.handshake(request) {
        say(format!("verdict     a handshake, answered with {} and {}", reply.status, reply.content_type));
        return ExitCode::SUCCESS;
    }
    match provider.verify(request.clone()) {
        Err(error) => {
            say(format!("verdict     not believed, at step `{}`: {error}", error.step()));
            for hint in hints(provider, request, &error) {
                say(format!("hint        {hint}"));
            }
            ExitCode::FAILURE
        }
        Ok(verified) => {
            say(format!("verdict     believed: secret {} matched", verified.secret_n() + 1));
            for event in &spec.event {
                say(format!("told apart  {}", words::identities(event)));
            }
            for event in provider.read(&verified) {
                let why = event.unreadable.map(|why| format!(", unreadable: {why}")).unwrap_or_default();
                say(format!("event       {} of type {}{why}", event.key.event_id, event.event_type));
                say(format!("identity    {}", event.identity));
                if event.replay_key.is_some() {
                    say(
                        "            its signed text is remembered too: the same under another id is a replay",
                    );
                }
            }
            ExitCode::SUCCESS
        }
    }
}

/// Returns what is behind a refusal, and what to look at. Nothing here says what the signature should have been.
fn hints(provider: &ActiveProvider, request: &RawRequest, error: &VerifyError) -> Vec<String> {
    let found = diagnose(provider, std::iter::empty(), request, error);
    let more = found.detail.split_once("; ").map(|(_, more)| more.to_owned());
    let is_found = more.is_some();
    let mut hints: Vec<String> = more.into_iter().collect();
    if matches!(error, VerifyError::Mismatch { .. }) && !is_found {
        hints.push("the body must be the bytes that were sent: not parsed and written again".to_owned());
        hints
            .push("each endpoint has a secret of its own: compare it with the sender's dashboard".to_owned());
        if provider.spec().has_signed_url() {
            hints
                .push("the URL above is signed too: it must be the one that the sender was given".to_owned());
        }
    }
    hints
}

struct SavedRequest {
    provider: Option<String>,
    query: Option<String>,
    request: RawRequest,
}

/// Takes a saved request apart. Lines end in LF or CRLF; the body is what follows the empty line, byte for
/// byte.
fn parse(saved: &[u8]) -> anyhow::Result<SavedRequest> {
    let mut rest = saved;
    let mut now_ms = Clock::system().now_ms();
    let mut target = None;
    let mut method = Method::POST;
    let mut headers = HeaderMap::new();
    loop {
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            bail!("the request has no empty line between headers and body");
        };
        let (line, tail) = rest.split_at(end);
        rest = tail.get(1..).unwrap_or_default();
        let line = std::str::from_utf8(line).context("a header line is not text")?.trim_end_matches('\r');
        if let Some(comment) = line.strip_prefix('#') {
            let now = comment.split_whitespace().find_map(|word| word.strip_prefix("now="));
            if let Some(now) = now {
                now_ms = now.parse::<i64>().context("now= is not a number of seconds")?.saturating_mul(1_000);
            }
        } else if target.is_none() {
            method = line.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(method);
            target = Some(
                line.split(' ').nth(1).context("the first line is not `POST /webhooks/NAME`")?.to_owned(),
            );
        } else if line.is_empty() {
            break;
        } else {
            let (name, value) =
                line.split_once(':').context("a line before the empty line is not `NAME: VALUE`")?;
            headers.append(
                HeaderName::from_bytes(name.trim().as_bytes())?,
                HeaderValue::from_str(value.trim())?,
            );
        }
    }
    let target = target.unwrap_or_default();
    let (path, query) =
        target.split_once('?').map_or((target.as_str(), None), |(path, query)| (path, Some(query)));
    Ok(SavedRequest {
        provider: path.rsplit_once("/webhooks/").map(|(_, name)| name.to_owned()),
        query: query.map(str::to_owned),
        request: RawRequest {
            method,
            url: String::new(),
            headers,
            body: Bytes::copy_from_slice(rest),
            received_at_ms: now_ms,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_request_is_taken_apart_byte_for_byte() {
        #[track_caller]
        fn check(saved: &[u8], why: &str) {
            let error = parse(saved).err().expect("refused").to_string();
            assert!(error.contains(why), "{error}");
        }
        let saved =
            b"# now=1700000000\r\nPOST /in/webhooks/acme?x=1 HTTP/1.1\r\nX-A: 1\r\nx-a:2\r\n\r\n{ \n}\r\n";
        let found = parse(saved).expect("a request");
        assert_eq!((found.provider.as_deref(), found.query.as_deref()), (Some("acme"), Some("x=1")));
        assert_eq!(found.request.received_at_ms, 1_700_000_000_000);
        assert_eq!(found.request.body.as_ref(), b"{ \n}\r\n", "its line ends belong to what was signed");
        let values: Vec<&HeaderValue> = found.request.headers.get_all("x-a").iter().collect();
        assert_eq!(values, ["1", "2"]);
        let found = parse(b"GET /webhooks/acme\n\n").expect("a request");
        assert_eq!((found.request.method, found.request.body.len()), (Method::GET, 0));
        check(b"POST /webhooks/acme\nx: 1\n", "no empty line");
        check(b"POST\n\n", "the first line is not");
        check(b"POST /webhooks/acme\nx\n\n", "is not `NAME: VALUE`");
        check(b"# now=soon\nPOST /webhooks/acme\n\n", "now= is not a number");
        check(b"POST /webhooks/acme\nx: \xff\n\n", "not text");
    }
}
