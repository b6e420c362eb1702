//! Judges pairs of requests that say what two copies of one event are: the `identity.json` of a kind.
//!
//! A vector shows that a request is believed; a pair shows which event it is. Each side is signed as `sign` does,
//! with the kind's development keys, verified, read, and compared as admission would.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::provider::{ActiveProvider, Kind, Provider, filled_sample};
use hooklatch_core::json;
use hooklatch_core::types::IncomingEvent;
use hooklatch_verify::{Form, RawRequest, SignAt, Signed, form_with};

/// Time at which the first request of a pair is signed. Unix seconds.
const NOW_S: i64 = 1_767_225_600;
/// Longest time until the second one is received. Seconds; ten years, as the longest that anything is sent again.
const AFTER_S_MAX: i64 = 315_360_000;

/// Two requests, and what becomes of the second one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// A sentence for people: what the two requests are.
    pub what: String,
    /// Source of the claim, an address as a rule; `rule` where it follows from the format.
    pub source: String,
    /// The outcome of the second one.
    pub expect: Met,
    first: Side,
    #[serde(default)]
    second: Side,
}

/// The outcome of a request that is received after another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Met {
    /// It is another event, and dispatched.
    Two,
    /// Other content under the key of the first: kept beside it.
    Conflict,
    /// The signed text of the first under another id: not dispatched.
    Replayed,
    /// A copy: nothing happens.
    Copy,
}

impl std::fmt::Display for Met {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// One request; what the second does not say it has from the first.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Side {
    /// The type of one of the kind's samples.
    sample: Option<String>,
    /// The body as JSON,
    body: Option<Value>,
    /// or as it is.
    text: Option<String>,
    /// Fields of the body with other values: JSON pointers, or names of a form's fields behind a `/`.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// Fields that are left out.
    #[serde(default)]
    remove: Vec<String>,
    /// Headers with other values; `null` leaves one out.
    #[serde(default)]
    headers: BTreeMap<String, Option<String>>,
    /// The id for headers that carry one.
    id: Option<String>,
    /// The type for headers that carry one.
    #[serde(rename = "type")]
    event_type: Option<String>,
    /// Query of the URL, behind the `?`.
    query: Option<String>,
    /// Time after the first one. Seconds.
    #[serde(default)]
    after_s: i64,
    /// The first one's signed bytes and headers once more, with `headers` and `query` applied.
    #[serde(default)]
    as_sent: bool,
    /// True when the body is rewritten although nothing is set in it.
    #[serde(skip)]
    is_rewritten: bool,
}

/// Both requests of a pair, signed, with what each carries besides.
pub struct Requests {
    /// The first request.
    pub first: RawRequest,
    /// The second request.
    pub second: RawRequest,
}

impl Pair {
    /// Reads an `identity.json`: a list of pairs.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Both requests, as the sender of `kind` would sign them with the keys of `provider`.
    pub fn requests(&self, kind: &Provider, provider: &ActiveProvider) -> Result<Requests, String> {
        // A body in which a field was set is rewritten: then both are, or a copy would differ in its blanks.
        let is_rewritten = [&self.first, &self.second].iter().any(|side| side.is_changed());
        let first = Side { is_rewritten, ..self.first.clone() };
        let (first, signed) = first.request(None, kind, provider)?;
        let second = Side { is_rewritten, ..self.second.after(&self.first) };
        let before = self.second.as_sent.then_some(&signed);
        let (second, _) = second.request(before, kind, provider)?;
        Ok(Requests { first, second })
    }

    /// Returns the outcome of the second request, or why it is unknown.
    pub fn judge(&self, kind: &Provider, provider: &ActiveProvider) -> Result<Met, String> {
        let requests = self.requests(kind, provider)?;
        let after_ms = requests.second.received_at_ms - requests.first.received_at_ms;
        let first = events(provider, requests.first).map_err(|why| format!("the first: {why}"))?;
        let second = events(provider, requests.second).map_err(|why| format!("the second: {why}"))?;
        let met = second.iter().map(|event| met(&first, event, after_ms)).min();
        met.ok_or_else(|| "the second request has no events".to_owned())
    }
}

