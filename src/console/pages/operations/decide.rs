//! Takes the forms that approve, continue and cancel an operation.

use axum::extract::Path;
use axum::response::Response;

use super::begin::check_typed;
use crate::api::{OperationView, ReasonOrder};
use crate::console::contract::path;
use crate::console::parts::form::{self, SentForm};
use crate::console::parts::frame::Place;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::Role;

pub(super) async fn decide(
    word: &'static str,
    visit: Visit,
    Path(operation_id): Path<String>,
    form: SentForm,
) -> Response {
    let page = path(&["operations", &operation_id]);
    match order(&visit, &page, word, &form).await {
        Ok(()) => form::go(&visit.link(&page)),
        Err(trouble) => visit.trouble(Place::Operations, &trouble.about(&page)),
    }
}

async fn order(visit: &Visit, page: &str, word: &str, form: &SentForm) -> Result<(), Trouble> {
    let order = ReasonOrder { reason: form.needed("reason")?.to_owned() };
    let headers = form.headers()?;
    if word == "approve" && visit.may(Role::Operator) {
        let operation: OperationView = visit.ask(page).await?;
        check_typed(form, operation.total_n)?;
    }
    visit.order::<OperationView>(&format!("{page}/{word}"), &headers, &order).await.map(drop)
}
