//! What the contract says of a message, and the acts on it with what each risks: no sentence of these is the console's.

use maud::{Markup, html};

use super::form::frame;
use super::moment;
use crate::api::{JudgedAct, Risk};

/// A form with a button for each act that was judged.
pub(in crate::console) struct JudgedForm<'a, A> {
    /// Address that it is sent to.
    pub(in crate::console) action: &'a str,
    /// Version of the subject.
    pub(in crate::console) etag: Option<&'a str>,
    /// The acts, the safest first.
    pub(in crate::console) acts: &'a [JudgedAct<A>],
    /// The word of the contract for an act, and what its button says.
    pub(in crate::console) button: fn(A) -> (&'static str, &'static str),
}

/// Draws the form: one reason, and beside each button what its act does and what that risks.
pub(in crate::console) fn form<A: Copy>(form: &JudgedForm<'_, A>) -> Markup {
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
