//! The pages of the senders, written from the specs: docs/providers.md lists the kinds, docs/providers/ has a page for
//! each, and docs/senders-security.md says what each signature is worth. `scripts/provider-pages` updates them.

use std::path::Path;

use super::super::check::{sent_again, when_asked};
use hooklatch_core::figures::grouped;
use hooklatch_receive::provider::{Kind, Provider};
use hooklatch_verify::spec::words::{
    confidence, identities, left_open, payload, places, scheme_name, search_places, signed_by, span, whose,
};
use hooklatch_verify::spec::{
    BodyFormat, Encoding, EventSpec, HandshakeSpec, Identity, IdentitySpec, Scheme, SecretFormat,
    SettingForm, SignatureSpec, Spec, Weakness,
};

const HEAD: &str = "# Senders

<!-- `scripts/provider-pages` writes this page; a test compares it with the specs. -->

Each kind has a page: how its events are verified and read, what to configure, and what the sender's own scheme leaves
open, as the kind's `provider.toml` has it. `hooklatch providers KIND` prints the same. Register
`https://YOUR.HOST/webhooks/KIND` (or `/webhooks/NAME` for a table `[providers.NAME]` with `kind = \"KIND\"`) with the
sender, and write its secret as `[providers.KIND] secrets = [{ env = \"…\" }]`. A kind that is not here is
[a folder](../providers/README.md). [senders-security.md](senders-security.md) compares what the signatures are worth.

A signed id cannot be changed by anyone who saw a request. Where the id is not signed, the same body under another id is
a replay: it is kept, and not dispatched.";

const KIND_HEAD: &str =
    "<!-- `scripts/provider-pages` writes this page; a test compares it with the spec. -->";

const SECURITY_HEAD: &str = "# What each sender's signature is worth

<!-- `scripts/provider-pages` writes this page; a test compares it with the specs. -->

For those who decide how far to trust a provider: whose key signs its events, what binds an event to your account, how long a recorded request
is accepted, and what stays open by the sender's design. `hooklatch providers KIND` says the same of one kind.

What is true of all of them: anyone who has the key that signs can send any event, and a copy of an event within its id's memory starts
nothing ([admission.md](admission.md)). *Always* means that no signed time is bounded: `max_age_s` of the provider bounds it where the sender signs
one. Where nothing is signed, TLS and a long secret in the sender's settings are all there is: restrict addresses with `allow_from`.";

/// Says who has the key that signs.
fn signer(spec: &Spec) -> String {
    let who = match (spec.signature.scheme, spec.weakness()) {
        (_, Some(Weakness::Unsigned)) => "nobody",
        (Scheme::Basic, _) => "none: the sender shows a password that you share",
        (_, Some(Weakness::Token)) => "none: the sender shows a token that you share",
        _ if spec.first_party => "your own program, with a secret that you share",
        _ if !spec.has_public_key() => "the sender, with a secret that you share",
        // Some have two ways, of which one is a secret.
        (Scheme::Code, _) => {
            return format!("the sender: {}", spec.signature.in_words.as_deref().unwrap_or_default());
        }
        _ => "the sender, with a private key",
    };
    who.to_owned()
}

/// Says what binds an event to the operator's account.
fn bound_by(spec: &Spec) -> String {
    let is_bound = spec.whose.as_ref().is_some_and(|whose| whose.open.is_none());
    let by = match (whose(spec).filter(|_| is_bound), spec.signature.scheme, spec.weakness()) {
        (Some(by), ..) => by,
        (None, _, weak) if spec.whose.is_some() || weak == Some(Weakness::Unsigned) => "nothing".to_owned(),
        (None, Scheme::Basic, _) => "the password".to_owned(),
        (None, _, Some(Weakness::Token)) => "the token".to_owned(),
        _ => "the secret".to_owned(),
    };
    match &spec.accept {
        Some(accept) => {
            format!(
                "{by}; `{}` must be in `settings.{}`, by default {}",
                accept.json,
                accept.setting,
                accept.values.join(", ")
            )
        }
        None => by,
    }
}

