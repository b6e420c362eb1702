//! One signed text, one meaning: what a sender signed is never read as two different events, however the fields of a
//! request are cut, renamed, moved or nested under the signature that it has.
//!
//! Each kind with code signs lists of fields by its own signer: its samples with values that hold what joins the fields
//! and words of other fields. Each is changed into another list, which keeps the signature. Where both are believed, both
//! are one reading, or the second shares the key of the first and is not dispatched beside it.

use std::collections::BTreeMap;
use std::path::Path;

use fastrand::Rng;
use hooklatch_core::types::IncomingEvent;
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider, filled_sample};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::RawRequest;
use hooklatch_verify::spec::Weakness;
use http::{HeaderName, HeaderValue};
use serde_json::Value;

use crate::providers::{NOW_S, dev, request, sign_at};

/// Lists that are tried of each kind.
const LISTS_N: usize = 2_000;
/// With `scripts/test --all`, of those kinds that believe a changed list among the first tenth: the others sign the bytes
/// of their bodies. With `--nightly`, of all.
const ALL_N: usize = 100_000;
/// Changed lists of each that is signed.
const CHANGED_N: usize = 8;
/// Kinds that check a signature of P-521 or a chain of certificates, which takes a hundred times as long in a debug
/// build: they sign the whole body, and have a twentieth of the lists.
const SLOW: [&str; 2] = ["apple_app_store", "truelayer"];
/// Kinds that sign nothing of the body: a token, or a claim without the body, is accepted.
const NOTHING_SIGNED: [&str; 8] = [
    "atlassian_connect",
    "azure_event_grid",
    "first_party",
    "gitlab",
    "google_pubsub",
    "mercadopago",
    // By its current scheme; the one before it signs the body as it is.
    "phonepe",
    "salesforce",
];
/// Fields where one signed text has two readings and no shape can distinguish them, with the key that both share.
const OPEN: [(&str, &str); 15] = [
    // The merchant's own reference may begin with a digit, as the payment's number before it ends with one; and a hosted
    // page's token is signed where a direct payment has the beginning of its reference.
    ("iyzico", "/paymentConversationId"),
    ("iyzico", "/paymentId"),
    ("iyzico", "/iyziPaymentId"),
    ("iyzico", "/token"),
    // Adjacent numbers: moving a digit from one to the other makes a conflict with the genuine event.
    ("paymob", "/obj/id"),
    ("paymob", "/obj/integration_id"),
    ("paymob", "/obj/order/id"),
    ("paymob", "/obj/owner"),
    ("paymob", "/obj/merchant_id"),
    ("paymob", "/obj/order_id"),
    ("paymob", "/obj/token"),
    // A payment's means in two words.
    ("paymob", "/obj/source_data/sub_type"),
    ("paymob", "/obj/source_data/type"),
    // The merchant's own key where it is present; where it is missing, the configured one is signed.
    ("payu", "/key"),
    // Held to the id where its prefix is known; it decides nothing else.
    ("tap", "/object"),
];

/// The fields of 2Checkout's notices that have one place in the signed text.
const DECIDING_2CHECKOUT: [&str; 13] = [
    "CURRENCY",
    "FRAUD_STATUS",
    "IPN_PID",
    "IPN_PRICE",
    "IPN_QTY",
    "IPN_TOTAL",
    "IPN_TOTALGENERAL",
    "MESSAGE_TYPE",
    "ORDERNO",
    "ORDERSTATUS",
    "REFNO",
    "REFNOEXT",
    "TEST_ORDER",
];

/// What joins fields in the signed texts of senders, before a name and behind it.
const JOINTS: [(&str, &str); 10] = [
    ("", ""),
    ("|", ""),
    ("&", "="),
    (":", ""),
    (".", ""),
    ("\n", "\n"),
    (";", ":"),
    (",", "="),
    ("for", ""),
    ("x_status", ""),
];

