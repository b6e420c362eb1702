//! What a person decides about one message, event, destination or provider.

use super::person::{People, PeopleError};
use crate::api::{OrderResult, PauseAct};
use crate::store::db::StoreError;
use crate::store::decision::{
    Answered, Deciding, Decision, Ordered, Pausable, Refusal, event_decide, message_decide, once,
    pause_decide,
};
use crate::types::{Name, Role, UnixMs};

impl People {
    /// Carries out an order once, records it, and keeps its answer, all in one transaction. For operators, about what
    /// is in their scope: the provider of an event, the provider and the destination of a message, a destination.
    pub async fn decide(
        &self,
        ordered: &Ordered,
        decision: &Decision<'_>,
    ) -> Result<Answered<OrderResult>, PeopleError> {
        self.needs(Role::Operator)?;
        let deciding = self.deciding(decision);
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
                self.pause(Pausable::Destination, name, (act, until_ms), deciding).await?
            }
            Ordered::Provider { name, act, until_ms } => {
                self.needs_provider(name.as_str())?;
                self.pause(Pausable::Provider, name, (act, until_ms), deciding).await?
            }
        };
        Ok(decided?)
    }
    async fn pause(
        &self,
        what: Pausable,
        name: Name,
        order: (PauseAct, Option<UnixMs>),
        deciding: Deciding,
    ) -> Result<Result<Answered<OrderResult>, Refusal>, StoreError> {
        once(&self.store, "pause_decide", deciding, move |mut db, deciding| {
            Box::pin(async move { pause_decide(&mut db, (what, &name), order, deciding).await })
        })
        .await
    }
}
