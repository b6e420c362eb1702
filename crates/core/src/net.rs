//! Rules for all our HTTP clients, and the addresses that our calls may reach.
//!
//! A host that is written in the configuration may be private. One from an event or a request may not,
//! unless it is allow-listed: otherwise people who write those could make us call our own network.
//!
//! The check is made on the addresses that the name has just resolved to, and the connection goes to one of
//! those: a name that is looked up again later is checked again.

use std::error::Error;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{ClientBuilder, Response, Url, redirect};

/// The `User-Agent` of our calls.
pub const AGENT: &str = concat!("hooklatch/", env!("CARGO_PKG_VERSION"));

/// Returns the peer that an address belongs to: in IPv6 a peer has a /64 at least.
pub fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Builds an HTTP client with what all of ours have in common: no redirects, no retries of its own, no proxies of the
/// environment.
pub fn client_builder() -> ClientBuilder {
    // An error says that one is installed already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .user_agent(AGENT)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
}

/// A body, or `None` when it is longer than `bytes_max`; the rest of it is never read.
pub async fn read_capped(mut response: Response, bytes_max: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > bytes_max {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Hosts and addresses that may be called although they are private.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    nets: Vec<IpNet>,
    hosts: Vec<String>,
}

impl Allowed {
    /// Reads `private_hosts`: ranges, single addresses and names.
    pub fn new(configured: &[String]) -> Self {
        let net = |text: &String| text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let nets = configured.iter().filter_map(net).collect();
        let hosts = configured.iter().filter(|text| net(text).is_none()).cloned().collect();
        Self { nets, hosts }
    }

    fn host(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.hosts.contains(&host)
    }

    fn address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address) || self.nets.iter().any(|net| net.contains(&address))
    }

    /// `Err(why)` when the URL's host is an address that may not be called. Names are looked at when they are
    /// resolved.
    pub fn check(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match literal {
            Ok(address) if !self.address(address) => Err(PrivateHost.to_string()),
            _ => Ok(()),
        }
    }
}

/// The error of a call to a private address that is not allow-listed.
#[derive(Debug, thiserror::Error)]
#[error("host of the address leads to a private network; see `private_hosts`")]
pub struct PrivateHost;

/// True when a call failed because its host's addresses may not be called.
pub fn is_private_host(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<PrivateHost>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Looks names up as the system does, and gives back only what may be called.
pub struct Guard {
    allowed: Arc<Allowed>,
}

impl Guard {
    pub fn new(allowed: Allowed) -> Self {
        Self { allowed: Arc::new(allowed) }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.allowed);
        Box::pin(async move {
            let fit = lookup(name.as_str(), Some(&allowed)).await?;
            Ok::<Addrs, _>(Box::new(fit.into_iter()))
        })
    }
}

/// Looks `host` up as the system does. Gives back all of it, or with `allowed` only what may be called; ports are 0.
pub async fn lookup(
    host: &str,
    allowed: Option<&Allowed>,
) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
    let found = tokio::net::lookup_host((host, 0)).await?;
    Ok(match allowed {
        Some(allowed) => permitted(allowed, host, found)?,
        None => found.collect(),
    })
}

/// Returns the addresses found for `host` that may be called; an error when there are none.
pub fn permitted(
    allowed: &Allowed,
    host: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, PrivateHost> {
    if allowed.host(host) {
        return Ok(found.collect());
    }
    let fit: Vec<SocketAddr> = found.filter(|address| allowed.address(address.ip())).collect();
    if fit.is_empty() { Err(PrivateHost) } else { Ok(fit) }
}

/// IANA's registries of special-purpose addresses: what no host on the internet has. Of IPv6 only `2000::/3` is given
/// out; in it these are for documentation, or wrap other addresses (Teredo, ORCHID, 6to4).
const SPECIAL: &str = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 \
                       192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 2001::/23 \
                       2001:db8::/32 2002::/16 3fff::/20";

fn special_nets() -> &'static [IpNet] {
    static NETS: LazyLock<Vec<IpNet>> =
        LazyLock::new(|| SPECIAL.split(' ').filter_map(|text| text.parse().ok()).collect());
    &NETS
}

