//! `listen`: an address with a port, and who can reach it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::config::{Checker, Field, Table};

/// `listen` of `[server]`; any port of loopback after a problem.
pub(super) fn listen(checker: &mut Checker<'_>, table: &mut Table) -> SocketAddr {
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let Some((field, text)) = table.text(checker, "listen") else { return nowhere };
    check_loopback(checker, &field);
    text.parse().unwrap_or_else(|_| {
        checker.problem_shown(
            &field,
            "is not an address with a port",
            "write it as 127.0.0.1:8080 or [::1]:8080",
        );
        nowhere
    })
}

/// An address that this machine can call: all interfaces are reached by loopback.
pub(crate) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, listen.port())
}

/// Refuses a listener that others can reach when it is for `--dev`: anyone may know the dev secrets.
pub(super) fn check_loopback(checker: &mut Checker<'_>, field: &Field) {
    let is_open = match &field.value.kind {
        config::ValueKind::String(text) => {
            text.parse::<SocketAddr>().is_ok_and(|listen| !listen.ip().is_loopback())
        }
        _ => false,
    };
    if is_open && checker.is_dev {
        let why = "can be reached from other machines, and the dev secrets are public";
        checker.problem_shown(field, why, "use 127.0.0.1 or [::1] with --dev, or serve without --dev");
    }
}
