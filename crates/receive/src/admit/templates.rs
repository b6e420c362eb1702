//! Fills in the templates of destinations, once, at admission: what a message says is frozen with its key, so
//! that every attempt sends the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::{Value, context};

use super::dispatch::off_the_workers;
use crate::handler::{Effects, Handled, HandlerError, Message, RawEvent};
use hooklatch_core::config::DestinationConfig;
use hooklatch_core::json::{Document, exact_value};
use hooklatch_core::template::{self, Escape, Limits, RenderError, Template, climbs, is_template};
use hooklatch_core::types::Name;

/// The destinations of one configuration, and the templates of every one that has any.
#[derive(Debug, Default)]
pub struct Templates {
    parts: BTreeMap<String, Parts>,
    names: BTreeSet<String>,
}

/// Largest envelope that templates see: they parse all of it, and that takes several times as much memory. Bytes.
const ENVELOPE_BYTES_MAX: usize = 4 << 20;

#[derive(Debug)]
struct Parts {
    method: Option<Template>,
    url: Option<Template>,
    body: Option<(Template, String)>,
    /// The key of the first template that reads the envelope: nothing of it is parsed for the others.
    envelope_in: Option<&'static str>,
}

impl Parts {
    fn new(method: Option<Template>, url: Option<Template>, body: Option<(Template, String)>) -> Self {
        let all = [
            ("method", method.as_ref()),
            ("url", url.as_ref()),
            ("body", body.as_ref().map(|(body, _)| body)),
        ];
        let reads = |template: Option<&Template>| template.is_some_and(|one| one.reads("envelope"));
        let envelope_in = all.into_iter().find(|(_, one)| reads(*one)).map(|(key, _)| key);
        Self { method, url, body, envelope_in }
    }
}

/// The reason why a destination's template cannot be filled in for an event.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("template of destination `{destination}`, {part}: {why}")]
pub struct TemplateError {
    /// Name of the destination.
    pub destination: String,
    /// Its key that is a template: `url`, `method` or `body`; `template` for any of them.
    pub part: &'static str,
    /// What is wrong, without values.
    pub why: String,
    /// The names that the template uses and the event lacks.
    pub missing: Vec<String>,
    /// True when it passed its limits: with higher ones it may be filled in.
    pub is_over: bool,
}

impl TemplateError {
    fn new(destination: &str, part: &'static str, why: String) -> Self {
        Self { destination: destination.to_owned(), part, why, missing: Vec::new(), is_over: false }
    }
}

/// How templates are filled in for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rendering {
    /// Not now: whether it is new is not known yet, or it is too large for others to wait.
    Later,
    /// While other events wait for it: what takes longer is left for later.
    Shared,
    /// While nothing else waits.
    Alone,
}

/// The error of an event of which the templates are to be filled in later, with nothing else waiting for it.
#[derive(Debug, thiserror::Error)]
#[error(
    "its templates take longer or make more than there is room for beside other events; it is dispatched alone, at once"
)]
pub(super) struct RenderAlone;

impl Templates {
    /// Reads those of all destinations; the error names the destination and says what is wrong.
    pub fn new(destinations: &BTreeMap<Name, DestinationConfig>) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for (name, config) in destinations {
            let wrong = |why: String| format!("template of destination `{name}`: {why}");
            let method = parsed(config.http.method.as_ref(), Escape::Nothing).map_err(wrong)?;
            let url = parsed(Some(&config.url).filter(|url| is_template(url)), Escape::Url).map_err(wrong)?;
            let body = match &config.http.body {
                Some(body) => {
                    let escape = Escape::of_content_type(&body.content_type);
                    let template = Template::parse(&body.template, escape).map_err(wrong)?;
                    Some((template, body.content_type.clone()))
                }
                None => None,
            };
            let parts = Parts::new(method, url, body);
            if parts.method.is_some() || parts.url.is_some() || parts.body.is_some() {
                all.insert(name.to_string(), parts);
            }
        }
        Ok(Self { parts: all, names: destinations.keys().map(ToString::to_string).collect() })
    }

    /// Fills in what `effects` send to destinations with templates, where they go there. `key_of` returns the
    /// idempotency key of an effect.
    pub(super) fn fill_now(
        &self,
        event: &RawEvent,
        effects: Effects,
        rendering: Rendering,
        key_of: impl Fn(&str) -> String,
    ) -> Handled {
        if !effects.messages().iter().any(|message| self.parts.contains_key(&message.destination)) {
            return Ok(effects);
        }
        let limits = match rendering {
            Rendering::Later => return Err(HandlerError::Retry(RenderAlone.into())),
            Rendering::Shared => Limits::shared(),
            Rendering::Alone => Limits::alone(),
        };
        let fill = || self.fill(event, effects, limits, key_of);
        let filled = if rendering == Rendering::Alone { off_the_workers(fill) } else { fill() };
        filled.map_err(|error| match rendering {
            Rendering::Shared if error.is_over => HandlerError::Retry(RenderAlone.into()),
            _ => HandlerError::Refused(error.to_string()),
        })
    }

    /// True for a destination that there is.
    pub fn has(&self, destination: &str) -> bool {
        self.names.contains(destination)
    }

    /// Fills in what `effects` send to destinations with templates, within `limits`, of which the time is that of all
    /// of them. The error is for people, and stays with the event.
    pub fn fill(
        &self,
        event: &RawEvent,
        mut effects: Effects,
        limits: Limits,
        key_of: impl Fn(&str) -> String,
    ) -> Result<Effects, TemplateError> {
        let (mut payload, mut envelope) = (None, None);
        for message in effects.messages_mut() {
            let Some(parts) = self.parts.get(&message.destination) else { continue };
            let inexact = |why| TemplateError::new(&message.destination, "template", why);
            let payload = match &payload {
                Some(payload) => payload,
                None => payload.insert(exact(&event.payload).map_err(inexact)?),
            };
            let envelope = match parts.envelope_in {
                None => Value::from(()),
                Some(part) => {
                    let text = event.envelope.bytes();
                    if text.len() > ENVELOPE_BYTES_MAX {
                        let why = format!(
                            "templates see no `envelope` of more than {ENVELOPE_BYTES_MAX} bytes, and this one has {}",
                            text.len()
                        );
                        return Err(TemplateError::new(&message.destination, part, why));
                    }
                    match &envelope {
                        Some(envelope) => Value::clone(envelope),
                        None => envelope.insert(exact(text).map_err(inexact)?).clone(),
                    }
                }
            };
            let values =
                values(event, (payload, &envelope), message, &key_of(&message.name)).map_err(inexact)?;
            parts.fill(message, &values, limits)?;
        }
        Ok(effects)
    }
}

