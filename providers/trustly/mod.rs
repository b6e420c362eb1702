//! Trustly (Europe): RSA with SHA-1 over a method, a UUID and data written one after the other without anything between
//! them, and an answer that is signed the same way by the operator's own key.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).answer_with(answer).samples(&[
        ("credit", include_str!("samples/credit.json")),
        ("debit", include_str!("samples/debit.json")),
        ("pending", include_str!("samples/pending.json")),
        ("cancel", include_str!("samples/cancel.json")),
        ("account", include_str!("samples/account.json")),
        ("payoutconfirmation", include_str!("samples/payoutconfirmation.json")),
        ("payoutfailed", include_str!("samples/payoutfailed.json")),
        ("kyc", include_str!("samples/kyc.json")),
    ])
}

/// Where the public keys are.
const KEYS: &str = "trustly_public_key";
const SIGNATURE: &str = "/params/signature";
/// A notice whose signed text has no reading, or several, among the documented notices.
const UNCONFIRMED: &str = "notification.unconfirmed";
/// The setting that says whether debits are approved, and its word for that.
const DEBITS: (&str, &str) = ("debits", "approve");
/// Longest signed data of which the readings are counted, and most places in it where a name stands. Bytes.
const DATA_BYTES_MAX: usize = 16 * 1024;
const NAMES_N_MAX: usize = 128;
/// Objects within each other; Trustly has two.
const DEPTH_MAX: usize = 4;

/// What a value may be. What is written by a payer or chosen by the merchant is [`Shape::Text`], which holds no name that may
/// stand behind it: such a value could end before that name as well.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// An object of further fields: of itself it writes nothing.
    Attributes,
    Amount,
    Currency,
    Digits,
    Time,
    Text,
}

/// A field of a documented notice, in the order in which its names are signed.
struct Known {
    name: String,
    shape: Shape,
    is_attribute: bool,
}

impl Known {
    /// Whether the name of `next`, which stands behind in the order, may follow the value of this one.
    fn may_precede(&self, next: &Known) -> bool {
        !next.is_attribute || self.is_attribute || self.shape == Shape::Attributes
    }
}

/// The documented notices: method, names of the data, names of its attributes. Sources: `provider.toml`.
const PAYMENT: [&str; 8] =
    ["amount", "attributes", "currency", "enduserid", "messageid", "notificationid", "orderid", "timestamp"];
const ACCOUNT: [&str; 6] = ["accountid", "attributes", "messageid", "notificationid", "orderid", "verified"];
const ACCOUNT_ATTRIBUTES: [&str; 9] =
    ["address", "bank", "city", "clearinghouse", "descriptor", "lastdigits", "name", "personid", "zipcode"];
const CANCEL: [&str; 6] = ["attributes", "enduserid", "messageid", "notificationid", "orderid", "timestamp"];
const CANCEL_ATTRIBUTES: [&str; 2] = ["details", "reason"];
const KYC: [&str; 5] = ["attributes", "kycentityid", "messageid", "notificationid", "orderid"];
const KYC_ATTRIBUTES: [&str; 8] =
    ["city", "country", "dob", "firstname", "lastname", "personid", "street", "zipcode"];
const FAILED_PAYOUT: [&str; 9] = [
    "amount",
    "currency",
    "enduserid",
    "errorcode",
    "errormessage",
    "messageid",
    "notificationid",
    "orderid",
    "timestamp",
];

/// The names of the data and of its attributes that a notice of this method may have.
fn documented(method: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    match method {
        "credit" | "debit" | "pending" | "payoutconfirmation" => Some((&PAYMENT, &[])),
        "account" => Some((&ACCOUNT, &ACCOUNT_ATTRIBUTES)),
        "cancel" => Some((&CANCEL, &CANCEL_ATTRIBUTES)),
        "payoutfailed" => Some((&FAILED_PAYOUT, &[])),
        "kyc" => Some((&KYC, &KYC_ATTRIBUTES)),
        _ => None,
    }
}

