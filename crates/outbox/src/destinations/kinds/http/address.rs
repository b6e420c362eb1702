//! The address of a call: the destination's own address, what a message puts below it, or what a template made of the
//! event. Whatever the message says, it does not leave the host that the config names.

use std::sync::Arc;

use http::uri::Uri;
use reqwest::Url;
use reqwest::header::HeaderValue;

use hooklatch_core::config::DestinationConfig;
use hooklatch_core::net::Allowed;
use hooklatch_core::template;
use hooklatch_store::LeasedMessage;

/// One address, taken apart.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) url: Url,
    pub(crate) origin: Arc<Origin>,
    /// Path and query, as the request line has them.
    pub(crate) path: Uri,
}

/// The scheme, host and port that one connection is good for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) is_tls: bool,
    /// A name or an address, that one without brackets.
    pub(crate) host: String,
    /// Scheme, host and port, to connect to.
    pub(crate) uri: Uri,
    /// Value of the `Host` header.
    pub(crate) header: HeaderValue,
}

impl Address {
    /// `Err(why)` for what cannot be written as a call.
    pub(crate) fn new(url: Url) -> Result<Self, String> {
        let host = url.host_str().unwrap_or_default();
        if !matches!(url.scheme(), "http" | "https") || host.is_empty() {
            return Err(format!("its scheme is `{}`", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("address has a user or password in it".to_owned());
        }
        let unfit = "address has characters that a call cannot carry";
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
        let path = format!("{}{query}", url.path()).parse().map_err(|_| unfit)?;
        let origin = Origin {
            is_tls: url.scheme() == "https",
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            uri: format!("{}://{authority}/", url.scheme()).parse().map_err(|_| unfit)?,
            header: HeaderValue::from_str(&authority).map_err(|_| unfit)?,
        };
        Ok(Self { url, origin: Arc::new(origin), path })
    }
}

/// The address that calls go to, as far as the configuration fixes it.
pub(crate) enum Base {
    /// To one address, and what is below it.
    Fixed(Arc<Address>),
    /// To wherever the message says, as the destination's template made it at admission; what the template
    /// leaves open has no say in what is fixed.
    Template {
        /// Scheme, host and port, when no value is in them.
        origin: Option<Url>,
        allowed: Allowed,
    },
}

impl Base {
    pub(crate) fn new(config: &DestinationConfig) -> Result<Self, String> {
        let url = Url::parse(&template::without_tags(&config.url)).map_err(|error| error.to_string())?;
        let address = Address::new(url)?;
        if !template::is_template(&config.url) {
            return Ok(Self::Fixed(Arc::new(address)));
        }
        let origin = (!template::has_host_template(&config.url)).then_some(address.url);
        Ok(Self::Template { origin, allowed: Allowed::new(&config.http.private_hosts) })
    }

    /// Where calls go, as far as the configuration fixes it.
    pub(crate) fn origin(&self) -> Option<Arc<Origin>> {
        match self {
            Self::Fixed(home) => Some(Arc::clone(&home.origin)),
            Self::Template { origin, .. } => Address::new(origin.clone()?).ok().map(|address| address.origin),
        }
    }

    /// True when `url` is on the destination's own host, as far as the config names one.
    pub(crate) fn is_home_of(&self, url: &Url) -> bool {
        match self {
            Self::Fixed(home) => home.url.origin() == url.origin(),
            Self::Template { origin: Some(home), .. } => home.origin() == url.origin(),
            Self::Template { origin: None, .. } => false,
        }
    }

    /// The address that `message` goes to.
    pub(crate) fn address_of(&self, message: &LeasedMessage) -> Result<Arc<Address>, String> {
        let (origin, allowed) = match self {
            Self::Fixed(base) if message.path.is_empty() => return Ok(Arc::clone(base)),
            Self::Fixed(base) => return Ok(Arc::new(Address::new(below(&base.url, &message.path)?)?)),
            Self::Template { origin, allowed } => (origin, allowed),
        };
        let url = Url::parse(&message.path).map_err(|_| "message has no address of its own".to_owned())?;
        if origin.as_ref().is_some_and(|origin| origin.origin() != url.origin()) {
            return Err("address of the message leaves the destination's host".to_owned());
        }
        if origin.is_none() {
            allowed.check(&url)?;
        }
        Ok(Arc::new(Address::new(url)?))
    }
}

/// `path` below `base`, its query joined to that of `base`. A path that climbs out is refused.
fn below(base: &Url, path: &str) -> Result<Url, String> {
    let mut url = base.clone();
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let root = base.path().trim_end_matches('/');
    url.set_path(&format!("{root}{path}"));
    if !url.path().starts_with(&format!("{root}/")) {
        return Err("path of the message leaves the destination's".to_owned());
    }
    let queries: Vec<&str> =
        base.query().into_iter().chain(query).filter(|query| !query.is_empty()).collect();
    if !queries.is_empty() {
        url.set_query(Some(&queries.join("&")));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::config;
    use hooklatch_core::config::UnknownPolicy;

    #[test]
    fn paths_stay_below_the_destination() {
        #[track_caller]
        fn check(base: &str, path: &str, want: Option<&str>) {
            let config = DestinationConfig { url: base.to_owned(), ..config(UnknownPolicy::Retry) };
            let message = LeasedMessage { path: path.to_owned(), ..crate::destinations::tests::message() };
            let address = Base::new(&config).unwrap().address_of(&message);
            let url = address.as_ref().map(|address| address.url.as_str());
            assert_eq!(url.ok(), want, "{base} {path}");
        }
        check("http://far/events", "", Some("http://far/events"));
        check("http://far", "/a", Some("http://far/a"));
        check("http://far/", "/a", Some("http://far/a"));
        check("http://far/events/", "/a/b", Some("http://far/events/a/b"));
        check("http://far/events?k=1", "", Some("http://far/events?k=1"));
        check("http://far/events?k=1", "/a?b=2", Some("http://far/events/a?k=1&b=2"));
        check("http://far/events", "/a#b", Some("http://far/events/a%23b"));
        check("http://far/events", "/@evil.test", Some("http://far/events/@evil.test"));
        check("http://far/events", "//evil.test/x", Some("http://far/events//evil.test/x"));
        for climbing in ["/../admin", "/%2e%2e/admin", "/a/../../admin", "/..", "/..\\..\\x", "admin"] {
            check("http://far/events", climbing, None);
        }
    }

    #[test]
    fn an_address_is_taken_apart_as_a_request_has_it() {
        #[track_caller]
        fn check(url: &str, want: (bool, &str, &str, &str, &str)) {
            let address = Address::new(Url::parse(url).unwrap()).unwrap();
            let origin = &address.origin;
            let found = (
                origin.is_tls,
                origin.host.as_str(),
                origin.header.to_str().unwrap(),
                origin.uri.to_string(),
                address.path.to_string(),
            );
            assert_eq!((found.0, found.1, found.2, found.3.as_str(), found.4.as_str()), want);
        }
        check("http://far", (false, "far", "far", "http://far/", "/"));
        check("https://far:443/a?b#c", (true, "far", "far", "https://far/", "/a?b"));
        check("http://far:81//a.test/", (false, "far", "far:81", "http://far:81/", "//a.test/"));
        check("http://[::1]:8/", (false, "::1", "[::1]:8", "http://[::1]:8/", "/"));
        check("http://0x7f.1/é", (false, "127.0.0.1", "127.0.0.1", "http://127.0.0.1/", "/%C3%A9"));
        for url in ["ftp://far/", "http://user@far/", "http://:word@far/"] {
            assert!(Address::new(Url::parse(url).unwrap()).is_err(), "{url}");
        }
    }
}