/// Says how long after its signature a recorded request is believed.
fn valid_for(spec: &Spec) -> String {
    let is_signed = !matches!(spec.weakness(), Some(Weakness::Token | Weakness::Unsigned));
    if let Some(life_s) = spec.token_life_s {
        return span(life_s);
    }
    match spec.tolerance_s().filter(|_| is_signed) {
        Some(tolerance_s) if spec.bounds_signed_time() => span(tolerance_s),
        Some(tolerance_s) => format!("{}; without a signed time, always", span(tolerance_s)),
        None => "always".to_owned(),
    }
}

/// docs/senders-security.md.
fn security_page(kinds: &[Provider]) -> String {
    let mut specs: Vec<&Spec> = kinds.iter().filter_map(|kind| kind.spec().ok()).collect();
    specs.sort_by(|left, right| left.kind.cmp(&right.kind));
    let cell = |text: &str| text.replace('|', "` or `");
    let row = |spec: &&Spec| {
        format!(
            "| [`{0}`](providers/{0}.md) | {1} | {2} | {3} | {4} |",
            spec.kind,
            signer(spec),
            cell(&bound_by(spec)),
            valid_for(spec),
            cell(&left_open(spec))
        )
    };
    let rows: Vec<String> = specs.iter().map(row).collect();
    format!(
        "{SECURITY_HEAD}\n\n| kind | whose key signs | what binds an event to your account | a recorded request is accepted | what stays open |\n\
         |---|---|---|---|---|\n{}\n",
        rows.join("\n")
    )
}

/// docs/providers.md, kinds sorted by name.
fn page(kinds: &[Provider]) -> String {
    let mut specs: Vec<&Spec> = kinds.iter().filter_map(|kind| kind.spec().ok()).collect();
    specs.sort_by(|left, right| left.kind.cmp(&right.kind));
    format!("{HEAD}\n\n{}\n\n{}\n", table(&specs), weaknesses(&specs))
}

/// A line for each kind.
fn table(specs: &[&Spec]) -> String {
    let mut lines = vec![
        "| kind | sender | signature | event id | may resend for |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for spec in specs {
        let (id, weak) = (key(spec), if is_any_unsigned(spec) { " (unsigned)" } else { "" });
        lines.push(format!(
            "| [`{0}`](providers/{0}.md) | {1} | {2} | {id}{weak} | {3} h{4} |",
            spec.kind,
            spec.title,
            signed_by(spec),
            spec.horizon_h,
            when_asked(spec)
        ));
    }
    lines.join("\n")
}

/// The key of most events, for a cell of a table: that of the first identity that is for all of them.
fn key(spec: &Spec) -> String {
    let identities = spec.event.last().map(|event| event.identity.as_slice()).unwrap_or_default();
    let is_for_all = |one: &&IdentitySpec| one.types.is_empty() && one.has.is_empty();
    let Some(identity) = identities.iter().find(is_for_all).or(identities.last()) else {
        return String::new();
    };
    let parts = places(&identity.id);
    match (identity.is, parts.is_empty()) {
        (Identity::Sender, _) => parts,
        (_, true) => "content".to_owned(),
        (_, false) => format!("{parts} + content"),
    }
}

/// True when no signature covers an id, a type or how a body is read.
fn is_any_unsigned(spec: &Spec) -> bool {
    spec.event.iter().flat_map(|event| &event.identity).any(|identity| !identity.signed)
}

fn weaknesses(specs: &[&Spec]) -> String {
    let row = |what: &str, is_so: &dyn Fn(&Spec) -> bool| {
        let kinds: Vec<String> = specs
            .iter()
            .filter(|spec| is_so(spec))
            .map(|spec| format!("[`{0}`](providers/{0}.md)", spec.kind))
            .collect();
        format!("- **{what}** ({}): {}", kinds.len(), kinds.join(", "))
    };
    let weak = |weakness| move |spec: &Spec| spec.signature.weak == Some(weakness);
    [
        "## What to watch\n".to_owned(),
        row("Nothing is signed: a hint to ask the sender, no more", &weak(Weakness::Unsigned)),
        row("A shared token or password: who has seen one request can send any", &weak(Weakness::Token)),
        row("The body, or a part of it, is not signed", &weak(Weakness::Body)),
        row("The id, the type or how a body is read is not signed", &is_any_unsigned),
        row(
            "No signed time that is checked by the spec: an old request is recognized by its id alone",
            &|spec: &Spec| !spec.has_signed_time() && spec.signature.scheme != Scheme::Code,
        ),
        row("The URL is signed: `server.public_url` must be right", &Spec::has_signed_url),
        row("Facts that are not official", &|spec: &Spec| confidence(spec) != "official"),
    ]
    .join("\n")
}