fn shape_of(name: &str) -> Shape {
    match name {
        "attributes" => Shape::Attributes,
        "amount" => Shape::Amount,
        "currency" => Shape::Currency,
        "notificationid" | "orderid" => Shape::Digits,
        "timestamp" => Shape::Time,
        _ => Shape::Text,
    }
}

impl Shape {
    fn fits(self, text: &[u8]) -> bool {
        let all = |is: fn(&u8) -> bool| !text.is_empty() && text.iter().all(is);
        match self {
            Self::Attributes => text.is_empty(),
            Self::Amount => all(|b| b.is_ascii_digit() || b"-.".contains(b)),
            Self::Currency => text.len() == 3 && all(u8::is_ascii_uppercase),
            Self::Digits => all(u8::is_ascii_digit),
            Self::Time => all(|b| b.is_ascii_digit() || b"-:. +TZ".contains(b)),
            Self::Text => true,
        }
    }
}

/// A notice as far as it is signed.
struct Notice {
    method: String,
    uuid: String,
    data: Value,
}

/// A value of the data, whose members are sorted by their names.
enum Value {
    Text(String),
    Null,
    /// A number or a word, as it is written.
    Other(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// `None` for what Trustly does not write: a member that is there twice, and what is nested too deep.
    fn parse(raw: &[u8], depth: usize) -> Option<Self> {
        if depth == 0 {
            return None;
        }
        match raw.first()? {
            b'{' => {
                let member = |(name, raw): (_, &[u8])| {
                    let name: std::borrow::Cow<'_, str> = name;
                    Some((name.into_owned(), Self::parse(raw, depth - 1)?))
                };
                let mut members: Vec<_> =
                    json_members(raw)?.into_iter().map(member).collect::<Option<_>>()?;
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
                let is_doubled = members.windows(2).any(|two| matches!(two, [(a, _), (b, _)] if a == b));
                (!is_doubled).then_some(Self::Object(members))
            }
            b'[' => {
                let items = json_elements(raw, "")?;
                items
                    .into_iter()
                    .map(|raw| Self::parse(raw, depth - 1))
                    .collect::<Option<_>>()
                    .map(Self::List)
            }
            b'"' => serde_json::from_slice(raw).ok().map(Self::Text),
            _ if raw == b"null" => Some(Self::Null),
            _ => String::from_utf8(raw.to_vec()).ok().map(Self::Other),
        }
    }

    /// Adds what is signed of it: names and values, and nothing for `null`.
    fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) | Self::Other(text) => out.push_str(text),
            Self::Null => {}
            Self::List(items) => {
                for item in items {
                    item.write(out);
                }
            }
            Self::Object(members) => {
                for (name, value) in members {
                    out.push_str(name);
                    value.write(out);
                }
            }
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Null => serde_json::Value::Null,
            Self::Other(raw) => serde_json::from_str(raw).unwrap_or_else(|_| json!(raw)),
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), value.json()));
                serde_json::Value::Object(members.collect())
            }
        }
    }

    /// True when it is an object of fields with these names, whose values fit them.
    fn is_documented(&self, known: &[Known], is_attribute: bool) -> bool {
        let Self::Object(members) = self else { return false };
        members.iter().all(|(name, value)| {
            let at = known.iter().position(|one| one.name == *name && one.is_attribute == is_attribute);
            let Some((at, field)) = at.and_then(|at| Some((at, known.get(at)?))) else { return false };
            let holds = |text: &str| {
                let behind = known.iter().skip(at + 1).filter(|next| field.may_precede(next));
                behind.into_iter().any(|next| text.contains(&next.name))
            };
            match (field.shape, value) {
                (Shape::Attributes, Self::Object(_)) => value.is_documented(known, true),
                (Shape::Attributes, Self::Text(_)) => false,
                (Shape::Text, Self::Text(text)) => !holds(text),
                (shape, Self::Text(text)) => shape.fits(text.as_bytes()),
                (shape, Self::Null) => shape.fits(b""),
                _ => false,
            }
        })
    }
}

