//! The second of two steps: the page of one act on all that a filter finds. It says what follows and what that risks, and
//! the number has to be typed.

use axum::extract::{Path, RawQuery};
use axum::response::Response;
use maud::{Markup, html};

use super::chosen::Chosen;
use super::{figures, new};
use crate::api::{OperationPreview, PreviewedAct, Risk};
use crate::console::parts::frame::Place;
use crate::console::parts::{field, form, link};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::figures::grouped;
use crate::plain;

pub(super) async fn show(visit: Visit, Path(act): Path<String>, raw: RawQuery) -> Response {
    let made = match Chosen::asked(visit.now_ms, &field::values(&raw)) {
        Ok(chosen) => draw(&visit, &chosen, &act, &html! {}).await,
        Err(trouble) => Err(trouble),
    };
    visit.answer(Place::Operations, made)
}

/// The title and the page of an act; `notice` stands first.
pub(super) async fn draw(
    visit: &Visit,
    chosen: &Chosen,
    act: &str,
    notice: &Markup,
) -> Result<(String, Markup), Trouble> {
    chosen.subject(act)?;
    if !chosen.has_acts() {
        return Ok(("New operation".to_owned(), new::no_acts()));
    }
    let preview = new::preview(visit, chosen).await?;
    if let Some(nothing) = new::nothing_to_choose(visit, &preview) {
        let body = html! { (notice) (figures::found(visit, chosen, &preview.figures)) (nothing) };
        return Ok(("New operation".to_owned(), body));
    }
    let Some(act) = preview.acts.iter().find(|one| one.act == act) else {
        return Err(Trouble::bad_form("this cannot be done to what stands in this state"));
    };
    // The head of a page has no other guard against text that turns it around.
    let title = format!("{}: {}", act.label, plain::line(&chosen.words(preview.figures.counted_n)));
    let body = html! {
        (notice)
        (figures::found(visit, chosen, &preview.figures))
        (figures::recent(&preview))
        (what_follows(visit, act))
        @if preview.approvals_n > 1 { p { "Another person has to approve it before it begins." } }
        (confirm(visit, chosen, act, &preview))
        p { a href=(visit.link(&chosen.page(None))) { "Back: do something else, or nothing" } }
        (other_erasure(visit, chosen, act, &preview.acts))
        (figures::samples(visit, &preview))
    };
    Ok((title, body))
}

/// What the act does to all of them, and what that risks.
pub(super) fn what_follows(visit: &Visit, act: &PreviewedAct) -> Markup {
    html! {
        p class=(if act.is_dangerous() { "trouble" } else { "note" }) {
            @if act.risk != Risk::None { strong { (act.risk.in_words()) ". " } }
            (act.sentence)
        }
        @if let Some(steps) = &act.steps { p { (steps.in_words()) } }
        @if let Some(id) = &act.same_operation_id {
            p class="trouble" role="alert" {
                "The same was ordered before: operation " (link::operation(visit, id))
                " does the same, or does it to some of the same rows, and is unfinished or ended less than 10 minutes ago."
            }
        }
    }
}

/// The form that begins it, about this number of rows and no other.
fn confirm(visit: &Visit, chosen: &Chosen, act: &PreviewedAct, preview: &OperationPreview) -> Markup {
    let counted_n = preview.figures.counted_n;
    let is_again = act.same_operation_id.is_some();
    let label = act.label.replace(" them", &format!(" {}", grouped(counted_n)));
    let fields = html! {
        input type="hidden" name="subject" value=(chosen.list());
        @for (name, value) in chosen.fields() { input type="hidden" name=(name) value=(value); }
        input type="hidden" name="counted_n" value=(counted_n);
        input type="hidden" name="set" value=(preview.set);
        (typed_field(counted_n))
    };
    let buttons = html! {
        @if is_again {
            label class="check" {
                input type="checkbox" name="again" value="true" required;
                span { "Do it once more, although the same was ordered before" }
            }
        }
        div class="buttons" {
            button type="submit" name="act" value=(act.act) class=(if act.is_dangerous() { "main danger" } else { "main" }) {
                (label)
            }
        }
        p class="hint" {
            "It begins only if these are still the same rows, goes on when you leave, and can be cancelled while it runs."
        }
    };
    let class = if act.is_dangerous() { "act dangerous" } else { "act" };
    form::frame(class, (&visit.link("/operations"), None), &fields, &buttons)
}

/// The field in which the number is typed.
pub(super) fn typed_field(counted_n: u64) -> Markup {
    html! {
        label { span { "To confirm, type the number " strong { (counted_n) } }
            input type="text" name="typed_n" inputmode="numeric" required maxlength="12" autocomplete="off";
        }
    }
}

/// The way from one erasure to the other.
fn other_erasure(visit: &Visit, chosen: &Chosen, act: &PreviewedAct, acts: &[PreviewedAct]) -> Markup {
    let is_erasure = |word: &str| new::ERASURES.contains(&word);
    let other = acts.iter().find(|one| is_erasure(&one.act) && one.act != act.act && is_erasure(&act.act));
    html! {
        @if let Some(other) = other {
            p class="hint" { "Another act: " a href=(visit.link(&chosen.page(Some(&other.act)))) { (other.label) "…" } }
        }
    }
}
