//! What a person says about one message, as the form sends it.

use axum::extract::Path;
use axum::response::Response;

use crate::api::{MessageOrder, OrderResult};
use crate::console::contract::path;
use crate::console::parts::form::{self, SentForm};
use crate::console::parts::frame::Place;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;

pub(super) async fn decide(visit: Visit, Path(message_id): Path<String>, form: SentForm) -> Response {
    let page = path(&["messages", &message_id]);
    match order(&visit, &page, &form).await {
        Ok(()) => form::go(&visit.link(&page)),
        Err(trouble) => visit.trouble(Place::Messages, &trouble.about(&page)),
    }
}

async fn order(visit: &Visit, page: &str, form: &SentForm) -> Result<(), Trouble> {
    let order = MessageOrder { act: form.word("act")?, reason: form.needed("reason")?.to_owned() };
    visit.order::<OrderResult>(&format!("{page}/decide"), &form.headers()?, &order).await.map(drop)
}