impl Notice {
    fn parse(body: &[u8]) -> Option<Self> {
        let body = Json::parse(body)?;
        let text = |pointer: &str| serde_json::from_slice::<String>(body.raw(pointer)?).ok();
        let (method, uuid) = (text("/method")?, text("/params/uuid")?);
        let data = Value::parse(body.raw("/params/data")?, DEPTH_MAX)?;
        // The cut between the two is then where the first hyphen says: no text is of two methods. No method of Trustly's
        // API, which capital letters begin, can be one.
        let is_method = (1..=32).contains(&method.len()) && method.bytes().all(|b| b.is_ascii_lowercase());
        let is_uuid = uuid.len() == 36
            && uuid
                .bytes()
                .enumerate()
                .all(|(n, b)| if [8, 13, 18, 23].contains(&n) { b == b'-' } else { b.is_ascii_hexdigit() });
        (is_method && is_uuid).then_some(Self { method, uuid, data })
    }

    /// The data as they are signed.
    fn written(&self) -> String {
        let mut out = String::new();
        self.data.write(&mut out);
        out
    }

    fn signed(&self) -> String {
        format!("{}{}{}", self.method, self.uuid, self.written())
    }

    /// True when it is a documented notice and its text no other one: nothing separates the names from the values.
    fn is_confirmed(&self, keys: &Keys) -> bool {
        let Some((names, attributes)) = documented(&self.method) else { return false };
        let known = known(keys, names, attributes);
        let text = self.written();
        self.data.is_documented(&known, false) && readings_n(&known, text.as_bytes()) == Some(1)
    }
}

/// The fields in the order in which they are signed, attributes behind the name that they are under.
fn known(keys: &Keys, names: &[&str], attributes: &[&str]) -> Vec<Known> {
    let more = keys.settings().all("more_fields").flat_map(|one| one.value.reveal().split(','));
    let more: Vec<&str> = more.map(str::trim).filter(|name| !name.is_empty()).collect();
    let inner = more.iter().filter_map(|name| name.strip_prefix("attributes."));
    let mut inner: Vec<&str> = attributes.iter().copied().chain(inner).collect();
    let outer = more.iter().copied().filter(|name| !name.contains('.'));
    let mut outer: Vec<&str> = names.iter().copied().chain(outer).collect();
    for list in [&mut inner, &mut outer] {
        list.sort_unstable();
        list.dedup();
    }
    let field = |name: &str, is_attribute: bool| Known {
        name: name.to_owned(),
        shape: if is_attribute { Shape::Text } else { shape_of(name) },
        is_attribute,
    };
    let with_inner = |name: &&str| {
        let inner = if shape_of(name) == Shape::Attributes { inner.as_slice() } else { &[] };
        std::iter::once(field(name, false))
            .chain(inner.iter().map(|name| field(name, true)))
            .collect::<Vec<_>>()
    };
    outer.iter().flat_map(with_inner).collect()
}