#[cfg(test)]
impl Templates {
    /// Destinations without templates.
    pub(crate) fn of_names<const N: usize>(names: [&str; N]) -> Self {
        Self { names: names.into_iter().map(str::to_owned).collect(), ..Self::default() }
    }
}

fn parsed(text: Option<&String>, escape: Escape) -> Result<Option<Template>, String> {
    text.map(|text| Template::parse(text, escape)).transpose()
}

/// The values that templates may use.
fn values(
    event: &RawEvent,
    (payload, envelope): (&Value, &Value),
    message: &Message,
    idempotency_key: &str,
) -> Result<Value, String> {
    let headers: BTreeMap<&str, String> = event.headers.all().collect();
    let body = message.body.as_ref().map_or(Ok(Value::from(())), |body| exact(body))?;
    Ok(context! {
        idempotency_key => idempotency_key,
        event => context! {
            provider => event.provider.as_str(), id => &event.event_id, type => &event.event_type,
            received_at_ms => event.received_at_ms,
        },
        payload => payload,
        envelope => envelope,
        headers => headers,
        message => context! {
            name => &message.name, method => &message.method, path => &message.path,
            body => body,
        },
    })
}

/// A JSON text as templates have it; `null` for what is no JSON. The error says what in it they would change.
fn exact(text: &[u8]) -> Result<Value, String> {
    match exact_value(text) {
        Ok(json) => Ok(template::values(&json)),
        Err(why) if Document::parse(text).is_some() => {
            Err(format!("templates would change the event, which has {why}; write a handler for it"))
        }
        Err(_) => Ok(Value::from(())),
    }
}