/// docs/providers/KIND.md.
fn kind_page(spec: &Spec) -> String {
    let mut lines = vec![format!(
        "# {}: `{}`\n\n{KIND_HEAD}\n\n[The sender's documentation]({})\n",
        spec.title, spec.kind, spec.docs
    )];
    let mut line = |name: &str, text: String| lines.push(format!("- {name}: {text}"));
    line("verified", verified(spec));
    if let Some(other) = &spec.alternative {
        let when = other.when_header.as_deref().unwrap_or_default();
        line("verified otherwise", format!("when `{when}` is there, {}", signed(other)));
    }
    for event in &spec.event {
        let when = event.when_header.as_ref().map(|name| format!(" with `{name}`")).unwrap_or_default();
        line(&format!("events{when}"), events(event, spec.signature.weak));
        if let Some(places) = search_places(event) {
            line(&format!("found{when} by"), format!("the event id, {places}"));
        }
    }
    line("payload", payload(spec));
    if !spec.headers.is_empty() {
        line("headers", format!("`{}`", spec.headers.join("`, `")));
    }
    line("sent again", format!("for up to {}{}", sent_again(spec), late(spec)));
    line("answer", answer(spec));
    if let Some(bytes) = spec.body_bytes_max {
        line("largest body", format!("{} bytes", grouped(bytes.into())));
    }
    for handshake in &spec.handshake {
        line("handshake", handshake_in_words(handshake));
    }
    line("register", format!("`https://YOUR.HOST/webhooks/{}`", spec.kind));
    line("secret", secret(spec));
    for setting in &spec.setting {
        let form = match setting.form {
            SettingForm::Text => "",
            SettingForm::List => ", one or a list",
            SettingForm::Named => ", a list of `{ id, key }`",
        };
        let needed = if setting.needed { ", needed" } else { "" };
        line("setting", format!("`{}`{form}{needed}: {}", setting.name, setting.hint));
    }
    let facts = match confidence(spec) {
        "official" => "official: read in the sender's own documentation or SDK",
        "secondary" => "secondary: read in the texts of third parties",
        _ => "unsure: not confirmed",
    };
    line("facts", facts.to_owned());
    let is_bound = spec.whose.as_ref().is_some_and(|whose| whose.open.is_none());
    if let Some(whose) = whose(spec).filter(|_| is_bound) {
        line("whose event", whose);
    }
    line("**left open**", left_open(spec));
    format!("{}\n", lines.join("\n"))
}

fn verified(spec: &Spec) -> String {
    if spec.signature.scheme != Scheme::Code {
        return signed(&spec.signature);
    }
    let url = if spec.signed_url { "; the URL is signed" } else { "" };
    let time = match spec.signature.tolerance_s {
        Some(s) => format!("; a signed time may be {s} s old"),
        None => String::new(),
    };
    let words = spec.signature.in_words.as_deref().unwrap_or("by code that no spec can say");
    let place = place(&spec.signature).map(|place| format!(", {place}")).unwrap_or_default();
    format!("{words}{place}{url}{time}; [mod.rs](../../providers/{}/mod.rs)", spec.kind)
}

