//! What acts: every form carries a key that was made when it was drawn, so that a double click, a step back and F5 get
//! the stored answer and do nothing twice; and the version of what it was drawn about.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use maud::{Markup, html};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{field, frame, moment};
use crate::contract::OrderHeaders;
use crate::state::ConsoleState;
use crate::trouble::Trouble;
use crate::visit::Visit;
use hooklatch_contract::{JudgedAct, OrderResult, PauseOrder, PauseView, Risk};
use hooklatch_core::times::parse_end;

/// Largest form that is read. Bytes.
const FORM_BYTES_MAX: usize = 4 << 20;

/// A form that acts.
pub(crate) struct ActForm<'a> {
    /// Address that it is sent to.
    pub action: &'a str,
    /// Version of the subject, where it has one.
    pub etag: Option<&'a str>,
    /// The acts to choose from: the word of the contract, and what the button says.
    pub acts: &'a [(&'a str, &'a str)],
    /// One sentence about what follows.
    pub hint: &'a str,
}

/// Draws a form with more fields, one for the reason, and a button for each act.
pub(crate) fn act(form: &ActForm<'_>, more: &Markup) -> Markup {
    let buttons = html! {
        div class="buttons" {
            @for (word, label) in form.acts { button type="submit" name="act" value=(word) { (label) } }
        }
        @if !form.hint.is_empty() { p class="hint" { (form.hint) } }
    };
    frame("act", (form.action, form.etag), more, &buttons)
}

/// A form that acts: its own fields, one for the reason, and then what has the buttons. Enter presses the first button of a
/// form, and nothing where that is disabled: whoever acts presses the button itself.
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

impl FromRequest<Arc<ConsoleState>> for SentForm {
    type Rejection = Response;

    /// Takes forms that one of our own pages sent, and no others: the guard of the listener has compared `Origin` and
    /// `Sec-Fetch-Site` where they are there, and a browser that sends a form sends one of them.
    async fn from_request(request: Request<Body>, state: &Arc<ConsoleState>) -> Result<Self, Response> {
        let refused = |trouble: Trouble| frame::lonely(state, &trouble);
        if !is_of_a_page(request.headers()) {
            let title = "forms are taken from our own pages: send orders of programs to `/v1`";
            return Err(refused(Trouble::new(StatusCode::FORBIDDEN, "origin_unknown", title)));
        }
        let read = Limited::new(request.into_body(), FORM_BYTES_MAX).collect().await;
        let body = read.map_err(|_| {
            let title = "the form is too large, or did not arrive whole";
            refused(Trouble::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", title))
        })?;
        Ok(Self::parse(&body.to_bytes()))
    }
}

/// True when a browser says that a page of this origin sends it.
fn is_of_a_page(headers: &HeaderMap) -> bool {
    let is_same = headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
    is_same || headers.contains_key(header::ORIGIN)
}

impl SentForm {
    /// Reads what a browser sends for a form.
    fn parse(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).into_owned().collect())
    }

    /// The value of this name, which must be there.
    pub(crate) fn needed(&self, name: &str) -> Result<&str, Trouble> {
        let value = self.optional(name);
        value.ok_or_else(|| Trouble::bad_form(&format!("the form has no `{name}`: open its page again")))
    }

    /// The value of this name, unless it is empty.
    pub(crate) fn optional(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str());
        found.filter(|value| !value.is_empty())
    }

    /// The value of this name as one of the contract's words, such as an act.
    pub(crate) fn word<T: DeserializeOwned>(&self, name: &str) -> Result<T, Trouble> {
        let word = serde_json::Value::from(self.needed(name)?);
        serde_json::from_value(word)
            .map_err(|_| Trouble::bad_form(&format!("the form has another `{name}` than there is")))
    }

    /// The key and the version that the form was drawn with.
    pub(crate) fn headers(&self) -> Result<OrderHeaders, Trouble> {
        let (key, if_match) = (self.needed("key")?, self.optional("if_match"));
        // A version that cannot be sent on must not be left out: the order would hold for any.
        if [Some(key), if_match].into_iter().flatten().any(|value| HeaderValue::from_str(value).is_err()) {
            return Err(Trouble::bad_form("the form has another `key` or `if_match` than it was drawn with"));
        }
        Ok(OrderHeaders { key: Some(key.to_owned()), if_match: if_match.map(str::to_owned) })
    }
}

