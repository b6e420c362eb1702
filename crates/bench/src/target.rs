//! Receivers that may be loaded: those on this machine, and others only when their name is given twice. Of both only
//! test servers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use http::Uri;

/// Longest time that a first connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest time to wait for the answer that says whether it is a test server.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Most bytes of the head of that answer.
const HEAD_BYTES_MAX: u64 = 64 * 1024;

/// A receiver that listens and may be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadTarget {
    /// Address that it listens on.
    pub addr: SocketAddr,
    /// Text of the `Host` header.
    pub authority: String,
    /// Path and query of its URL.
    pub path: String,
    /// The whole URL, which some kinds sign.
    pub url: String,
}

/// The reason why a URL is not loaded.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// A load speaks plain HTTP alone.
    #[error(
        "`{0}` cannot be loaded: it takes a URL that starts with http://, because a load speaks plain HTTP/1.1"
    )]
    NotHttp(String),
    /// The name leads nowhere.
    #[error("`{host}` could not be looked up: {why}")]
    Unknown {
        /// Host of the URL.
        host: String,
        /// Error of the system.
        why: io::Error,
    },
    /// Another machine, and no option confirms it.
    #[error(
        "`{host}` is {addr}, which is not this machine: a load could take down what runs there; if it is yours to \
         load, say so with --yes-this-host {host}"
    )]
    NotHere {
        /// Host of the URL.
        host: String,
        /// One of its addresses that is not a loopback address.
        addr: SocketAddr,
    },
    /// Nothing listens at that address.
    #[error("nothing listens on {host}: start a receiver there, or let the bench start one, without --url")]
    NothingListens {
        /// Host and port of the URL.
        host: String,
    },
    /// It does not answer, so it is not known whether it is a test server.
    #[error("no answer from {url}, so no event was sent: {why}")]
    NoAnswer {
        /// URL of the provider.
        url: String,
        /// Error of the connection.
        why: io::Error,
    },
    /// It may have real events.
    #[error(
        "{0} does not say that it is a test server, so no event was sent: fake events with a real signature have the \
         effects of real ones. Load `hooklatch serve --dev`, or a server with `test = true` in [server]"
    )]
    NotTest(String),
}

impl LoadTarget {
    /// Takes `url` apart and makes sure that a server listens there, and that all of its addresses are loopback ones
    /// unless its host is `allowed_host`.
    pub fn find(url: &str, allowed_host: Option<&str>) -> Result<Self, TargetError> {
        let not_http = || TargetError::NotHttp(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| not_http())?;
        let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(not_http());
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let looked_up = (host.as_str(), authority.port_u16().unwrap_or(80)).to_socket_addrs();
        let addrs: Vec<SocketAddr> =
            looked_up.map_err(|why| TargetError::Unknown { host: host.clone(), why })?.collect();
        let is_allowed = allowed_host.is_some_and(|allowed| allowed.eq_ignore_ascii_case(&host));
        let strange = addrs.iter().find(|addr| !addr.ip().to_canonical().is_loopback());
        if let Some(addr) = strange.filter(|_| !is_allowed) {
            return Err(TargetError::NotHere { host, addr: *addr });
        }
        let listens = |addr: &&SocketAddr| TcpStream::connect_timeout(addr, CONNECT).is_ok();
        let nothing_listens = || TargetError::NothingListens { host: authority.to_string() };
        let addr = *addrs.iter().find(listens).ok_or_else(nothing_listens)?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { addr, authority: authority.to_string(), path, url: url.to_owned() })
    }

    /// Makes sure that it is a server for fake events, which answers `Hooklatch-Test: true`. What it gets is a request
    /// without an event.
    pub fn check_test_server(&self) -> Result<(), TargetError> {
        match self.is_test_server() {
            Ok(true) => Ok(()),
            Ok(false) => Err(TargetError::NotTest(self.url.clone())),
            Err(why) => Err(TargetError::NoAnswer { url: self.url.clone(), why }),
        }
    }

    fn is_test_server(&self) -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&self.addr, CONNECT)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        let (path, host) = (&self.path, &self.authority);
        stream.write_all(
            format!("HEAD {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes(),
        )?;
        let mut lines = BufReader::new(stream.take(HEAD_BYTES_MAX)).lines();
        lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        for line in lines {
            let line = line?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("hooklatch-test")
            {
                return Ok(value.trim() == "true");
            }
        }
        Ok(false)
    }

    /// True when it is on this machine.
    pub fn is_here(&self) -> bool {
        self.addr.ip().to_canonical().is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loaded_unless_another_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let found = LoadTarget::find(&format!("http://127.0.0.1:{port}/webhooks/x?y=1"), None).expect("ours");
        assert_eq!(
            (found.addr.port(), found.path.as_str(), found.is_here()),
            (port, "/webhooks/x?y=1", true)
        );
        let error = |url: &str, allowed| LoadTarget::find(url, allowed).expect_err(url).to_string();
        assert!(error("http://127.0.0.1:9/", None).starts_with("nothing listens on 127.0.0.1:9"));
        for url in ["https://127.0.0.1/", "127.0.0.1:80", "/webhooks", "http://"] {
            assert!(error(url, None).contains("http://"), "{url}");
        }
        // Documentation's addresses: no server is asked, because the guard comes first.
        for url in
            ["http://192.0.2.1/", "http://[2001:db8::1]:80/", "http://0.0.0.0/", "http://[::ffff:192.0.2.1]/"]
        {
            let text = error(url, None);
            assert!(text.contains("is not this machine") && text.contains("--yes-this-host"), "{text}");
            assert!(error(url, Some("127.0.0.1")).contains("is not this machine"), "another host was named");
        }
    }
}
