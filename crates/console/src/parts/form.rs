//! What acts: every form carries a key that was made when it was drawn, so that a double click, a step back and F5 get
//! the stored answer and do nothing twice; and the version of what it was drawn about.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use maud::{Markup, html};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use uuid::Uuid;

use super::{list, text};
use crate::page::PageError;
use crate::visit::{OrderHeaders, Visit};
use hooklatch_contract::{JudgedAct, Order, PauseOrder, PauseView, Risk};
use hooklatch_core::times::parse_end;
use hooklatch_core::types::Role;

/// Largest form that is read. Bytes.
const FORM_BYTES_MAX: usize = 4 << 20;

/// Draws a form with the fields `more`, one for the reason, a button for each act (the word of the contract, and its
/// label), and a sentence about what follows.
pub(crate) fn act(
    action: &str,
    etag: Option<&str>,
    acts: &[(&str, &str)],
    hint: &str,
    more: &Markup,
) -> Markup {
    let buttons = html! {
        div class="buttons" {
            @for (word, label) in acts { button type="submit" name="act" value=(word) { (label) } }
        }
        @if !hint.is_empty() { p class="hint" { (hint) } }
    };
    frame("act", (action, etag), more, &buttons)
}

/// A form that acts: its own fields, one for the reason, and then its buttons. Enter presses the first button of a
/// form, and does nothing where that is disabled: so a user has to press the button itself.
pub(crate) fn frame(
    class: &str,
    (action, etag): (&str, Option<&str>),
    fields: &Markup,
    buttons: &Markup,
) -> Markup {
    html! {
        form class=(class) method="post" action=(action) {
            button class="unseen" type="submit" disabled aria-hidden="true" {}
            input type="hidden" name="key" value=(Uuid::new_v4());
            @if let Some(etag) = etag { input type="hidden" name="if_match" value=(etag); }
            (fields)
            label { span { "Reason, for the audit log" }
                input type="text" name="reason" required maxlength="255" autocomplete="off";
            }
            (buttons)
        }
    }
}

/// A form as it was sent.
pub(crate) struct SentForm(Vec<(String, String)>);

impl<S: Sync> FromRequest<S> for SentForm {
    type Rejection = PageError;

    /// Takes forms that one of our own pages sent, and no others: the guard of the listener has compared `Origin` and
    /// `Sec-Fetch-Site` where they are there, and a browser that sends a form sends one of them.
    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, PageError> {
        let headers = request.headers();
        let is_same_origin = headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
        if !is_same_origin && !headers.contains_key(header::ORIGIN) {
            let why = "forms are taken from our own pages: send orders of programs to `/v1`";
            return Err(PageError::new(StatusCode::FORBIDDEN, "origin_unknown", why));
        }
        let read = Limited::new(request.into_body(), FORM_BYTES_MAX).collect().await;
        let body = read.map_err(|_| {
            let why = "the form is too large, or did not arrive whole";
            PageError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", why)
        })?;
        Ok(Self(form_urlencoded::parse(&body.to_bytes()).into_owned().collect()))
    }
}

impl SentForm {
    /// The value of this name, which must be there.
    pub(crate) fn needed(&self, name: &str) -> Result<&str, PageError> {
        let value = self.optional(name);
        value.ok_or_else(|| PageError::bad_form(&format!("the form has no `{name}`: open its page again")))
    }

    /// The value of this name, unless it is empty.
    pub(crate) fn optional(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str());
        found.filter(|value| !value.is_empty())
    }

    /// The value of this name as one of the contract's words, such as an act.
    pub(crate) fn word<T: DeserializeOwned>(&self, name: &str) -> Result<T, PageError> {
        let word = serde_json::Value::from(self.needed(name)?);
        serde_json::from_value(word)
            .map_err(|_| PageError::bad_form(&format!("the form has another `{name}` than there is")))
    }

    /// The key and the version that the form was drawn with.
    pub(crate) fn headers(&self) -> Result<OrderHeaders, PageError> {
        let (key, if_match) = (self.needed("key")?, self.optional("if_match"));
        // A version that cannot be sent on must not be left out: the order would hold for any.
        if [Some(key), if_match].into_iter().flatten().any(|value| HeaderValue::from_str(value).is_err()) {
            return Err(PageError::bad_form(
                "the form has another `key` or `if_match` than it was drawn with",
            ));
        }
        Ok(OrderHeaders { key: Some(key.to_owned()), if_match: if_match.map(str::to_owned) })
    }
}