/// Goes to a page after an act, so that F5 there asks for the page and not for the act.
pub(crate) fn go(address: &str) -> Response {
    Redirect::to(address).into_response()
}

/// A form with a button for each act that was judged.
pub(crate) struct JudgedForm<'a, A> {
    /// Address that it is sent to.
    pub action: &'a str,
    /// Version of the subject.
    pub etag: Option<&'a str>,
    /// The acts, the safest first.
    pub acts: &'a [JudgedAct<A>],
    /// The word of the contract for an act, and what its button says.
    pub(crate) button: fn(A) -> (&'static str, &'static str),
}

/// Draws the form: one reason, and beside each button what its act does and what that risks.
pub(crate) fn judged<A: Copy>(form: &JudgedForm<'_, A>) -> Markup {
    let buttons = html! {
        @for one in form.acts {
            @let (word, label) = (form.button)(one.act);
            @let id = format!("act-{word}");
            div class="judgement" {
                button type="submit" name="act" value=(word) class=[(one.risk != Risk::None).then_some("danger")]
                    aria-describedby=(id) { (label) }
                p id=(id) {
                    @if one.risk != Risk::None { strong { (one.risk.in_words()) ". " } }
                    (moment::coded(&one.sentence))
                }
            }
        }
    };
    frame("act judged", (form.action, form.etag), &html! {}, &buttons)
}

const PAUSE: &[(&str, &str)] = &[("pause", "Pause")];
const RESUME: &[(&str, &str)] = &[("resume", "Resume")];

/// The sentence about who paused it, why, and until when; empty where nobody did.
pub(crate) fn pause_note(visit: &Visit, pause: Option<&PauseView>) -> Markup {
    html! {
        @if let Some(pause) = pause {
            p class="note" {
                (moment::foreign(&pause.actor)) " paused it at " (moment::moment(pause.paused_at_ms, visit.now_ms)) ": "
                (moment::foreign(&pause.reason))
                @if let Some(until_ms) = pause.until_ms { ". It resumes by itself at " (moment::moment(until_ms, visit.now_ms)) "." }
            }
        }
    }
}

/// The form, at the page `page`: folded away where nothing is paused. `hints` are what follows from a pause, and from its end.
pub(crate) fn pause_section(
    visit: &Visit,
    page: &str,
    (pause, etag): (Option<&PauseView>, Option<&str>),
    hints: [&str; 2],
) -> Markup {
    let [pausing, resuming] = hints;
    let (acts, hint) = if pause.is_none() { (PAUSE, pausing) } else { (RESUME, resuming) };
    let until = field::time("until", "Resumes by itself at (UTC); empty: never", None);
    let more = if pause.is_none() {
        until
    } else {
        html! {}
    };
    let action = visit.link(&format!("{page}/decide"));
    let form = act(&ActForm { action: &action, etag, acts, hint }, &more);
    html! {
        section id="decide" aria-label="What to do" {
            @if pause.is_some() { (form) }
            @else { details class="fold" { summary { "Pause …" } (form) } }
        }
    }
}

/// Carries out the form: an order about what has this path in the contract.
pub(crate) async fn pause_order(visit: &Visit, subject: &str, form: &SentForm) -> Result<(), Trouble> {
    let until_ms = form.optional("until").map(|text| parse_end(text, visit.now_ms)).transpose();
    let until_ms = until_ms.map_err(|why| Trouble::bad_form(&why))?;
    let order = PauseOrder { act: form.word("act")?, reason: form.needed("reason")?.to_owned(), until_ms };
    visit.order::<OrderResult>(&format!("{subject}/decide"), &form.headers()?, &order).await.map(drop)
}
