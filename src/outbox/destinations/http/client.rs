//! The HTTP clients: one for each destination, because connections, certificates, proxy and the addresses that
//! may be reached are its own.

use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, Identity, Proxy};

use super::words;
use crate::config::{DestinationConfig, HttpVersion, TlsConfig, UnknownPolicy};
use crate::net::{Allowed, Guard, client_builder};
use crate::outbox::destinations::DestinationError;
use crate::template;

/// Idle connections are dropped before common far sides drop them (Node.js: 5 s), because a request written
/// to a connection that is being closed ends as unknown.
const IDLE: Duration = Duration::from_secs(4);

fn builder() -> ClientBuilder {
    client_builder().pool_idle_timeout(IDLE)
}

/// A client for anything that is not a destination.
pub(crate) fn http_client() -> Result<Client, DestinationError> {
    builder().build().map_err(|error| DestinationError::Client { name: None, why: words(error) })
}

/// The client of one destination; `timeout` is from connect to last byte.
pub(super) fn client(config: &DestinationConfig, timeout: Duration) -> reqwest::Result<Client> {
    let http = &config.http;
    // A connection that the far side closes while it idles would make a person decide. A new one for each
    // call costs a handshake and leaves no such doubt.
    let idle_n = if config.unknown == UnknownPolicy::Hold { 0 } else { config.concurrency_n as usize };
    let connect_timeout = http.connect_timeout_ms.map_or(timeout / 2, Duration::from_millis).min(timeout);
    let mut builder = builder().connect_timeout(connect_timeout).pool_max_idle_per_host(idle_n);
    builder = match http.version {
        HttpVersion::Auto => builder,
        HttpVersion::Only11 => builder.http1_only(),
        HttpVersion::Only2 => builder.http2_prior_knowledge(),
    };
    if let Some(proxy) = &http.proxy {
        builder = builder.proxy(Proxy::all(proxy.reveal())?);
    }
    if template::has_host_template(&config.url) {
        builder = builder.dns_resolver(Guard::new(Allowed::new(&http.private_hosts)));
    }
    with_tls(builder, config, &http.tls)?.build()
}

fn with_tls(
    mut builder: ClientBuilder,
    config: &DestinationConfig,
    tls: &TlsConfig,
) -> reqwest::Result<ClientBuilder> {
    let asks_by_tls =
        matches!(&config.unknown, UnknownPolicy::Query(query) if !query.url.starts_with("http:"));
    let proxies_by_tls = config.http.proxy.as_ref().is_some_and(|proxy| !proxy.reveal().starts_with("http:"));
    if let Some(ca) = &tls.ca {
        builder = builder.tls_certs_only(Certificate::from_pem_bundle(ca.reveal().as_bytes())?);
    } else if config.url.starts_with("http:") && !asks_by_tls && !proxies_by_tls {
        // Such a client never speaks TLS: it starts on a machine without certificate authorities, too.
        builder = builder.tls_certs_only([]);
    }
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        let pem = format!("{}\n{}", certificate.reveal(), key.reveal());
        builder = builder.identity(Identity::from_pem(pem.as_bytes())?);
    }
    Ok(builder)
}
