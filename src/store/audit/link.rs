//! The hash of one row of the audit log: over the hash before it and everything that the row says.

use sha2::{Digest, Sha256};

use crate::types::UnixMs;

/// Everything that a row says.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuditLink<'a> {
    pub(super) audit_seq: i64,
    pub(super) at_ms: UnixMs,
    pub(super) actor: &'a str,
    pub(super) action: &'a str,
    pub(super) provider: Option<&'a str>,
    pub(super) event_id: Option<&'a str>,
    pub(super) message_id: Option<i64>,
    pub(super) operation_id: Option<&'a str>,
    pub(super) detail: &'a str,
}

impl AuditLink<'_> {
    /// The row's hash, in hexadecimal, after a row that has the hash `before`.
    ///
    /// SHA-256 over a mark of this format, then each field in the order of the struct: a byte that says if it is there,
    /// its length in bytes as eight bytes, the highest first, and itself. So no two rows are made of the same bytes.
    pub(super) fn hash(&self, before: &str) -> String {
        let mut digest = Sha256::new();
        digest.update(b"hooklatch audit 1\0");
        let mut field = |value: Option<&[u8]>| {
            let Some(value) = value else { return digest.update([0]) };
            digest.update([1]);
            digest.update(u64::try_from(value.len()).unwrap_or(u64::MAX).to_be_bytes());
            digest.update(value);
        };
        field(Some(before.as_bytes()));
        field(Some(&self.audit_seq.to_be_bytes()));
        field(Some(&self.at_ms.to_be_bytes()));
        field(Some(self.actor.as_bytes()));
        field(Some(self.action.as_bytes()));
        field(self.provider.map(str::as_bytes));
        field(self.event_id.map(str::as_bytes));
        field(self.message_id.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
        field(self.operation_id.map(str::as_bytes));
        field(Some(self.detail.as_bytes()));
        hex::encode(<[u8; 32]>::from(digest.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ROW: AuditLink<'_> = AuditLink {
        audit_seq: 7,
        at_ms: 1_000,
        actor: "ann",
        action: "message_send",
        provider: Some("stripe"),
        event_id: Some("evt_1"),
        message_id: Some(1_024),
        operation_id: None,
        detail: "they lost it",
    };

    /// Rows outlive the binary that wrote them.
    #[test]
    fn the_hash_of_a_row_is_the_same_in_every_version() {
        let zeros = "0".repeat(64);
        assert_eq!(ROW.hash(&zeros), "2a67ac8db691ded48319be0a31f552501945d731a5f7658fc4b6296c10fa9f28");
        assert_eq!(ROW.hash(&zeros).len(), 64);
    }

    #[test]
    fn whatever_is_changed_in_a_row_changes_its_hash() {
        let zeros = "0".repeat(64);
        let all = [
            ROW,
            AuditLink { audit_seq: 8, ..ROW },
            AuditLink { at_ms: 1_001, ..ROW },
            AuditLink { actor: "bob", ..ROW },
            AuditLink { action: "message_done", ..ROW },
            AuditLink { provider: None, ..ROW },
            AuditLink { provider: Some(""), ..ROW },
            AuditLink { event_id: Some("evt_2"), ..ROW },
            AuditLink { message_id: None, ..ROW },
            AuditLink { message_id: Some(0), ..ROW },
            AuditLink { operation_id: Some(""), ..ROW },
            AuditLink { detail: "", ..ROW },
            // The same letters, in other fields.
            AuditLink { actor: "annm", action: "essage_send", ..ROW },
            AuditLink { provider: Some("stripee"), event_id: Some("vt_1"), ..ROW },
            AuditLink { provider: None, event_id: Some("stripe"), ..ROW },
            AuditLink { provider: Some("stripe"), event_id: None, ..ROW },
        ];
        let mut hashes: BTreeSet<String> = all.iter().map(|row| row.hash(&zeros)).collect();
        hashes.insert(ROW.hash(&"1".repeat(64)));
        assert_eq!(hashes.len(), all.len() + 1);
    }
}