/// True for an address that any host on the internet may have.
fn is_public(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_given_out = match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => v6.to_bits() >> 125 == 1,
    };
    is_given_out && !special_nets().iter().any(|net| net.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_special_addresses_are_distinguished_from_public_ones() {
        assert_eq!(special_nets().len(), 18, "each can be read");
        let public = ["8.8.8.8", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "2a00::1"];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        let special = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "fc00::1",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
            "2002:0a00:1::",
            "64:ff9b::a00:1",
        ];
        for address in special {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_name_that_turns_private_is_refused_at_its_next_lookup() {
        let allowed = Allowed::default();
        let lookup = |addresses: &[&str]| {
            let found = addresses.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0));
            permitted(&allowed, "far.test", found.collect::<Vec<_>>().into_iter())
        };
        assert!(lookup(&["93.184.216.34"]).is_ok());
        assert!(lookup(&["10.0.0.7"]).is_err(), "the same name, a moment later");
        assert_eq!(lookup(&["10.0.0.7", "93.184.216.34"]).unwrap().len(), 1, "only the public one is called");
        assert!(lookup(&[]).is_err());
    }

    #[test]
    fn an_allow_list_names_ranges_addresses_and_hosts() {
        #[track_caller]
        fn check(allowed: &Allowed, url: &str, want: bool) {
            assert_eq!(allowed.check(&Url::parse(url).unwrap()).is_ok(), want, "{url}");
        }
        let allowed = Allowed::new(&["10.1.0.0/16", "::1", "hooks.internal"].map(str::to_owned));
        check(&allowed, "http://10.1.2.3/", true);
        check(&allowed, "http://10.2.2.3/", false);
        check(&allowed, "http://[::1]/", true);
        check(&allowed, "http://[::ffff:10.1.2.3]/", true);
        check(&allowed, "http://0x7f.1/", false);
        check(&allowed, "http://2130706433/", false);
        check(&allowed, "http://anything.test/", true);
        assert!(allowed.host("HOOKS.internal.") && !allowed.host("evil.hooks.internal"));
    }

    #[test]
    fn special_ranges_end_where_the_registries_say() {
        #[track_caller]
        fn check(last: &str, next: &str) {
            let is_public = |text: &str| is_public(text.parse().unwrap());
            assert!(is_public(last) != is_public(next), "the border is between {last} and {next}");
        }
        check("0.255.255.255", "1.0.0.0");
        check("9.255.255.255", "10.0.0.0");
        check("11.0.0.0", "10.255.255.255");
        check("100.63.255.255", "100.64.0.0");
        check("100.127.255.255", "100.128.0.0");
        check("169.253.255.255", "169.254.0.0");
        check("172.15.255.255", "172.16.0.0");
        check("172.31.255.255", "172.32.0.0");
        check("192.0.0.255", "192.0.1.0");
        check("192.88.98.255", "192.88.99.0");
        check("198.17.255.255", "198.18.0.0");
        check("198.19.255.255", "198.20.0.0");
        check("223.255.255.255", "224.0.0.0");
        check("1fff:ffff::", "2000::");
        check("2001:1ff:ffff::", "2001:200::");
        check("2001:db7:ffff::", "2001:db8::");
        check("2002:ffff::", "2003::");
        check("3fff:fff:ffff::", "3fff:1000::");
        check("3fff:ffff::", "4000::");
    }

    #[test]
    fn a_private_host_is_found_below_other_errors_and_nothing_else_is_taken_for_one() {
        let below = anyhow::Error::new(PrivateHost).context("lookup failed").context("call failed");
        assert!(is_private_host(below.as_ref()));
        assert!(is_private_host(&PrivateHost));
        assert!(
            !is_private_host(anyhow::anyhow!("{PrivateHost}").as_ref()),
            "the same words are not the same"
        );
    }
}
