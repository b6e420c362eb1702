//! The process of a PostgreSQL server on this machine, whose CPU time counts.

use std::net::ToSocketAddrs;

use super::cpu::listener_of;

/// Finds the postmaster of the PostgreSQL at `url`, if it is on this machine and can be seen.
pub fn postmaster(url: &str) -> Option<u32> {
    let mut addrs = authority(url)?.to_socket_addrs().ok()?;
    let here = addrs.find(|addr| addr.ip().to_canonical().is_loopback())?;
    listener_of(here.port())
}

/// Host and port of a PostgreSQL URL; 5432 where it names no port.
fn authority(url: &str) -> Option<String> {
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
    let authority = rest.split(['/', '?']).next()?.rsplit('@').next()?;
    let has_port = authority.rsplit(']').next()?.contains(':');
    Some(if has_port { authority.to_owned() } else { format!("{authority}:5432") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_found_behind_whatever_stands_before_them() {
        #[track_caller]
        fn check(url: &str, want: Option<&str>) {
            assert_eq!(authority(url).as_deref(), want, "{url}");
        }
        check("postgres://127.0.0.1:5433/x", Some("127.0.0.1:5433"));
        check("postgresql://u:p@db.test/x?sslmode=require", Some("db.test:5432"));
        check("postgres://u:p:q@localhost", Some("localhost:5432"));
        check("postgres://[::1]/x", Some("[::1]:5432"));
        check("postgres://u@[::1]:5433?x=1", Some("[::1]:5433"));
        check("sqlite:///x.db", None);
    }
}
