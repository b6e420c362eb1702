//! Rules about the framing of HTTP/1.1 requests that the server library does not enforce (RFC 9110 and 9112): one good
//! `Host`, an expectation that we know, a transfer coding that we know. A client that gets these wrong, or a proxy that
//! reads them otherwise than we do, may mean another request than we would see.

use std::net::Ipv6Addr;

use http::{HeaderMap, Request, Version, header};

use super::error::Problem;

/// Returns what is wrong with a request, before anybody looks at what it wants.
pub(crate) fn mistake<B>(request: &Request<B>) -> Option<Problem> {
    let headers = request.headers();
    if !is_host_good(headers, request.version()) {
        return Some(Problem::BAD_HOST);
    }
    // RFC 9110, 10.1.1: an expectation that is not known may be answered with 417.
    let mut expected = values(headers, &header::EXPECT);
    // RFC 9110, 5.6.1.2: an empty member of a list does not count.
    if !expected.all(|word| word.is_empty() || word.eq_ignore_ascii_case("100-continue")) {
        return Some(Problem::EXPECTATION);
    }
    coding_mistake(headers)
}

/// RFC 9112, 3.2: 400 when HTTP/1.1 has no `Host`, when there is more than one, and when it is not a host.
fn is_host_good(headers: &HeaderMap, version: Version) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => host.to_str().is_ok_and(|host| host.is_empty() || is_authority(host)),
        (Some(_), Some(_)) => false,
    }
}

/// `HOST` or `HOST:PORT`, where an IPv6 address is in brackets.
fn is_authority(host: &str) -> bool {
    let (name, port) = split_port(host);
    let is_name = match name.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok()),
        None => {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(&byte))
        }
    };
    is_name && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// A host without its port, and the port.
pub(super) fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    }
}

/// RFC 9112, 6.1 and 7: `chunked` once and last; 501 for codings that are not known.
fn coding_mistake(headers: &HeaderMap) -> Option<Problem> {
    if !headers.contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    let codings: Vec<&str> = values(headers, &header::TRANSFER_ENCODING).collect();
    match codings.as_slice() {
        [one] if one.eq_ignore_ascii_case("chunked") => None,
        many if many.iter().all(|coding| coding.eq_ignore_ascii_case("chunked")) => Some(Problem::BAD_CODING),
        _ => Some(Problem::UNKNOWN_CODING),
    }
}

/// The members of a list that may be spread over several lines; one that is not text becomes a member that is unknown.
fn values<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("?"));
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_rfcs_forbid_is_answered_as_they_say() {
        #[track_caller]
        fn check(version: Version, headers: &[(&str, &str)], want: Option<u16>) {
            let mut request = Request::builder().version(version).uri("/x");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.body(()).expect("a request");
            assert_eq!(mistake(&request).map(|problem| problem.status.as_u16()), want, "{headers:?}");
        }
        let new = Version::HTTP_11;
        for good in ["a", "a:80", "127.0.0.1:8080", "[::1]:80", "", "a.b-c.example"] {
            check(new, &[("host", good)], None);
        }
        check(Version::HTTP_10, &[], None);
        check(new, &[], Some(400));
        check(new, &[("host", "a"), ("host", "a")], Some(400));
        for bad in ["a b", "a@b", "a/b", "a,b", ":80", "a:b:c", "\u{fc}"] {
            check(new, &[("host", bad)], Some(400));
        }
        check(new, &[("host", "a"), ("expect", "100-Continue")], None);
        check(new, &[("host", "a"), ("expect", "")], None);
        check(new, &[("host", "a"), ("expect", "200-maybe")], Some(417));
        check(new, &[("host", "a"), ("expect", "100-continue, x")], Some(417));
        for (coding, want) in [
            ("chunked", None),
            ("Chunked", None),
            ("chunked, chunked", Some(400)),
            ("gzip, chunked", Some(501)),
            ("chunked, gzip", Some(501)),
            ("identity", Some(501)),
            ("", Some(501)),
        ] {
            check(new, &[("host", "a"), ("transfer-encoding", coding)], want);
        }
        let twice = [("host", "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")];
        check(new, &twice, Some(400));
    }
}