impl Parts {
    /// The error says which part does not fit, why, and which names the values lack.
    fn fill(&self, message: &mut Message, values: &Value, limits: Limits) -> Result<(), TemplateError> {
        let destination = message.destination.clone();
        let render = |part, template: &Template, limits| {
            template.render(values, limits).map_err(|RenderError { why, is_over }| TemplateError {
                missing: template.missing(values),
                is_over,
                ..TemplateError::new(&destination, part, why)
            })
        };
        let misfit = |part, why: &str| TemplateError::new(&destination, part, why.to_owned());
        if let Some(template) = &self.url {
            let url = render("url", template, limits.for_url())?;
            if climbs(&url) {
                return Err(misfit("url", "a value is `.` or `..`, which would climb out of its path"));
            }
            if template.lacks_segment(&url) {
                return Err(misfit(
                    "url",
                    "a value is empty or null where it is a whole segment of the path",
                ));
            }
            if url.parse::<http::Uri>().is_err() {
                return Err(misfit("url", "the result is not an address"));
            }
            message.path = url;
        }
        if let Some(template) = &self.method {
            let method = render("method", template, limits.for_method())?.trim().to_owned();
            if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
                return Err(misfit("method", "the result is not a method in capitals"));
            }
            message.method = method;
        }
        if let Some((template, content_type)) = &self.body {
            message.body = Some(render("body", template, limits)?.into());
            message.headers.insert("content-type".to_owned(), content_type.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
impl Templates {
    /// One template, of the bodies of this destination.
    pub(crate) fn example(destination: &str, body: &str) -> Self {
        let body = Template::parse(body, Escape::Nothing).expect("a template");
        let parts = Parts::new(None, None, Some((body, "text/plain".to_owned())));
        let names = BTreeSet::from([destination.to_owned()]);
        Self { parts: BTreeMap::from([(destination.to_owned(), parts)]), names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::{Envelope, Headers};

    fn filled(
        url: &str,
        method: Option<&str>,
        body: Option<&str>,
        payload: &str,
    ) -> Result<Message, TemplateError> {
        let envelope = format!("{{\"account\":\"acct_1\",\"data\":{payload}}}");
        let template = |text: &str, escape| Template::parse(text, escape).expect("a template");
        let parts = Parts::new(
            method.map(|text| template(text, Escape::Nothing)),
            Some(template(url, Escape::Url)),
            body.map(|text| (template(text, Escape::Json), "application/json".to_owned())),
        );
        let parts = BTreeMap::from([("far".to_owned(), parts)]);
        let templates = Templates { parts, names: BTreeSet::new() };
        let event = RawEvent {
            provider: Name::parse("stripe").expect("a name"),
            event_id: "evt/1".to_owned(),
            event_type: "invoice.paid".to_owned(),
            payload: payload.as_bytes().to_vec().into(),
            envelope: Envelope::new(envelope.into()),
            headers: Headers::of([("x-tenant", "t 1")]),
            received_at_ms: 7,
            attempt_n: 1,
            ahead: crate::handler::ParsedAhead::default(),
        };
        let mut effects = templates
            .fill(&event, Effects::new().forward("far"), Limits::alone(), |name| format!("key-{name}"))?;
        Ok(std::mem::replace(&mut effects.messages_mut()[0], Message::to("none")))
    }

    #[test]
    fn a_message_is_made_of_its_event() {
        let message = filled(
            "https://far.test/{{ event.id }}/{{ idempotency_key }}",
            Some("{{ 'DELETE' if payload.gone else 'PUT' }}"),
            Some(r#"{"who":{{ payload.who }},"type":{{ event.type }}}"#),
            r#"{"who":"A \"B\"","gone":true}"#,
        )
        .expect("filled in");
        assert_eq!(
            (message.method.as_str(), message.path.as_str()),
            ("DELETE", "https://far.test/evt%2F1/key-far")
        );
        assert_eq!(message.body.as_deref(), Some(br#"{"who":"A \"B\"","type":"invoice.paid"}"#.as_slice()));
        assert_eq!(message.headers["content-type"], "application/json");
    }

    #[test]
    fn a_template_reads_envelope_and_headers() {
        let url = "https://far.test/{{ envelope.account }}/{{ headers['x-tenant'] }}/{{ payload.id }}";
        let message = filled(url, None, None, r#"{"id":7}"#).expect("filled in");
        assert_eq!(message.path, "https://far.test/acct_1/t%201/7");
    }

    #[test]
    fn a_template_that_uses_an_envelope_above_4_mib_fails_with_the_reason() {
        let large = format!("{{\"id\":7,\"x\":\"{}\"}}", "x".repeat(ENVELOPE_BYTES_MAX));
        let url = "https://far.test/{{ payload.id }}";
        assert_eq!(filled(url, None, None, &large).expect("filled in").path, "https://far.test/7");
        let why =
            filled("https://far.test/{{ envelope.account }}", None, None, &large).expect_err("too large");
        let want =
            "template of destination `far`, url: templates see no `envelope` of more than 4194304 bytes";
        assert!(why.to_string().starts_with(want), "{why}");
    }

    #[test]
    fn an_event_that_does_not_fit_its_template_fails_with_the_reason() {
        #[track_caller]
        fn check(url: &str, method: Option<&str>, payload: &str, want: &str) {
            let why = filled(url, method, None, payload).expect_err(want).to_string();
            assert!(why.starts_with("template of destination `far`, ") && why.contains(want), "{why}");
            assert!(!why.contains("canary"), "values are not shown: {why}");
        }
        check(
            "https://far.test/{{ payload.id }}",
            None,
            "{}",
            "url: undefined value in line 1: there is no `payload.id`",
        );
        check("https://far.test/{{ payload.id }}/x", None, r#"{"id":".."}"#, "would climb");
        // A guest has no customer: "delete this one" must not become "delete all of them".
        for payload in [r#"{"id":null}"#, r#"{"id":""}"#] {
            check("https://far.test/customers/{{ payload.id }}", None, payload, "empty or null");
        }
        // A template that has defaults must not take "cannot be read" for "is not there".
        for payload in [
            r#"{"id":1,"note":"\ud83d"}"#,
            r#"{"id":1,"n":1e400}"#,
            r#"{"id":1,"rate":0.123456789012345678}"#,
            r#"{"id":1,"id":2}"#,
            &format!(r#"{{"id":1,"deep":{}{}}}"#, "[".repeat(200), "]".repeat(200)),
        ] {
            check("https://far.test/{{ payload.id | default(0) }}", None, payload, "would change the event");
        }
        check("https://{{ payload.host }}/x", None, r#"{"host":"canary/evil"}"#, "not an address");
        check("https://far.test/", Some("{{ payload.m }}"), r#"{"m":"canary"}"#, "not a method");
    }
}
