//! Takes the form that cancels an operation.

use axum::extract::Path;
use axum::response::Response;

use crate::api::{OperationView, ReasonOrder};
use crate::console::contract::path;
use crate::console::parts::form::{self, SentForm};
use crate::console::parts::frame::Place;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;

pub(super) async fn cancel(visit: Visit, Path(operation_id): Path<String>, form: SentForm) -> Response {
    let page = path(&["operations", &operation_id]);
    match order(&visit, &page, &form).await {
        Ok(()) => form::go(&visit.link(&page)),
        Err(trouble) => visit.trouble(Place::Operations, &trouble.about(&page)),
    }
}

async fn order(visit: &Visit, page: &str, form: &SentForm) -> Result<(), Trouble> {
    let order = ReasonOrder { reason: form.needed("reason")?.to_owned() };
    visit.order::<OperationView>(&format!("{page}/cancel"), &form.headers()?, &order).await.map(drop)
}
