//! Describes a kind's spec in sentences: for commands, the console and docs/providers/.

use super::event::{EventSpec, Identity, IdentitySpec, Source, Sources};
use super::provider_toml::{Confidence, Spec};
use super::signature::{Scheme, Weakness};

/// Places, in the order they are joined.
pub fn places(sources: &Sources) -> String {
    let either = |names: &str| format!("`{}`", names.replace('|', "` or `"));
    let one = |source: &Source| match source {
        Source::Json(pointer) if pointer.is_empty() => "the whole event".to_owned(),
        Source::Json(pointer) => either(pointer),
        Source::Outer(pointer) => format!("{} of the batch", either(pointer)),
        Source::Header(name) => format!("header {}", either(name)),
        Source::Member(names) => format!("which of {} it has", either(names)),
        Source::OnlyMember(_) => "the name of its only member".to_owned(),
        Source::List(_) => "the name of its list".to_owned(),
        Source::Text(text) => format!("the text `{text}`"),
        Source::SignedId(_) => "the id that is signed".to_owned(),
        Source::SignedTime(_) => "the signed time".to_owned(),
        Source::Place(_) => "its place in the batch".to_owned(),
    };
    sources.0.iter().map(one).collect::<Vec<_>>().join(" + ")
}

/// Describes what identifies an event: which rule, for what, and what is not covered by the signature.
fn identity(spec: &IdentitySpec) -> String {
    let parts = if spec.id.0.is_empty() { String::new() } else { format!(" + {}", places(&spec.id)) };
    let rule = match (spec.is, spec.window_s) {
        (Identity::Sender, _) => format!("the sender's own id, {}{}", places(&spec.id), copies(spec)),
        (Identity::Content, _) => format!("type{parts} + digest of the content"),
        (Identity::Signal, Some(window_s)) if spec.window_rearms => {
            format!(
                "type{parts} + digest of the content, copies within {window_s} s are dispatched once more when these end"
            )
        }
        (Identity::Signal, Some(window_s)) => {
            let of = if spec.window_renews { "the last one" } else { "the event" };
            format!("type{parts} + digest of the content, a copy within {window_s} s of {of}")
        }
        (Identity::Signal, None) => format!("a signal: type{parts} + digest of the content"),
    };
    let either = |names: &String| format!("`{}`", names.replace('|', "` or `"));
    let types: Vec<String> = spec.types.iter().map(|one| format!("`{}`", one.as_str())).collect();
    let has: Vec<String> = spec.has.iter().map(either).collect();
    let types = if types.is_empty() { String::new() } else { format!(" of type {}", types.join(", ")) };
    let has = if has.is_empty() { String::new() } else { format!(" with {}", has.join(" and ")) };
    let of = if types.is_empty() && has.is_empty() { String::new() } else { format!("events{types}{has}: ") };
    format!("{of}{rule}")
}

/// Describes what else is a copy under a sender's id, and what is none under another.
fn copies(spec: &IdentitySpec) -> String {
    let renderings = spec.renderings.as_ref().map(|renderings| {
        let same: Vec<String> = renderings.same.iter().map(|one| format!("`{one}`")).collect();
        let (same, differs) = (same.join(", "), &renderings.differs);
        format!(" (a copy with another `{differs}` too, where {same} are equal)")
    });
    let changing = spec.changing.as_ref().map(|changing| {
        let changing = changing.replace('|', "`, `");
        format!(" (signed text without any of `{changing}` once more in 10 min under another id)")
    });
    renderings.into_iter().chain(changing).collect()
}

/// Every identity of one `[[event]]`, in the order they are tried.
pub fn identities(event: &EventSpec) -> String {
    event.identity.iter().map(identity).collect::<Vec<_>>().join("; else ")
}

/// The ids, besides the event's own, by which a search finds the events of one `[[event]]`; `None` without any.
pub fn search_places(event: &EventSpec) -> Option<String> {
    let one = |source: &Source| places(&Sources(vec![source.clone()]));
    let all: Vec<String> = event.search.0.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The name of a scheme in plain words.
pub fn scheme_name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::HmacSha1 => "HMAC-SHA-1",
        Scheme::HmacSha256 => "HMAC-SHA-256",
        Scheme::HmacSha384 => "HMAC-SHA-384",
        Scheme::HmacSha512 => "HMAC-SHA-512",
        Scheme::StandardWebhooks => "Standard Webhooks v1, v1a",
        Scheme::HashSha256 => "SHA-256 over secret and text",
        Scheme::HashSha512 => "SHA-512 over secret and text",
        Scheme::Ed25519 => "Ed25519",
        Scheme::EcdsaP256 => "ECDSA P-256",
        Scheme::RsaSha256 => "RSA-SHA-256",
        Scheme::RsaSha1 => "RSA-SHA-1",
        Scheme::Token => "shared token",
        Scheme::Basic => "HTTP Basic",
        Scheme::Unsigned => "none",
        Scheme::Code => "code",
    }
}

/// Describes what handlers get as `payload`, by `[[event]]` of the kind.
pub fn payload(spec: &Spec) -> String {
    let mut all: Vec<String> = Vec::new();
    for event in &spec.event {
        let whole = if event.each.is_some() { "the whole element of the batch" } else { "the whole body" };
        let what = match event.payload.as_str() {
            "" => whole.to_owned(),
            pointer => format!("`{pointer}` of {}", whole.trim_start_matches("the whole ")),
        };
        if !all.contains(&what) {
            all.push(what);
        }
    }
    all.join(", or ")
}