/// Redirects to a page after an act, so that F5 there reloads the page and does not repeat the act.
pub(crate) fn go(address: &str) -> Response {
    Redirect::to(address).into_response()
}

/// Posts the order of a form and redirects to the page about its subject.
pub(crate) async fn post(
    visit: &Visit,
    page: &str,
    target: &str,
    form: &SentForm,
    order: Result<impl Serialize, PageError>,
) -> Result<Response, PageError> {
    let posted = async { visit.post::<IgnoredAny>(target, &form.headers()?, &order?).await };
    posted.await.map_err(|error| error.about(page))?;
    Ok(go(&visit.link(page)))
}

/// Carries out a form that decides about one event or one message, whose path here and in the contract is `page`.
pub(crate) async fn decide<A: DeserializeOwned + Serialize>(
    visit: &Visit,
    page: &str,
    form: &SentForm,
) -> Result<Response, PageError> {
    let order = || Ok(Order::<A> { act: form.word("act")?, reason: form.needed("reason")?.to_owned() });
    post(visit, page, &format!("{page}/decide"), form, order()).await
}

/// Carries out the form that pauses or resumes what has the path `subject` in the contract.
pub(crate) async fn decide_pause(
    visit: &Visit,
    page: &str,
    subject: &str,
    form: &SentForm,
) -> Result<Response, PageError> {
    let until_ms = || form.optional("until").map(|text| parse_end(text, visit.now_ms)).transpose();
    let order = || {
        Ok(PauseOrder {
            act: form.word("act")?,
            reason: form.needed("reason")?.to_owned(),
            until_ms: until_ms().map_err(|why| PageError::bad_form(&why))?,
        })
    };
    post(visit, page, &format!("{subject}/decide"), form, order()).await
}

/// Draws a form with a button for each act that was judged, the safest first: one reason, and beside each button what
/// its act does and what that risks. `button` is the word of the contract for an act, and the label of its button.
pub(crate) fn judged<A: Copy>(
    action: &str,
    etag: Option<&str>,
    acts: &[JudgedAct<A>],
    button: fn(A) -> (&'static str, &'static str),
) -> Markup {
    let buttons = html! {
        @for one in acts {
            @let (word, label) = button(one.act);
            @let id = format!("act-{word}");
            div class="judgement" {
                button type="submit" name="act" value=(word) class=[(one.risk != Risk::None).then_some("danger")]
                    aria-describedby=(id) { (label) }
                p id=(id) {
                    @if one.risk != Risk::None { strong { (one.risk.in_words()) ". " } }
                    (text::coded(&one.sentence))
                }
            }
        }
    };
    frame("act judged", (action, etag), &html! {}, &buttons)
}

const PAUSE: &[(&str, &str)] = &[("pause", "Pause")];
const RESUME: &[(&str, &str)] = &[("resume", "Resume")];

/// Who paused it, why and until when, where it is paused; and for those who may, the form at the page `page`, folded
/// away where nothing is paused. `hints` are what follows from a pause, and from its end.
pub(crate) fn pause_section(
    visit: &Visit,
    page: &str,
    pause: Option<&PauseView>,
    etag: Option<&str>,
    hints: [&str; 2],
) -> Markup {
    let [pausing, resuming] = hints;
    let (acts, hint) = if pause.is_none() { (PAUSE, pausing) } else { (RESUME, resuming) };
    let until = list::time_field("until", "Resumes by itself at (UTC); empty: never", None);
    let more = html! { @if pause.is_none() { (until) } };
    let action = visit.link(&format!("{page}/decide"));
    let form = act(&action, etag, acts, hint, &more);
    html! {
        @if let Some(pause) = pause {
            p class="note" {
                (text::foreign(&pause.actor)) " paused it at " (text::moment(pause.paused_at_ms, visit.now_ms)) ": "
                (text::foreign(&pause.reason))
                @if let Some(until_ms) = pause.until_ms { ". It resumes by itself at " (text::moment(until_ms, visit.now_ms)) "." }
            }
        }
        @if visit.may(Role::Operator) {
            section id="decide" aria-label="What to do" {
                @if pause.is_some() { (form) }
                @else { details class="fold" { summary { "Pause …" } (form) } }
            }
        }
    }
}
