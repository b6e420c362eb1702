//! Takes the form that pauses or resumes a destination.

use axum::extract::Path;
use axum::response::Response;

use crate::console::contract::path;
use crate::console::parts::form::{self, SentForm};
use crate::console::parts::frame::Place;
use crate::console::parts::pause;
use crate::console::visit::Visit;

pub(super) async fn decide(visit: Visit, Path(name): Path<String>, form: SentForm) -> Response {
    let page = path(&["destinations", &name]);
    match pause::order(&visit, &page, &form).await {
        Ok(()) => form::go(&visit.link(&page)),
        Err(trouble) => visit.trouble(Place::Destinations, &trouble.about(&page)),
    }
}