fn events(provider: &ActiveProvider, request: RawRequest) -> Result<Vec<IncomingEvent>, String> {
    let verified = provider.verify(request).map_err(|why| why.to_string())?;
    let events = provider.read(&verified);
    match events.iter().find_map(|event| event.unreadable.as_ref()) {
        Some(why) => Err(format!("it cannot be read: {why}")),
        None => Ok(events),
    }
}

/// Decides what becomes of `event` when it is received `after_ms` after `first`: the same rule as in admission (`met`
/// in `crates/store/src/admission/beside.rs`), without the tables.
fn met(first: &[IncomingEvent], event: &IncomingEvent, after_ms: i64) -> Met {
    let is_known = |one: &&IncomingEvent| {
        // A later copy that rearms its signal has it dispatched once more.
        let is_within = |window_ms| after_ms <= window_ms && (after_ms == 0 || !event.is_window_rearmed);
        one.key == event.key && event.window_ms.is_none_or(is_within)
    };
    let is_rendering = |one: &IncomingEvent| {
        event.renderings.as_ref().is_some_and(|by| json::is_rendering(by, &one.body, &event.body))
    };
    let is_replayed = |one: &&IncomingEvent| event.replay_key.is_some() && one.replay_key == event.replay_key;
    match (first.iter().find(is_known), first.iter().find(is_replayed)) {
        (Some(one), _) if one.digest == event.digest || is_rendering(one) => Met::Copy,
        (None, Some(one)) if one.digest == event.digest && event.is_repeatable => Met::Two,
        (_, Some(one)) if one.digest == event.digest => Met::Replayed,
        (None, None) => Met::Two,
        _ => Met::Conflict,
    }
}

impl Side {
    /// True when a field of the body has another value.
    fn is_changed(&self) -> bool {
        !self.set.is_empty() || !self.remove.is_empty()
    }

    /// This one with what it has from the `first`.
    fn after(&self, first: &Self) -> Self {
        let has_body = self.sample.is_some() || self.body.is_some() || self.text.is_some();
        let mut whole =
            if has_body { Self { headers: first.headers.clone(), ..Self::default() } } else { first.clone() };
        if has_body {
            (whole.sample, whole.body, whole.text) =
                (self.sample.clone(), self.body.clone(), self.text.clone());
        }
        whole.set.extend(self.set.clone());
        whole.remove.extend(self.remove.clone());
        whole.headers.extend(self.headers.clone());
        whole.id = self.id.clone().or_else(|| first.id.clone());
        let own_type = if has_body { None } else { first.event_type.clone() };
        whole.event_type = self.event_type.clone().or(own_type);
        whole.query = self.query.clone().or_else(|| first.query.clone());
        Self { after_s: self.after_s, as_sent: self.as_sent, ..whole }
    }

    /// The request, and what was signed; what was signed `before` is not signed again.
    fn request(
        &self,
        before: Option<&Signed>,
        kind: &Provider,
        provider: &ActiveProvider,
    ) -> Result<(RawRequest, Signed), String> {
        if !(0..=AFTER_S_MAX).contains(&self.after_s) {
            return Err(format!("after_s is {}: write seconds from 0 to {AFTER_S_MAX}", self.after_s));
        }
        let now_s = NOW_S + self.after_s;
        let query = self.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let url = format!("{}{query}", provider.url());
        let signed = if let Some(signed) = before {
            signed.clone()
        } else {
            let (event_type, body) = self.body(kind)?;
            let id = self.id.clone().unwrap_or_else(|| "id_1".to_owned());
            let at = SignAt { now_s, url: url.clone(), id, event_type };
            provider.sign(&body, &at).map_err(|why| why.to_string())?
        };
        let mut headers = HeaderMap::new();
        let set = |(name, value): (&String, &Option<String>)| (name.to_ascii_lowercase(), value.clone());
        let own: BTreeMap<String, Option<String>> = self.headers.iter().map(set).collect();
        let kept = signed.headers.iter().filter(|(name, _)| !own.contains_key(&name.to_ascii_lowercase()));
        let added = own.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (name, value) in kept.map(|(name, value)| (name, value)).chain(added) {
            let name =
                HeaderName::from_bytes(name.as_bytes()).map_err(|error| format!("`{name}`: {error}"))?;
            headers.append(name, HeaderValue::from_str(value).map_err(|error| error.to_string())?);
        }
        let request = RawRequest {
            method: Method::POST,
            url,
            headers,
            body: Bytes::from(signed.body.clone()),
            received_at_ms: now_s * 1_000,
        };
        Ok((request, signed))
    }

