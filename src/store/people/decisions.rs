//! What a person decides about one message, event or destination.

use super::person::{People, PeopleError};
use crate::api::OrderResult;
use crate::store::decision::{
    Answered, Deciding, Decision, Ordered, destination_decide, event_decide, message_decide, once,
};
use crate::types::Role;

impl People {
    /// Carries out an order once, records it, and keeps its answer, all in one transaction. For operators, about what
    /// is in their scope: the provider of an event, the provider and the destination of a message, a destination.
    pub async fn decide(
        &self,
        ordered: &Ordered,
        decision: &Decision<'_>,
    ) -> Result<Answered<OrderResult>, PeopleError> {
        self.needs(Role::Operator)?;
        let deciding = Deciding::new(&self.principal, decision).by(self.actor());
        let decided = match ordered.clone() {
            Ordered::Message { id, act } => {
                once(&self.store, "message_decide", deciding, move |mut db, deciding| {
                    Box::pin(async move { message_decide(&mut db, id, act, deciding).await })
                })
                .await?
            }
            Ordered::Event { key, act } => {
                self.needs_provider(key.provider.as_str())?;
                once(&self.store, "event_decide", deciding, move |mut db, deciding| {
                    Box::pin(async move { event_decide(&mut db, &key, act, deciding).await })
                })
                .await?
            }
            Ordered::Destination { name, act, until_ms } => {
                self.needs_destination(name.as_str())?;
                once(&self.store, "destination_decide", deciding, move |mut db, deciding| {
                    Box::pin(
                        async move { destination_decide(&mut db, &name, (act, until_ms), deciding).await },
                    )
                })
                .await?
            }
        };
        Ok(decided?)
    }
}
