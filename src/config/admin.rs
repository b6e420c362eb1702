//! `[admin]`: the operators' listener and who may use it.

use std::net::SocketAddr;

use super::secret::Secret;
use crate::types::Name;

/// `[admin]`: the operator's listener.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// Where operators reach us.
    pub listen: SocketAddr,
    /// Who may use the operators' API.
    pub tokens: Vec<AdminToken>,
    /// Names that operators call us by, besides loopback and `listen`. Lower case.
    pub hosts: Vec<String>,
}

/// The operators' token of `serve --dev`; published, like its other secrets.
pub const DEV_TOKEN: &str = "hooklatch-dev-token";

/// One of `admin.tokens`.
#[derive(Debug, Clone)]
pub struct AdminToken {
    /// Who it is, in the audit log; unique.
    pub name: Name,
    /// What it may do.
    pub role: AdminRole,
    /// What it presents; 16 to 1024 visible ASCII characters.
    pub token: Secret,
}

/// What the holder of an [`AdminToken`] may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminRole {
    /// Look.
    Viewer,
    /// Look and act.
    Operator,
}