    /// The type and the body to sign.
    fn body(&self, kind: &Provider) -> Result<(String, Vec<u8>), String> {
        let (event_type, text) = match (&self.sample, &self.body, &self.text) {
            (Some(sample), None, None) => {
                let (event_type, text) = sample_of(kind, sample)?;
                // Both sides are filled with the same, or a copy would be no copy.
                (event_type, filled_sample(&text, self.id.as_deref().unwrap_or("id_1"), NOW_S))
            }
            (None, Some(body), None) => (String::new(), body.to_string()),
            (None, None, Some(text)) => (String::new(), text.clone()),
            _ => return Err("a side has one of `sample`, `body` and `text`".to_owned()),
        };
        let event_type = self.event_type.clone().unwrap_or(event_type);
        if !self.is_rewritten {
            return Ok((event_type, text.into_bytes()));
        }
        let body = match serde_json::from_str::<Value>(&text) {
            Ok(json) => self.changed(json)?,
            Err(_) => self.changed_form(text.into_bytes()),
        };
        Ok((event_type, body))
    }

    fn changed(&self, mut json: Value) -> Result<Vec<u8>, String> {
        for (pointer, value) in &self.set {
            put(&mut json, pointer, value).ok_or_else(|| format!("nothing can be set at `{pointer}`"))?;
        }
        for pointer in &self.remove {
            let (parent, last) =
                pointer.rsplit_once('/').ok_or_else(|| format!("`{pointer}` is no pointer"))?;
            let parent = json.pointer_mut(parent).and_then(Value::as_object_mut);
            parent
                .and_then(|parent| parent.remove(last))
                .ok_or_else(|| format!("nothing is at `{pointer}`"))?;
        }
        Ok(json.to_string().into_bytes())
    }

    fn changed_form(&self, mut form: Vec<u8>) -> Vec<u8> {
        for (name, value) in &self.set {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            form = form_with(&form, name.trim_start_matches('/'), &text);
        }
        let removed: Vec<&str> = self.remove.iter().map(|name| name.trim_start_matches('/')).collect();
        let Some(parsed) = Form::parse(&form).filter(|_| !removed.is_empty()) else { return form };
        let left =
            parsed.pairs().iter().filter(|(name, _)| !removed.iter().any(|one| one.as_bytes() == name));
        let mut text = form_urlencoded::Serializer::new(String::new());
        for (name, value) in left {
            text.append_pair(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value));
        }
        text.finish().into_bytes()
    }
}

/// Puts a value at a pointer whose parent is there.
fn put(json: &mut Value, pointer: &str, value: &Value) -> Option<()> {
    let (parent, last) = pointer.rsplit_once('/')?;
    match json.pointer_mut(parent)? {
        Value::Object(members) => {
            members.insert(last.replace("~1", "/").replace("~0", "~"), value.clone());
        }
        Value::Array(list) if last == "-" => list.push(value.clone()),
        Value::Array(list) => *list.get_mut(last.parse::<usize>().ok()?)? = value.clone(),
        other @ Value::Null => *other = Value::Object(Map::from_iter([(last.to_owned(), value.clone())])),
        _ => return None,
    }
    Some(())
}

/// The sample of this type, or of the file of this name: files have `-` where a type has what no file name may.
fn sample_of(kind: &Provider, name: &str) -> Result<(String, String), String> {
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && !"._".contains(c), "-");
    let list = kind.sample_list();
    let found = list.iter().find(|(event_type, _)| *event_type == name);
    let found = found.or_else(|| list.iter().find(|(event_type, _)| plain(event_type) == plain(name)));
    let types: Vec<&str> = list.iter().map(|(event_type, _)| *event_type).collect();
    let (event_type, text) =
        found.ok_or_else(|| format!("no sample is called `{name}`: there are {}", types.join(", ")))?;
    Ok(((*event_type).to_owned(), (*text).to_owned()))
}
