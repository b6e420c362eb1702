//! The same request once more, signed anew: only where secrets are published, with `serve --dev`.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use maud::{Markup, html};

use super::content::is_cut;
use crate::api::{ContentView, LedgerView};
use crate::console::parts::{copy, list};
use crate::console::state::{SignedAgain, SignedCopy};
use crate::console::visit::Visit;

/// Largest body that is put into a command: a shell takes 128 KiB as one word, in which each byte may need five.
const BODY_BYTES_MAX: usize = 24 << 10;

/// The command, or why there is none; nothing where secrets are secret.
pub(super) async fn again(visit: &Visit, view: &LedgerView, path: &str) -> Option<Markup> {
    let signed_again = visit.state.signed_again.as_ref()?;
    let made = match body_of(visit, view, path).await {
        Ok(body) => signed_again(&SignedAgain {
            provider: &view.event.provider,
            event_id: view.beside_event_id.as_deref().unwrap_or(&view.event.event_id),
            event_type: &view.event.event_type,
            body: &body,
            now_s: visit.now_ms / 1_000,
        }),
        Err(why) => Err(why.to_owned()),
    };
    let is_redacted = view.content.as_ref().is_some_and(|content| content.redacted_n.is_some());
    Some(html! {
        section aria-labelledby="again" {
            h2 id="again" { "Send it once more" }
            @match made {
                Ok(SignedCopy { command, is_duplicate }) => {
                    p {
                        "The stored body, signed now with the published development secret. "
                        @if is_duplicate { "Hooklatch identifies it as this event and answers " code { "duplicate" } ": no call follows. " }
                        @else { strong { "Hooklatch can store it as a new event, and its calls follow again" } ": what is signed does not contain this event’s id. " }
                        "A signature with a time in it is valid for a few minutes; each load of this page makes a new one."
                    }
                    @if is_redacted {
                        p class="note" { "Values were left out of the body before it was stored, so this is other content: a conflict." }
                    }
                    pre id="curl" tabindex="0" role="region" aria-label="Command" { (command) }
                    p { (copy::button("curl", "Copy the command")) }
                },
                Err(why) => (list::nothing(&why)),
            }
        }
    })
}

/// The bytes that were stored, where they can be sent by a command.
async fn body_of(visit: &Visit, view: &LedgerView, path: &str) -> Result<Bytes, &'static str> {
    let content = match (&view.content, view.content_missing.as_deref()) {
        (Some(content), _) => content,
        (None, Some("role")) => return Err("Your role may not see the body, so no command is made of it."),
        (None, _) => return Err("The body is no longer kept, so it cannot be sent once more."),
    };
    if content.unopened.is_some() {
        return Err("The body is kept and does not open, so it cannot be sent once more.");
    }
    if content.body_bytes_n > BODY_BYTES_MAX as u64 {
        return Err(
            "The body is too large for a command: download it, and sign it with `hooklatch sign KIND --body FILE`.",
        );
    }
    if is_whole_text(content) {
        return Ok(Bytes::from(content.body.clone()));
    }
    let answer = visit.ask_raw(&format!("{path}/body")).await;
    let is_good = answer.status().is_success();
    let read = Limited::new(answer.into_body(), BODY_BYTES_MAX).collect().await.ok();
    read.filter(|_| is_good)
        .map(http_body_util::Collected::to_bytes)
        .ok_or("The body could not be read: load the page again.")
}

fn is_whole_text(content: &ContentView) -> bool {
    !content.is_lossy && !is_cut(content)
}
