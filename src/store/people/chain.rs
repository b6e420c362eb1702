//! The audit log, followed by a person.

use super::person::{People, PeopleError};
use crate::store::audit::{AuditPlace, AuditVerdict, audit_verify};
use crate::types::Role;

impl People {
    /// Follows at most `rows_n` rows of the audit log's chain after `from`: the start, the end of what was followed
    /// before, or what was noted elsewhere. For admins. It is the whole log, whatever the scope: nothing of a row is
    /// told but its number.
    pub async fn audit_verify(&self, from: &AuditPlace, rows_n: u32) -> Result<AuditVerdict, PeopleError> {
        self.needs(Role::Admin)?;
        let (store, from) = (&self.store, from.clone());
        Ok(alone!(store.people.audit_verify(&from, rows_n))?)
    }
}