/// A kind that signs lists, and what its lists are made of.
struct Subject {
    kind: &'static str,
    provider: ActiveProvider,
    /// Samples and the bodies of vectors.
    bodies: Vec<Fields>,
    /// Names that the kind knows: of its samples, and in its code.
    names: Vec<String>,
    /// The names in its code in the order in which they stand there, which is the one in which values are joined.
    in_code: Vec<String>,
    /// Words that its code and its samples have as values.
    words: Vec<String>,
    /// Whether a field, of a form or of JSON, cannot be changed without another signature.
    signed_fields: BTreeMap<(bool, String), bool>,
}

/// A body as a list of fields.
#[derive(Clone, PartialEq)]
enum Fields {
    Form(Vec<(String, String)>),
    Json(Value),
}

impl Fields {
    fn parse(body: &[u8]) -> Option<Self> {
        match serde_json::from_slice::<Value>(body) {
            Ok(json) if json.is_object() || json.is_array() => Some(Self::Json(json)),
            _ if body.contains(&b'=') && !body.starts_with(b"<") => {
                Some(Self::Form(form_urlencoded::parse(body).into_owned().collect()))
            }
            _ => None,
        }
    }

    fn body(&self) -> Vec<u8> {
        match self {
            Self::Form(pairs) => {
                form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish().into_bytes()
            }
            Self::Json(json) => json.to_string().into_bytes(),
        }
    }

    /// Pointers and texts of the fields that are no lists or objects.
    fn leaves(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        match self {
            Self::Form(pairs) => {
                found.extend(pairs.iter().map(|(name, value)| (format!("/{name}"), value.clone())));
            }
            Self::Json(json) => leaves(json, "", &mut found),
        }
        found
    }

    fn set(&mut self, pointer: &str, text: &str) {
        match self {
            Self::Form(pairs) => {
                let name = pointer.trim_start_matches('/');
                for (_, value) in pairs.iter_mut().filter(|(known, _)| known == name) {
                    text.clone_into(value);
                }
            }
            Self::Json(json) => {
                if let Some(place) = json.pointer_mut(pointer) {
                    // A number stays one, as long as it can.
                    let number = text.parse::<i64>().ok().filter(|_| place.is_number());
                    *place = number.map_or_else(|| text.into(), Value::from);
                }
            }
        }
    }
}

