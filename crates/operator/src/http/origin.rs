//! The client address of a request, where trusted proxies stand in between.
//!
//! Each proxy adds the address that it was called from at the right end of a list. So the list is read from the right,
//! and for as long as the author of an entry is a trusted proxy: everything left of the first untrusted address was
//! written by that client, and may be anything.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;

use hooklatch_core::config::ForwardedHeader;

/// Most entries that are read: chains of proxies are short.
const HOPS_N_MAX: usize = 32;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Finds the client address of a request.
#[derive(Debug, Clone, Default)]
pub struct OriginRule {
    header: ForwardedHeader,
    proxies: Vec<IpNet>,
}

impl OriginRule {
    /// A rule that trusts what `proxies` write into this header, and no other peer.
    pub fn new(header: ForwardedHeader, proxies: Vec<IpNet>) -> Self {
        Self { header, proxies }
    }

    /// The client address of a request on a connection from `peer`.
    pub(super) fn origin(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let name = match self.header {
            ForwardedHeader::Off => return peer,
            ForwardedHeader::Forwarded => &header::FORWARDED,
            ForwardedHeader::XForwardedFor => &X_FORWARDED_FOR,
        };
        let is_trusted = |address: &IpAddr| self.proxies.iter().any(|net| net.contains(address));
        let mut origin = peer;
        if !is_trusted(&origin) {
            return peer;
        }
        let lines: Vec<&str> = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("")).collect();
        let hops = lines.iter().rev().flat_map(|line| self.entries(line).into_iter().rev());
        for hop in hops.take(HOPS_N_MAX) {
            let address = match self.header {
                ForwardedHeader::Forwarded => forwarded_for(hop).and_then(address),
                _ => address(hop),
            };
            // What names no address hides who called; the proxy that wrote it stands for him.
            let Some(address) = address else { break };
            origin = address;
            if !is_trusted(&origin) {
                break;
            }
        }
        origin
    }

    /// The entries of a header line: separated by commas, in `Forwarded` by those that are not quoted. A quote that a
    /// client opens and does not close would make what the proxy adds behind it a part of the client's own entry: such
    /// a line is one entry that names no address.
    fn entries<'l>(&self, line: &'l str) -> Vec<&'l str> {
        match self.header {
            ForwardedHeader::Forwarded => split_unquoted(line, ',').unwrap_or_else(|| vec![""]),
            _ => line.split(',').map(str::trim).collect(),
        }
    }
}

/// What stands between these characters, where they are not quoted; `None` when a quote is not closed.
fn split_unquoted(text: &str, at: char) -> Option<Vec<&str>> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let split = text.split(|c: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match c {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            _ => {}
        }
        c == at && !is_quoted
    });
    let parts = split.map(str::trim).collect();
    (!is_quoted).then_some(parts)
}

/// The node in `for=…` of one element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<&str> {
    let mut nodes = split_unquoted(element, ';')?.into_iter().filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim().trim_matches('"'))
    });
    match (nodes.next(), nodes.next()) {
        (Some(node), None) => Some(node),
        _ => None,
    }
}