/// In how many ways `text` is fields of this list, in its order, with values that fit them; `None` when it is too long to
/// count. Every notice has its id.
fn readings_n(known: &[Known], text: &[u8]) -> Option<u32> {
    if text.len() > DATA_BYTES_MAX {
        return None;
    }
    // Where each name begins and where its value would, from the end of the text on.
    let mut places: Vec<(usize, usize, usize)> = Vec::new();
    for (n, field) in known.iter().enumerate() {
        let name = field.name.as_bytes();
        let starts = text.windows(name.len()).enumerate().filter(|(_, part)| *part == name);
        places.extend(starts.map(|(at, _)| (at, at + name.len(), n)).take(NAMES_N_MAX));
    }
    if places.len() > NAMES_N_MAX {
        return None;
    }
    places.sort_unstable_by(|one, other| other.cmp(one));
    let is_id = |field: &Known| field.name == "notificationid" && !field.is_attribute;
    let has_no_id = |fields: Option<&[Known]>| !fields.unwrap_or_default().iter().any(is_id);
    let mut ways: Vec<u32> = Vec::with_capacity(places.len());
    for (_, from, n) in &places {
        let field = known.get(*n)?;
        let may_follow = |m: usize| m > *n && known.get(m).is_some_and(|next| field.may_precede(next));
        let holds = |to: usize| places.iter().any(|(at, end, m)| at >= from && *end <= to && may_follow(*m));
        let fits = |to: usize| {
            text.get(*from..to).is_some_and(|value| field.shape.fits(value))
                && !(field.shape == Shape::Text && holds(to))
        };
        let is_last = has_no_id(known.get(n + 1..)) && fits(text.len());
        let next = places.iter().zip(&ways).filter(|((at, _, m), _)| {
            at >= from && may_follow(*m) && has_no_id(known.get(n + 1..*m)) && fits(*at)
        });
        let next_n = next.fold(0_u32, |sum, (_, ways)| sum.saturating_add(*ways));
        ways.push(next_n.saturating_add(is_last.into()));
    }
    let first = places.iter().zip(&ways).filter(|((at, _, n), _)| {
        *at == 0 && has_no_id(known.get(..*n)) && known.get(*n).is_some_and(|field| !field.is_attribute)
    });
    Some(first.fold(0_u32, |sum, (_, ways)| sum.saturating_add(*ways)))
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let malformed = |why| VerifyError::malformed("body", why);
    let notice = Notice::parse(&request.body).ok_or_else(|| {
        malformed("it is not a notice: a method in lower case, a UUID and data without a member that is there twice")
    })?;
    let signature =
        json_raw(&request.body, SIGNATURE).and_then(|raw| serde_json::from_slice::<String>(raw).ok());
    let signature = signature.as_deref().and_then(decode_base64);
    let signature = signature.ok_or_else(|| VerifyError::malformed(SIGNATURE, "it is not base64"))?;
    let text = notice.signed();
    let key_n = keys.settings().all(KEYS).position(|setting| {
        PublicKey::parse(setting.value.reveal())
            .is_some_and(|key| key.verifies(PublicScheme::RsaSha1, text.as_bytes(), &signature))
    });
    Ok(Authenticated::of(key_n.ok_or_else(|| VerifyError::mismatch(keys))?, &[text.as_bytes()]))
}

/// What is signed alone, with the type.
fn open(keys: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let notice = Notice::parse(body).ok_or("the body is not a notice")?;
    let event_type = if notice.is_confirmed(keys) { notice.method.as_str() } else { UNCONFIRMED };
    let opened = json!({ "type": event_type, "method": notice.method, "uuid": notice.uuid, "data": notice.data.json() });
    Ok(opened.to_string().into_bytes())
}

/// `OK`, signed. None for a notice that wants a decision: a `kyc`, a debit unless the operator approves them all, and what
/// is not documented. Trustly repeats those.
fn answer(verified: &Verified, keys: &Keys) -> Option<String> {
    let notice = Notice::parse(&verified.request().body)?;
    let is_answered = match notice.method.as_str() {
        "kyc" => false,
        "debit" => keys.settings().text(DEBITS.0) == Some(DEBITS.1) && notice.is_confirmed(keys),
        method => documented(method).is_some(),
    };
    if !is_answered {
        return None;
    }
    let Notice { method, uuid, .. } = notice;
    let signature = base64_text(&keys.sign_answer_rsa_sha1(format!("{method}{uuid}statusOK").as_bytes())?);
    let result =
        json!({ "signature": signature, "uuid": uuid, "method": method, "data": { "status": "OK" } });
    Some(json!({ "result": result, "version": "1.1" }).to_string())
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let wrong = |why: &str| SignError::Body(why.to_owned());
    let notice = Notice::parse(body).ok_or_else(|| wrong("it is not a notice"))?;
    let signature = keys.sign_public(PublicScheme::RsaSha1, notice.signed().as_bytes())?;
    let body = json_with(body, SIGNATURE, json!(base64_text(&signature)).to_string().as_bytes());
    Ok(Signed::json(body.ok_or_else(|| wrong("it has no place for the signature"))?))
}
