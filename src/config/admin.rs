//! `[admin]`: the operators' listener and who may use it.

use std::net::SocketAddr;

use ipnet::IpNet;

use super::forwarded::ForwardedHeader;
use super::listener_tls::ListenerTlsConfig;
use super::secret::Secret;
use crate::types::{Name, Principal, Reach, Role};

/// `[admin]`: the operator's listener.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// Address of the operators' listener.
    pub listen: SocketAddr,
    /// Tokens of those who may use the operators' API.
    pub tokens: Vec<AdminToken>,
    /// Names that operators call us by, besides loopback and `listen`. Lower case.
    pub hosts: Vec<String>,
    /// Address at which people reach it through a proxy.
    pub(crate) public_url: Option<OperatorUrl>,
    /// Its certificate; plain HTTP when absent.
    pub tls: Option<ListenerTlsConfig>,
    /// Addresses and ranges of proxies that are believed about whom a request came from.
    pub proxies: Vec<IpNet>,
    /// Header in which these say it.
    pub forwarded: ForwardedHeader,
    /// Persons that have to agree to an operation, the orderer included.
    pub approvals_n: u32,
    /// Time for which an operation waits for the second of them. Hours.
    pub approval_h: u32,
}

/// The address at which people reach the operator side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperatorUrl {
    /// The name or address in it. Lower case.
    pub(crate) host: String,
    /// What browsers call pages there: scheme, host, and a port that is not the usual one.
    pub(crate) origin: String,
    /// The path in it, without a slash at its end; empty for none.
    pub(crate) base: String,
    /// True when it is `https`.
    pub(crate) is_secure: bool,
}

impl AdminConfig {
    /// Path under which people reach it through a proxy, without a slash at its end; empty for none.
    pub(crate) fn base(&self) -> String {
        self.public_url.as_ref().map(|url| url.base.clone()).unwrap_or_default()
    }
}

/// The operators' token of `serve --dev`; published, like its other secrets.
pub const DEV_TOKEN: &str = "hooklatch-dev-token";

/// One of `admin.tokens`: a person or program, and what it may do.
#[derive(Debug, Clone)]
pub struct AdminToken {
    /// Name of its holder in the audit log; unique.
    pub name: Name,
    /// Role of its holder.
    pub role: Role,
    /// The token itself: 16 to 1024 visible ASCII characters.
    pub token: Secret,
    /// Providers that its holder may see and decide about.
    pub providers: Reach,
    /// Destinations that its holder may see and decide about.
    pub destinations: Reach,
}

impl AdminToken {
    /// Its holder, with role and scope.
    pub fn principal(&self) -> Principal {
        Principal {
            name: self.name.clone(),
            role: self.role,
            providers: self.providers.clone(),
            destinations: self.destinations.clone(),
        }
    }
}