/// Scheme, place, what is signed and for how long.
fn signed(signature: &SignatureSpec) -> String {
    let mut parts = vec![scheme_name(signature.scheme).to_owned()];
    parts.extend(place(signature));
    let is_over_text = signature.scheme.is_mac() || signature.scheme.is_public();
    if is_over_text {
        let encoding = match signature.encoding {
            Encoding::Hex => "in lower-case hexadecimal",
            Encoding::HexAny => "in hexadecimal",
            Encoding::Base64 => "in base64",
            Encoding::Base64Url => "in URL-safe base64",
            Encoding::Base64Hex => "in base64 of its hexadecimal",
        };
        parts.push(encoding.to_owned());
        parts.push(format!("over `{}`", signature.signed.as_str()));
    }
    if signature.scheme == Scheme::StandardWebhooks {
        parts.push("over id, time and body".to_owned());
    }
    let text = parts.join(" ");
    match (signature.tolerance_s, signature.age_unchecked) {
        (Some(past_s), _) => match signature.tolerance_future_s {
            Some(ahead_s) if ahead_s != past_s => {
                format!("{text}; the signed time may be {past_s} s old and {ahead_s} s ahead")
            }
            _ => format!("{text}; the signed time may be at most {past_s} s away"),
        },
        (None, true) => format!("{text}; a time is signed, its age is bounded nowhere"),
        (None, false) if is_over_text => format!("{text}; no time is signed"),
        (None, false) => text,
    }
}

fn place(signature: &SignatureSpec) -> Option<String> {
    if let Some(pointer) = &signature.json {
        return Some(format!("in the body at `{pointer}`"));
    }
    if signature.headers.is_empty() {
        return None;
    }
    let (headers, layout) = (signature.headers.join("` or `"), signature.layout.as_str());
    let layout =
        if layout.is_empty() || layout == "{signature}" { String::new() } else { format!(" as `{layout}`") };
    Some(format!("in `{headers}`{layout}"))
}

fn events(event: &EventSpec, weak: Option<Weakness>) -> String {
    let batch = match (&event.each, event.body) {
        (Some(each), _) if each.is_empty() => "a batch, one for each element of the body".to_owned(),
        (Some(each), BodyFormat::Lines) => format!("a batch, one for each line or element of `{each}`"),
        (Some(each), _) => match each.strip_suffix('|') {
            Some(each) => format!("a batch, one for each element of the body or of its `{each}`"),
            None => format!("a batch, one for each element of `{each}`"),
        },
        (None, BodyFormat::Lines) => "a batch, one for each line".to_owned(),
        (None, BodyFormat::Form) => "one, as JSON or a form".to_owned(),
        (None, BodyFormat::Json) => "one".to_owned(),
    };
    let is_signed = match (weak, event.identity.iter().all(|identity| identity.signed)) {
        (Some(Weakness::Token | Weakness::Unsigned), _) => "nothing in the body is signed",
        (_, true) => "signed",
        (_, false) => "**not wholly signed**",
    };
    let event_type = places(&event.event_type);
    format!("{batch}; identified by {} ({is_signed}); type from {event_type}", identities(event))
}

/// Why the last attempt is still believed, of a kind that bounds the age of what is signed.
fn late(spec: &Spec) -> String {
    let repeats = spec.retry_span_s != Some(0);
    match spec.signatures().find(|one| one.tolerance_s.is_some() && repeats) {
        None => String::new(),
        Some(timed) => match &timed.attempts_signed_anew {
            Some(page) => format!("; each attempt is signed anew ([source]({page}))"),
            None => {
                "; that each attempt is signed anew is not documented, so the last one is believed as well"
                    .to_owned()
            }
        },
    }
}

fn answer(spec: &Spec) -> String {
    let what = match &spec.answer {
        Some(own) if own.body.is_empty() => format!("{}, empty", own.status),
        Some(own) => format!("{} `{}`", own.status, own.body),
        None => "200".to_owned(),
    };
    format!("{what}, wanted within {} ms", spec.answer_within_ms)
}

fn handshake_in_words(handshake: &HandshakeSpec) -> String {
    let mut when: Vec<String> = Vec::new();
    when.extend(handshake.query.iter().map(|name| format!("`?{name}`")));
    when.extend(handshake.header.iter().map(|name| format!("`{name}`")));
    when.extend(handshake.when_header.iter().map(|(name, text)| format!("`{name}: {text}`")));
    when.extend(handshake.when.iter().map(|(pointer, text)| format!("`{text}` at `{pointer}`")));
    when.extend(handshake.form.iter().map(|name| format!("the form field `{name}` alone")));
    when.extend(handshake.token.iter().map(|token| format!("our token in `?{}`", token.query)));
    let signed = if handshake.signed { "signed " } else { "" };
    let with = if when.is_empty() { String::new() } else { format!(" with {}", when.join(", ")) };
    let armed =
        handshake.armed_by.as_ref().map(|name| format!(", only while the setting `{name}` is `open`"));
    format!(
        "a {signed}{}{with} is answered with {}{}",
        handshake.method,
        handshake.status,
        armed.unwrap_or_default()
    )
}

