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

use super::frame;
use crate::console::contract::OrderHeaders;
use crate::console::state::ConsoleState;
use crate::console::trouble::Trouble;

/// Largest form that is read. Bytes.
const FORM_BYTES_MAX: usize = 4 << 20;

/// A form that acts.
pub(in crate::console) struct ActForm<'a> {
    /// Address that it is sent to.
    pub(in crate::console) action: &'a str,
    /// Version of the subject, where it has one.
    pub(in crate::console) etag: Option<&'a str>,
    /// The acts to choose from: the word of the contract, and what the button says.
    pub(in crate::console) acts: &'a [(&'a str, &'a str)],
    /// One sentence about what follows.
    pub(in crate::console) hint: &'a str,
}

/// Draws a form with a field for the reason, and a button for each act.
pub(in crate::console) fn act(form: &ActForm<'_>) -> Markup {
    act_with(form, &html! {})
}

/// The same, with more fields in it.
pub(in crate::console) fn act_with(form: &ActForm<'_>, more: &Markup) -> Markup {
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
pub(in crate::console) fn frame(
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
pub(in crate::console) struct SentForm(Vec<(String, String)>);

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
    pub(in crate::console) fn needed(&self, name: &str) -> Result<&str, Trouble> {
        let value = self.optional(name);
        value.ok_or_else(|| Trouble::bad_form(&format!("the form has no `{name}`: open its page again")))
    }

    /// The value of this name, unless it is empty.
    pub(in crate::console) fn optional(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str());
        found.filter(|value| !value.is_empty())
    }

    /// The value of this name as one of the contract's words, such as an act.
    pub(in crate::console) fn word<T: DeserializeOwned>(&self, name: &str) -> Result<T, Trouble> {
        let word = serde_json::Value::from(self.needed(name)?);
        serde_json::from_value(word)
            .map_err(|_| Trouble::bad_form(&format!("the form has another `{name}` than there is")))
    }

    /// The key and the version that the form was drawn with.
    pub(in crate::console) fn headers(&self) -> Result<OrderHeaders, Trouble> {
        let (key, if_match) = (self.needed("key")?, self.optional("if_match"));
        // A version that cannot be sent on must not be left out: the order would hold for any.
        if [Some(key), if_match].into_iter().flatten().any(|value| HeaderValue::from_str(value).is_err()) {
            return Err(Trouble::bad_form("the form has another `key` or `if_match` than it was drawn with"));
        }
        Ok(OrderHeaders { key: Some(key.to_owned()), if_match: if_match.map(str::to_owned) })
    }
}

/// Goes to a page after an act, so that F5 there asks for the page and not for the act.
pub(in crate::console) fn go(address: &str) -> Response {
    Redirect::to(address).into_response()
}