fn leaves(json: &Value, at: &str, found: &mut Vec<(String, String)>) {
    match json {
        Value::Object(members) => {
            for (name, value) in members {
                leaves(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) => {
            for (n, value) in list.iter().enumerate() {
                leaves(value, &format!("{at}/{n}"), found);
            }
        }
        Value::String(text) => found.push((at.to_owned(), text.clone())),
        Value::Null => {}
        other => found.push((at.to_owned(), other.to_string())),
    }
}

/// The words between quotation marks that can be names or values.
fn literals(source: &str) -> Vec<String> {
    let words = source.split('"').skip(1).step_by(2).map(|word| word.trim_start_matches('/').to_owned());
    words.filter(|word| !word.is_empty() && word.len() < 32 && !word.contains([' ', '{', '\\'])).collect()
}

impl Subject {
    fn new(kind: &Provider) -> Self {
        let name: &'static str = kind.kind().to_owned().leak();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("providers").join(name);
        let provider = dev(kind);
        let samples = kind.sample_list().into_iter();
        let filled = samples.map(|(_, text)| filled_sample(text, "1234567890", NOW_S).into_bytes());
        let bodies: Vec<Fields> = filled.filter_map(|body| Fields::parse(&body)).collect();
        let mut names = literals(&std::fs::read_to_string(folder.join("mod.rs")).unwrap());
        let in_code = names.iter().map(|name| format!("/{name}")).collect();
        let mut words = names.clone();
        for (pointer, value) in bodies.iter().flat_map(Fields::leaves) {
            names.push(pointer.rsplit('/').next().unwrap_or_default().to_owned());
            words.push(value);
        }
        words.extend(
            ["1", "99999.00", "SUCCESS", "FAILURE", "TXN_SUCCESS", "null", "true"].map(str::to_owned),
        );
        for list in [&mut names, &mut words] {
            list.sort();
            list.dedup();
        }
        let signed_fields = BTreeMap::new();
        let mut subject = Self { kind: name, provider, bodies, names, in_code, words, signed_fields };
        subject.signed_fields = subject.find_signed();
        subject
    }

    fn signed(&self, fields: &Fields) -> Option<(Vec<(String, String)>, Fields)> {
        let signed = self.provider.sign(&fields.body(), &sign_at(&self.provider, "sample")).ok()?;
        Some((signed.headers, Fields::parse(&signed.body)?))
    }

    /// A request with these headers, of which any body is made.
    fn request(&self, headers: &[(String, String)]) -> RawRequest {
        let is_header = |(name, value): &&(String, String)| {
            HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok()
        };
        let headers: Vec<_> = headers.iter().filter(is_header).cloned().collect();
        request(&headers, &[], self.provider.url(), NOW_S)
    }

    /// The events that handlers would get; `None` where the list is not believed, or nothing of it is dispatched as what
    /// it says.
    fn events(&self, request: &RawRequest, body: Vec<u8>) -> Option<Vec<IncomingEvent>> {
        let verified = self.provider.verify(RawRequest { body: body.into(), ..request.clone() }).ok()?;
        let mut events = self.provider.read(&verified);
        events.retain(|event| event.unreadable.is_none() && !event.event_type.ends_with(".unconfirmed"));
        (!events.is_empty()).then_some(events)
    }

    /// Fields of forms, and of JSON, that have one value under one signature: kinds that leave some out say so by `weak`.
    fn find_signed(&self) -> BTreeMap<(bool, String), bool> {
        let mut found = BTreeMap::new();
        for body in &self.bodies {
            let Some((headers, fields)) = self.signed(body) else { continue };
            let request = self.request(&headers);
            for (pointer, value) in fields.leaves() {
                let others = [format!("{value}x"), format!("{value}1"), format!("1{value}"), "Y".to_owned()];
                let is_open = others.iter().any(|other| {
                    let mut changed = fields.clone();
                    changed.set(&pointer, other);
                    changed != fields && self.events(&request, changed.body()).is_some()
                });
                // One that some sample leaves open is open in all.
                let is_signed = found.entry((matches!(fields, Fields::Form(_)), pointer)).or_insert(true);
                *is_signed &= !is_open;
            }
        }
        found
    }

    /// What of the events is signed: of a kind that signs all of it, their contents.
    fn signed_part(&self, events: &[IncomingEvent]) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let spec = self.provider.spec();
        for (n, event) in events.iter().enumerate() {
            let Some(fields) = Fields::parse(&event.envelope) else { continue };
            let volatile: Vec<&String> = spec.event.iter().flat_map(|event| &event.volatile).collect();
            let is_volatile = |at: &str| {
                volatile.iter().any(|one| at.starts_with(one.as_str()) || at.ends_with(one.as_str()))
            };
            let is_form = !matches!(event.body.trim_ascii_start().first(), Some(b'{' | b'['));
            // Pointers into an element of a batch start at the element.
            let is_signed = |at: &str| {
                let exact = self.signed_fields.get(&(is_form, at.to_owned())).copied();
                let within = || {
                    let mut all = self.signed_fields.iter();
                    all.any(|((of_form, one), is)| *is && *of_form == is_form && one.ends_with(at))
                };
                spec.signature.weak.is_none() || exact.unwrap_or_else(within)
            };
            // Of 2Checkout what a payer wrote may be cut otherwise; what decides may not.
            let is_beside = |at: &str| {
                let name = at.split('/').nth(1).unwrap_or_default();
                self.kind == "two_checkout" && !DECIDING_2CHECKOUT.contains(&name)
            };
            let is_open = |at: &str| OPEN.contains(&(self.kind, at)) || at == "/type" || is_beside(at);
            let kept = fields.leaves().into_iter();
            let kept = kept.filter(|(at, _)| is_signed(at) && !is_volatile(at) && !is_open(at));
            // A field without a value is equal to a missing one.
            let kept = kept.filter(|(_, value)| !value.is_empty());
            found.extend(kept.map(|(at, value)| (format!("{n}{at}"), value)));
        }
        found
    }

    /// Why two lists under one signature are two events, if they are.
    fn is_two(
        &self,
        first: &[IncomingEvent],
        one: &BTreeMap<String, String>,
        second: &[IncomingEvent],
    ) -> Option<String> {
        let other = self.signed_part(second);
        if *one != other {
            let differs = one.iter().filter(|(at, value)| other.get(*at) != Some(*value));
            let more = other.iter().filter(|(at, value)| one.get(*at) != Some(*value));
            return Some(format!(
                "{:?} is read as {:?}",
                differs.collect::<Vec<_>>(),
                more.collect::<Vec<_>>()
            ));
        }
        let is_known = |event: &IncomingEvent| {
            // A signal says that something changed, whatever is written beside it; and of midtrans one signed text is of
            // one notice for each status by design, of a closed list (`providers/midtrans/mod.rs`).
            event.key.event_id.starts_with("signal:")
                || self.kind == "midtrans"
                || first.iter().any(|one| {
                    one.key == event.key || one.replay_key.is_some() && one.replay_key == event.replay_key
                })
        };
        let new = second.iter().find(|event| !is_known(event))?;
        Some(format!("{} {} is dispatched as well", new.event_type, new.key.event_id))
    }

    fn word(&self, rng: &mut Rng) -> String {
        self.words[rng.usize(..self.words.len())].clone()
    }

    /// A list that a sender could be made to sign, and one that is cut otherwise.
    fn lists(&self, rng: &mut Rng) -> (Fields, Vec<Fields>) {
        let base = self.bodies[rng.usize(..self.bodies.len())].clone();
        let joint = JOINTS[rng.usize(..JOINTS.len())];
        match base {
            Fields::Form(pairs) if rng.u8(..4) > 0 => self.merged(rng, pairs, joint),
            Fields::Json(json) if rng.bool() => self.nested(rng, &json),
            base => self.shifted(rng, &base, joint),
        }
    }

    /// A form of which neighbours in the order of names became one field, and forms that take it apart.
    fn merged(
        &self,
        rng: &mut Rng,
        mut pairs: Vec<(String, String)>,
        joint: (&str, &str),
    ) -> (Fields, Vec<Fields>) {
        pairs.sort();
        for _ in 0..rng.usize(..3) {
            let n = rng.usize(..pairs.len());
            pairs[n].1 = self.word(rng);
        }
        let from = rng.usize(..pairs.len());
        let to = (from + rng.usize(..10)).min(pairs.len() - 1);
        let named = |n: usize| {
            if joint.1.is_empty() || n == from {
                pairs[n].1.clone()
            } else {
                [&pairs[n].0, joint.1, &pairs[n].1].concat()
            }
        };
        let texts: Vec<String> = (from..=to).map(named).collect();
        let mut merged = pairs.clone();
        let name = self.name_between(rng, &pairs, from, to);
        merged.splice(from..=to, [(name, texts.join(joint.0))]);
        let mut all = vec![Fields::Form(pairs.clone())];
        for _ in 1..CHANGED_N {
            let mut renamed = pairs.clone();
            for _ in 0..=rng.usize(..2) {
                let n = rng.usize(..renamed.len());
                renamed[n].0 = self.name_between(rng, &renamed, n, n);
            }
            all.push(Fields::Form(renamed));
        }
        (Fields::Form(merged), all)
    }

    /// A name that the kind knows, for the place of those `from` and `to` in a sorted form.
    fn name_between(&self, rng: &mut Rng, pairs: &[(String, String)], from: usize, to: usize) -> String {
        let after = from.checked_sub(1).map_or("", |n| pairs[n].0.as_str());
        let before = pairs.get(to + 1).map_or("\u{7f}", |(name, _)| name.as_str());
        let fits: Vec<&String> =
            self.names.iter().filter(|name| name.as_str() > after && name.as_str() < before).collect();
        if fits.is_empty() || rng.u8(..3) == 0 {
            pairs[from].0.clone()
        } else {
            fits[rng.usize(..fits.len())].clone()
        }
    }

    /// A body inside another one, and the ways to take it out or to wrap it.
    fn nested(&self, rng: &mut Rng, json: &Value) -> (Fields, Vec<Fields>) {
        let other = self.bodies[rng.usize(..self.bodies.len())].clone();
        let mut members: Vec<String> =
            json.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        members.push("payload".to_owned());
        let member = members[rng.usize(..members.len())].clone();
        let inner = if rng.bool() { json.clone() } else { json.get(&member).cloned().unwrap_or(Value::Null) };
        let mut whole = json.clone();
        if let (Some(object), true) = (whole.as_object_mut(), rng.bool()) {
            let mut inside = inner.clone();
            if let (Some(inside), Some(type_of)) =
                (inside.as_object_mut(), rng.bool().then(|| self.word(rng)))
            {
                inside.insert("eventType".to_owned(), type_of.into());
            }
            object.insert(member.clone(), inside);
        }
        let mut all = Vec::new();
        all.extend(whole.get(&member).cloned().map(Fields::Json));
        for name in [&member, &"payload".to_owned(), &"body".to_owned()] {
            // Around it, as another body has it, with another type.
            let mut around = json.clone();
            if let Some(object) = around.as_object_mut() {
                object.insert(name.clone(), whole.clone());
                if object.contains_key("eventType") {
                    object.insert("eventType".to_owned(), self.word(rng).into());
                }
            }
            all.push(Fields::Json(around));
        }
        if let Fields::Form(pairs) = other {
            let mut beside = whole.clone();
            if let Some(object) = beside.as_object_mut() {
                object.extend(pairs.into_iter().map(|(name, value)| (name, Value::from(value))));
            }
            all.push(Fields::Json(beside));
            all.push(Fields::Form(vec![(
                self.names[rng.usize(..self.names.len())].clone(),
                whole.to_string(),
            )]));
        }
        (Fields::Json(whole), all)
    }

    /// Two fields whose texts were moved from one to the other, and single fields with other words.
    fn shifted(&self, rng: &mut Rng, base: &Fields, joint: (&str, &str)) -> (Fields, Vec<Fields>) {
        let leaves = base.leaves();
        let mut first = base.clone();
        let one = |rng: &mut Rng| leaves[rng.usize(..leaves.len())].clone();
        // Neighbours in the signed text, mostly: what is cut elsewhere moves from one to the other.
        let find = |name: &String| leaves.iter().find(|(at, _)| at == name);
        let joined: Vec<&(String, String)> = self.in_code.iter().filter_map(find).collect();
        let (a, b) = if joined.len() > 1 && rng.u8(..4) > 0 {
            let n = rng.usize(..joined.len() - 1);
            (joined[n].clone(), joined[n + 1].clone())
        } else {
            (one(rng), one(rng))
        };
        let cut = |rng: &mut Rng, text: &str| {
            let at = rng.usize(..=text.chars().count());
            (text.chars().take(at).collect::<String>(), text.chars().skip(at).collect::<String>())
        };
        let (x, y) = if rng.bool() { cut(rng, &a.1) } else { (a.1.clone(), self.word(rng)) };
        first.set(&a.0, &[x.as_str(), joint.0, joint.1, &y].concat());
        let mut moved = first.clone();
        moved.set(&a.0, &x);
        moved.set(&b.0, &[y.as_str(), joint.0, joint.1, &b.1].concat());
        let mut plain = first.clone();
        plain.set(&a.0, &x);
        plain.set(&b.0, &[y.as_str(), &b.1].concat());
        let mut all = vec![moved, plain];
        while all.len() < CHANGED_N {
            let mut other = first.clone();
            let field = one(rng);
            let word = if rng.bool() { self.word(rng) } else { cut(rng, &field.1).1 };
            other.set(&field.0, &word);
            all.push(other);
        }
        (first, all)
    }

    /// Tries so many lists; the faults that were found, one for each way.
    fn faults(&self, lists_n: usize, seed: u64) -> Vec<String> {
        let mut rng = Rng::with_seed(seed);
        let (mut tried_n, mut signed_n, mut authenticated_n, mut faults) = (0, 0, 0, BTreeMap::new());
        let enough_n = if is_nightly() { lists_n } else { (lists_n / 10).max(LISTS_N / slower(self.kind)) };
        while tried_n < lists_n && (authenticated_n > 0 || tried_n < enough_n) {
            tried_n += 1;
            let (genuine, changed) = self.lists(&mut rng);
            let Some((headers, genuine)) = self.signed(&genuine) else { continue };
            let (request, own_body) = (self.request(&headers), genuine.body());
            let Some(first) = self.events(&request, own_body.clone()) else { continue };
            signed_n += 1;
            let (own, part) = (genuine.leaves(), self.signed_part(&first));
            for mut changed in changed {
                tried_n += 1;
                put_signature(self.kind, &own, &mut changed);
                let body = changed.body();
                if body == own_body {
                    continue;
                }
                let Some(second) = self.events(&request, body.clone()) else { continue };
                authenticated_n += 1;
                if let Some(why) = self.is_two(&first, &part, &second) {
                    let way = why.split('"').nth(1).unwrap_or_default().to_owned();
                    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
                    faults.entry(way).or_insert_with(|| {
                        format!(
                            "{}: {why}\n  signed {}\n  sent   {}",
                            self.kind,
                            text(&own_body),
                            text(&body)
                        )
                    });
                }
            }
        }
        let kind = self.kind;
        if signed_n * 100 < tried_n {
            let why =
                format!("{kind}: of {tried_n} lists {signed_n} were signed and {authenticated_n} believed");
            faults.insert(String::new(), why);
        }
        faults.into_values().take(3).collect()
    }
}

/// Gives a changed list the signature of the genuine one, where that stands in the body.
fn put_signature(kind: &str, own: &[(String, String)], changed: &mut Fields) {
    let pointer = match kind {
        "alipay" => "/sign",
        "billplz" => "/x_signature",
        "braintree" => "/bt_signature",
        "midtrans" => "/signature_key",
        "nuvei" => "/advanceResponseChecksum",
        "paddle_classic" => "/p_signature",
        "paymob" => "/hmac",
        "paytm" => "/CHECKSUMHASH",
        "payfast" => "/signature",
        "payu" => "/hash",
        "trustly" => "/params/signature",
        "two_checkout" => "/SIGNATURE_SHA2_256",
        "wompi" => "/signature/checksum",
        _ => "",
    };
    let head = ("/head/signature", "paytm");
    for pointer in
        [pointer, if kind == head.1 { head.0 } else { "" }].into_iter().filter(|one| !one.is_empty())
    {
        let Some((_, value)) = own.iter().find(|(at, _)| at == pointer) else { continue };
        let name = pointer.trim_start_matches('/').to_owned();
        match &mut *changed {
            Fields::Form(pairs) => {
                pairs.retain(|(known, _)| *known != name);
                pairs.push((name, value.clone()));
            }
            json @ Fields::Json(_) => json.set(pointer, value),
        }
    }
}

fn is_nightly() -> bool {
    std::env::var_os("HOOKLATCH_TEST_NIGHTLY").is_some()
}

fn lists_n(kind: &str) -> usize {
    let is_all = is_nightly() || std::env::var_os("HOOKLATCH_TEST_ALL").is_some();
    let lists_n = if is_all { ALL_N } else { LISTS_N };
    lists_n / slower(kind)
}

fn slower(kind: &str) -> usize {
    if SLOW.contains(&kind) { 20 } else { 1 }
}

/// Kinds with code that sign their bodies, in whole or in part.
fn subjects() -> Vec<Provider> {
    let has_code = |kind: &Provider| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("providers").join(kind.kind()).join("mod.rs").exists()
    };
    builtin().into_iter().filter(has_code).collect()
}

