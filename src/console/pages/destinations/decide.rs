//! Takes the form that pauses or resumes a destination.

use axum::extract::Path;
use axum::response::Response;

use crate::api::{DestinationOrder, OrderResult};
use crate::console::contract::path;
use crate::console::parts::form::{self, SentForm};
use crate::console::parts::frame::Place;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::times::parse_end;

pub(super) async fn decide(visit: Visit, Path(name): Path<String>, form: SentForm) -> Response {
    let page = path(&["destinations", &name]);
    match order(&visit, &page, &form).await {
        Ok(()) => form::go(&visit.link(&page)),
        Err(trouble) => visit.trouble(Place::Destinations, &trouble.about(&page)),
    }
}

async fn order(visit: &Visit, page: &str, form: &SentForm) -> Result<(), Trouble> {
    let until_ms = form.optional("until").map(|text| parse_end(text, visit.now_ms)).transpose();
    let until_ms = until_ms.map_err(|why| Trouble::bad_form(&why))?;
    let order =
        DestinationOrder { act: form.word("act")?, reason: form.needed("reason")?.to_owned(), until_ms };
    visit.order::<OrderResult>(&format!("{page}/decide"), &form.headers()?, &order).await.map(drop)
}
