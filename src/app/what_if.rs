//! What-if with the handlers of this program: in a running server, and in a command before a deploy.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::builder::App;
use super::entries::Entries;
use hooklatch_receive::admit::{Planner, WhatIf, WhatIfParts};
use hooklatch_store::Store;

impl App {
    /// What-if on this database; `turns` limits its transactions.
    pub(super) fn what_if(
        &self,
        store: &Store,
        installation_id: Uuid,
        entries: Entries,
        turns: Arc<Semaphore>,
    ) -> WhatIf {
        WhatIf::new(WhatIfParts {
            store: store.clone(),
            planner: Planner::new(self.clock.clone(), installation_id),
            entries,
            handler_timeout: Duration::from_millis(self.config.server.handler_timeout_ms),
            turns,
        })
    }

    /// What-if by itself, without a server around it.
    pub(crate) async fn what_if_alone(&self, store: &Store) -> anyhow::Result<WhatIf> {
        let entries = self.entries()?;
        let installation_id =
            store.installation_id().await.context("could not read the installation's id")?;
        let turns = Arc::new(Semaphore::new(store.handlers_n()));
        Ok(self.what_if(store, installation_id, entries, turns))
    }
}