#[test]
fn one_signed_text_has_one_meaning_whatever_the_kind() {
    let kinds: Vec<Provider> =
        subjects().into_iter().filter(|kind| !NOTHING_SIGNED.contains(&kind.kind())).collect();
    assert!(kinds.len() >= 36, "{}", kinds.len());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(kind) = kinds.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            let subject = Subject::new(kind);
            if !subject.bodies.is_empty() {
                found.extend(subject.faults(lists_n(subject.kind), 1));
            }
        }
        found
    };
    let found: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(found.is_empty(), "{} signed texts with two meanings:\n{}", found.len(), found.join("\n"));
}

#[test]
fn the_kinds_that_sign_nothing_of_a_body_are_marked() {
    for kind in subjects().iter().filter(|kind| NOTHING_SIGNED.contains(&kind.kind())) {
        let weak = kind.spec().unwrap().signature.weak;
        let is_said = matches!(weak, Some(Weakness::Token | Weakness::Body | Weakness::Unsigned));
        assert!(
            is_said || kind.kind() == "gitlab" || kind.kind() == "first_party",
            "{}: {weak:?}",
            kind.kind()
        );
    }
}

/// A form of Paytm's that failed, with these words of the payer's in it, signed; and another one under its checksum.
fn paytm_reads(words: &str, sent: &[(&str, &str)]) -> Vec<String> {
    let kind = builtin().into_iter().find(|kind| kind.kind() == "paytm").unwrap();
    let subject = Subject::new(&kind);
    let pairs = |list: &[(&str, &str)]| {
        Fields::Form(list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    };
    let mid = "INTEGR7769XXXXXX9383";
    let genuine = pairs(&[
        ("BANKNAME", "HDFC"),
        ("BANKTXNID", "77"),
        ("CURRENCY", "INR"),
        ("CUSTID", words),
        ("GATEWAYNAME", "HDFC"),
        ("MERC_UNQ_REF", "m1"),
        ("MID", mid),
        ("ORDERID", "ORD-1"),
        ("PAYMENTMODE", "CC"),
        ("RESPCODE", "227"),
        ("RESPMSG", "declined"),
        ("STATUS", "TXN_FAILURE"),
        ("TXNAMOUNT", "500.00"),
        ("TXNDATE", "2020-09-10"),
        ("TXNDATETIME", "2020-09-10 13:03:05.0"),
        ("TXNID", "20200508"),
    ]);
    let (headers, genuine) = subject.signed(&genuine).unwrap();
    let mut sent = if sent.is_empty() { genuine.clone() } else { pairs(sent) };
    put_signature("paytm", &genuine.leaves(), &mut sent);
    let request = request(&headers, &sent.body(), subject.provider.url(), NOW_S);
    let verified = subject.provider.verify(request).unwrap();
    subject.provider.read(&verified).into_iter().map(|event| event.event_type).collect()
}

#[test]
fn no_text_of_a_payer_turns_a_failure_into_a_success_at_paytm() {
    assert_eq!(paytm_reads("bob", &[]), ["payment.TXN_FAILURE"]);
    // What holds the joint, or a word that only one field may hold, is kept and is no payment.
    for words in ["a|b", "TXN_SUCCESS", "txn_success ", "99999.00", "INTEGR7769XXXXXX9383", "INR"] {
        assert_eq!(paytm_reads(words, &[]), ["payment.unconfirmed"], "{words}");
    }
    let words = "bob|HDFC|m1|INTEGR7769XXXXXX9383|ORD-9|CC|01|Txn Success|TXN_SUCCESS|99999.00|2020-09-10|2020-09-10 13:03:05.0|2";
    let rest = "HDFC|m1|INTEGR7769XXXXXX9383|ORD-1|CC|227|declined|TXN_FAILURE|500.00|2020-09-10|2020-09-10 13:03:05.0|20200508";
    let forged = [
        ("BANKNAME", "HDFC"),
        ("BANKTXNID", "77"),
        ("CURRENCY", "INR"),
        ("CUSTID", "bob"),
        ("GATEWAYNAME", "HDFC"),
        ("MERC_UNQ_REF", "m1"),
        ("MID", "INTEGR7769XXXXXX9383"),
        ("ORDERID", "ORD-9"),
        ("PAYMENTMODE", "CC"),
        ("RESPCODE", "01"),
        ("RESPMSG", "Txn Success"),
        ("STATUS", "TXN_SUCCESS"),
        ("TXNAMOUNT", "99999.00"),
        ("TXNDATE", "2020-09-10"),
        ("TXNDATETIME", "2020-09-10 13:03:05.0"),
        ("TXNID", "2"),
        ("UDF_1", rest),
    ];
    assert_eq!(paytm_reads(words, &forged), ["payment.unconfirmed"]);
    let mut in_id = forged[..15].to_vec();
    let id = format!("2|{rest}");
    in_id.push(("TXNID", id.as_str()));
    assert_eq!(paytm_reads(words, &in_id), ["payment.unconfirmed"]);
}