/// Describes how requests are signed: the scheme, its place, how old a signed time may be, what is not covered.
pub fn signed_by(spec: &Spec) -> String {
    let signature = &spec.signature;
    let scheme = signature.in_words.as_deref().unwrap_or_else(|| scheme_name(signature.scheme));
    // What code does may be several things, of which the header holds one.
    let comma = if signature.in_words.is_some() { "," } else { "" };
    let place = match (signature.headers.as_slice(), &signature.json) {
        ([], None) => {
            let of_query = |name: &String| format!("{comma} in the query's `{name}`");
            signature.query.as_ref().map(of_query).unwrap_or_default()
        }
        ([], Some(pointer)) => format!("{comma} in body `{pointer}`"),
        (headers, _) => format!("{comma} in `{}`", headers.join("` or `")),
    };
    let time = match (signature.scheme, signature.tolerance_s) {
        (_, Some(s)) => format!(", time within {s} s"),
        (Scheme::Code, None) => String::new(),
        _ => ", no time".to_owned(),
    };
    let weak = signature.weak.map(|weak| format!("; {}", weak.as_str())).unwrap_or_default();
    format!("{scheme}{place}{time}{weak}")
}

/// Describes what binds an event to the operator's account; `None` for a kind whose key is a secret.
pub fn whose(spec: &Spec) -> Option<String> {
    let whose = spec.whose.as_ref()?;
    if let Some(why) = whose.none.as_ref().or(whose.open.as_ref()) {
        return Some(why.clone());
    }
    let setting = whose.setting.as_deref().unwrap_or_default();
    Some(match whose.source() {
        Some(source) => format!("{} must be in `settings.{setting}`", places(&Sources(vec![source]))),
        None => format!("the account must be the one of `settings.{setting}`"),
    })
}

/// Describes the weaknesses of the sender's design, however the provider is configured; sentences, at least one.
pub fn left_open(spec: &Spec) -> String {
    let mut said: Vec<String> = Vec::new();
    let is_signed = match (spec.signature.scheme, spec.weakness()) {
        (_, Some(Weakness::Unsigned)) => {
            said.push("Anyone who knows the URL can send any event.".to_owned());
            false
        }
        (Scheme::Basic, _) => {
            said.push(
                "Anyone who learns the password, from a request or a log, can send any event.".to_owned(),
            );
            false
        }
        (_, Some(Weakness::Token)) => {
            said.push("Anyone who learns the token, from a request or a log, can send any event.".to_owned());
            false
        }
        (_, Some(Weakness::Body)) if spec.open.is_none() => {
            said.push("Anyone who holds a request can change what its signature does not cover.".to_owned());
            true
        }
        _ => true,
    };
    said.extend(spec.open.clone());
    said.extend(spec.whose.as_ref().and_then(|whose| whose.open.clone()));
    if is_signed && spec.needs_types() {
        said.push(
            "Nothing signs the type: anyone who holds a request can have it accepted once for each type in `types`.".to_owned(),
        );
    }
    if is_signed && !spec.bounds_signed_time() && spec.token_life_s.is_none() {
        said.push(
            "A recorded request can be repeated at any time: it is a copy as long as its id is remembered (`retention.ids_days`), then a new event."
                .to_owned(),
        );
        let windows = spec.event.iter().flat_map(|event| &event.identity).filter_map(|one| one.window_s);
        if let Some(window_s) = windows.min() {
            said.push(format!(
                "One of those that repeat by nature (identified by a window of time) is a new event after {}.",
                span(window_s)
            ));
        }
    }
    if said.is_empty() {
        return "Nothing that is known: the signature covers the whole event and its time.".to_owned();
    }
    said.join(" ")
}

/// Seconds in the largest unit of which they are a whole number.
pub fn span(seconds: u32) -> String {
    match seconds {
        s if s > 172_800 && s.is_multiple_of(86_400) => format!("{} days", s / 86_400),
        s if s >= 3_600 && s.is_multiple_of(3_600) => format!("{} h", s / 3_600),
        s if s.is_multiple_of(60) => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

/// Names the source of the facts about a kind in one word.
pub fn confidence(spec: &Spec) -> &'static str {
    match spec.confidence {
        Confidence::Official => "official",
        Confidence::Secondary => "secondary",
        Confidence::Unsure => "unsure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_and_signatures_are_described_in_plain_words() {
        #[track_caller]
        fn check(name: &str, identity: &str, signature: &str) {
            let file = format!("{}/../../providers/{name}/provider.toml", env!("CARGO_MANIFEST_DIR"));
            let spec = Spec::parse(&std::fs::read_to_string(file).expect("a file")).expect("a spec");
            let described: Vec<String> = spec.event.iter().map(identities).collect();
            assert!(described.join("; ").contains(identity), "{name}: {described:?}");
            let described = signed_by(&spec);
            assert!(described.contains(signature), "{name}: {described}");
        }
        check(
            "stripe",
            "the sender's own id, `/id`",
            "HMAC-SHA-256 in `stripe-signature`, time within 300 s",
        );
        check("typeform", "the sender's own id, `/event_id`", ", no time");
        check("box", "`/id`", "in `box-signature-primary` or `box-signature-secondary`");
        check("auth0", "`/log_id` or `/id`", "; a shared token: the body is not signed");
        check("apple_app_store", "`/notificationUUID`", "JWS with ES256");
    }
}