fn secret(spec: &Spec) -> String {
    if !spec.takes_secrets() {
        return format!("none; its settings: {}", spec.secret_hint);
    }
    let form = match spec.signature.secret {
        SecretFormat::Text => "",
        _ if spec.secret_hint.contains('(') => "",
        SecretFormat::Hex => " (hexadecimal)",
        SecretFormat::Base64 => " (base64)",
        SecretFormat::Whsec => " (`whsec_…`)",
        SecretFormat::WhsecOrText => " (`whsec_…` or as it is)",
    };
    let floor = match spec.signature.secret_bytes_min {
        16 => String::new(),
        bytes_min => format!("; {bytes_min} bytes or more"),
    };
    format!("{}{form}{floor}", spec.secret_hint)
}

#[test]
fn the_page_of_senders_says_what_the_specs_say() {
    check_page("providers.md", &page(&hooklatch_receive::providers::builtin()));
}

#[test]
fn the_page_of_senders_security_says_what_the_specs_say() {
    check_page("senders-security.md", &security_page(&hooklatch_receive::providers::builtin()));
}

#[test]
fn the_page_of_senders_is_there_for_each_kind_and_says_what_its_spec_says() {
    let kinds = hooklatch_receive::providers::builtin();
    let mut wanted: Vec<String> = Vec::new();
    for spec in kinds.iter().filter_map(|kind| kind.spec().ok()) {
        let name = format!("{}.md", spec.kind);
        check_page(&format!("providers/{name}"), &kind_page(spec));
        wanted.push(name);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/providers");
    let names = std::fs::read_dir(folder).expect("a folder");
    let mut there: Vec<String> =
        names.map(|one| one.expect("an entry").file_name().into_string().expect("a name")).collect();
    wanted.sort();
    there.sort();
    assert_eq!(there, wanted, "a page in docs/providers/ is of no kind: remove it");
}

/// Compares a page with what the specs say; writes it instead where `UPDATE_PROVIDER_PAGES` is set.
#[track_caller]
fn check_page(name: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    if std::fs::read_to_string(&path).is_ok_and(|there| there == wanted) {
        return;
    }
    assert!(
        std::env::var_os("UPDATE_PROVIDER_PAGES").is_some(),
        "docs/{name} is not up to date: run `scripts/provider-pages`"
    );
    std::fs::write(path, wanted).expect("written");
}

#[test]
fn every_kind_says_in_sentences_what_stays_open() {
    for kind in hooklatch_receive::providers::builtin() {
        let (spec, said) = (kind.spec().expect("a spec"), left_open(kind.spec().expect("a spec")));
        let is_sentence = said.starts_with(|c: char| c.is_uppercase() || c == '`') && said.ends_with('.');
        assert!(is_sentence && said.len() < 600, "{}: {said}", spec.kind);
        // What a signature leaves out of a body only the sender's documents say.
        let is_in_part = spec.signature.weak == Some(Weakness::Body);
        assert!(!is_in_part || spec.open.is_some(), "{}: say in `open` what is not signed", spec.kind);
        let is_closed = said.starts_with("Nothing that is known");
        let is_whole = spec.weakness().is_none() && spec.bounds_signed_time() && !spec.needs_types();
        let is_own = spec.whose.as_ref().is_none_or(|whose| whose.open.is_none());
        assert_eq!(is_closed, is_whole && is_own && spec.open.is_none(), "{}: {said}", spec.kind);
    }
}

#[test]
fn a_kind_with_code_says_in_words_how_its_sender_signs() {
    for kind in hooklatch_receive::providers::builtin() {
        let spec = kind.spec().expect("a spec");
        let is_code = spec.signature.scheme == Scheme::Code;
        assert_eq!(spec.signature.in_words.is_some(), is_code, "`in_words` of {}", spec.kind);
        assert!(!signed_by(spec).starts_with("code"), "{}", spec.kind);
    }
}