/// An address with or without a port, in brackets or without.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|with_port| with_port.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(header: ForwardedHeader) -> OriginRule {
        let nets = ["10.0.0.0/8", "2001:db8:1::/48"];
        OriginRule::new(header, nets.iter().map(|net| net.parse().expect("a range")).collect())
    }

    #[track_caller]
    fn check(header: ForwardedHeader, peer: &str, lines: &[(&'static str, &str)], want: &str) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, http::HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        let origin = rule(header).origin(peer.parse().expect("an address"), &headers);
        assert_eq!(origin.to_string(), want, "{peer} {lines:?}");
    }

    #[test]
    fn the_client_address_is_the_rightmost_untrusted_one() {
        let x = |peer: &str, lines: &[&str], want: &str| {
            let lines: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
            check(ForwardedHeader::XForwardedFor, peer, &lines, want);
        };
        x("10.0.0.1", &["192.0.2.7"], "192.0.2.7");
        x("10.0.0.1", &["192.0.2.7, 10.0.0.2"], "192.0.2.7");
        x("10.0.0.1", &["192.0.2.7", "10.0.0.2,10.0.0.3"], "192.0.2.7");
        // Entries further left were written by the client.
        x("10.0.0.1", &["10.9.9.9, 192.0.2.66, 192.0.2.7"], "192.0.2.7");
        x("10.0.0.1", &["192.0.2.66", "192.0.2.7"], "192.0.2.7");
        x("10.0.0.1", &["192.0.2.7:4711"], "192.0.2.7");
        x("10.0.0.1", &["2001:db8::7"], "2001:db8::7");
        x("10.0.0.1", &["[2001:db8::7]:4711"], "2001:db8::7");
        x("10.0.0.1", &["[2001:db8::7]"], "2001:db8::7");
        x("10.0.0.1", &["::ffff:192.0.2.7"], "192.0.2.7");
        x("2001:db8:1::1", &["192.0.2.7"], "192.0.2.7");
        // All of them trusted: the one furthest away.
        x("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3");
        // Nothing, or nothing that is an address: the proxy that wrote it.
        for nothing in
            ["", "unknown", "_hidden", "192.0.2.7.8", "-", "\"192.0.2.7\"", "192.0.2.7/24", "\u{e9}"]
        {
            x("10.0.0.1", &[nothing], "10.0.0.1");
            x("10.0.0.1", &["192.0.2.66", nothing, "10.0.0.2"], "10.0.0.2");
        }
        x("10.0.0.1", &[], "10.0.0.1");
        let long = "10.0.0.2,".repeat(10_000);
        x("10.0.0.1", &[&format!("192.0.2.7,{long}10.0.0.3")], "10.0.0.2");
    }

    #[test]
    fn a_forwarding_header_of_an_untrusted_client_is_ignored() {
        for header in [ForwardedHeader::Off, ForwardedHeader::Forwarded, ForwardedHeader::XForwardedFor] {
            let lines = [("x-forwarded-for", "10.0.0.9"), ("forwarded", "for=10.0.0.9")];
            check(header, "192.0.2.66", &lines, "192.0.2.66");
            check(header, "2001:db8:2::1", &lines, "2001:db8:2::1");
        }
        // Through the proxy, the other header is the client's own.
        check(ForwardedHeader::Off, "10.0.0.1", &[("x-forwarded-for", "192.0.2.7")], "10.0.0.1");
        check(ForwardedHeader::Forwarded, "10.0.0.1", &[("x-forwarded-for", "192.0.2.7")], "10.0.0.1");
        check(ForwardedHeader::XForwardedFor, "10.0.0.1", &[("forwarded", "for=192.0.2.7")], "10.0.0.1");
    }

    #[test]
    fn forwarded_is_read_as_its_rfc_has_it() {
        for (line, want) in [
            ("for=192.0.2.7", "192.0.2.7"),
            ("For=\"192.0.2.7:4711\";proto=https;by=10.0.0.1", "192.0.2.7"),
            ("for=\"[2001:db8::7]:4711\"", "2001:db8::7"),
            ("for=\"[2001:db8::7]\"", "2001:db8::7"),
            ("for=192.0.2.66, for=192.0.2.7, for=10.0.0.2", "192.0.2.7"),
            ("proto=https;for=192.0.2.7 , for=\"10.0.0.2\"", "192.0.2.7"),
            ("for=192.0.2.66;by=\"a,for=192.0.2.9\"", "192.0.2.66"),
            ("for=192.0.2.66;for=192.0.2.7", "10.0.0.1"),
            ("for=unknown", "10.0.0.1"),
            ("for=_secret, for=10.0.0.2", "10.0.0.2"),
            ("host=example.com", "10.0.0.1"),
            ("\"", "10.0.0.1"),
        ] {
            check(ForwardedHeader::Forwarded, "10.0.0.1", &[("forwarded", line)], want);
        }
    }

    #[test]
    fn an_unclosed_quote_of_a_client_hides_no_entry_of_a_proxy() {
        for open in
            ["for=192.0.2.9;x=\"", "for=192.0.2.9;x=\"\\\"", "for=192.0.2.9;x=\"\\", "for=\"192.0.2.9;x="]
        {
            for added in ["for=198.51.100.7", "for=\"[2001:db8::7]:4711\"", "for=198.51.100.7, for=10.0.0.2"]
            {
                let line = format!("{open}, {added}");
                check(ForwardedHeader::Forwarded, "10.0.0.1", &[("forwarded", &line)], "10.0.0.1");
                // A line of its own is read for itself.
                let lines = [("forwarded", open), ("forwarded", "for=198.51.100.7")];
                check(ForwardedHeader::Forwarded, "10.0.0.1", &lines, "198.51.100.7");
            }
        }
        // The other header has no quotes.
        for open in ["\"", "192.0.2.9, \"", "\"192.0.2.9"] {
            let line = format!("{open}, 198.51.100.7");
            check(ForwardedHeader::XForwardedFor, "10.0.0.1", &[("x-forwarded-for", &line)], "198.51.100.7");
        }
    }
}
