//! The calls themselves: to pinned hosts, by https, without redirects, bounded in size and time.

use std::sync::Arc;
use std::time::Duration;

use percent_encoding::utf8_percent_encode;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Certificate, Method, Proxy, Url};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::Value;

use super::{FetchError, NOT_LISTED};
use hooklatch_core::config::{FetchConfig, KindSettings};
use hooklatch_core::net::{Allowed, Guard, client_builder, read_capped};
use hooklatch_core::template::URL_ESCAPED;
use hooklatch_verify::spec::{ConfirmSpec, FetchForm, FetchSpec, is_host_of};
use hooklatch_verify::{Certificate as Parsed, Hash, KEY_ID_BYTES_MAX, PublicKey, digest};

/// Longest answer that is read. Bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest address that is asked. Bytes; that of a confirmation holds a token and the name of a topic.
const URL_BYTES_MAX: usize = 2_048;
/// Most keys of a set that are read.
const SET_N_MAX: usize = 64;
/// Longest time from connecting to the last byte: the sender waits for all of it.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Calls the hosts of one provider's sender.
pub(super) struct KeyClient {
    http: reqwest::Client,
    allowed: Allowed,
    chain: Arc<rustls_platform_verifier::Verifier>,
}

impl KeyClient {
    pub(crate) fn new(options: &FetchConfig) -> Result<Self, String> {
        let allowed = Allowed::new(&options.private_hosts);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let words = |error: reqwest::Error| error.without_url().to_string();
        let mut builder =
            client_builder().https_only(true).timeout(TIMEOUT).dns_resolver(Guard::new(allowed.clone()));
        let mut extra: Vec<CertificateDer<'static>> = Vec::new();
        if let Some(ca) = &options.ca {
            let pem = ca.reveal().as_bytes();
            builder = builder.tls_certs_merge(Certificate::from_pem_bundle(pem).map_err(words)?);
            extra.extend(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
        }
        if let Some(proxy) = &options.proxy {
            builder = builder.proxy(Proxy::all(proxy.reveal()).map_err(words)?);
        }
        let chain = rustls_platform_verifier::Verifier::new_with_extra_roots(extra, provider)
            .map_err(|error| error.to_string())?;
        Ok(Self { http: builder.build().map_err(words)?, allowed, chain: Arc::new(chain) })
    }

    /// The key `id`, and whatever other keys the same answer has, each with its id.
    pub(crate) async fn keys(
        &self,
        spec: &FetchSpec,
        id: &str,
        settings: &KindSettings,
    ) -> Result<Vec<(String, String)>, FetchError> {
        let filled = |text: &str, escape: fn(&str) -> String| filled(text, id, settings, escape);
        let url = self.url_of(spec, id, settings)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let method = if spec.method == "POST" { Method::POST } else { Method::GET };
        let mut request = self.http.request(method, url);
        for (name, text) in &spec.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(&filled(text, str::to_owned)?);
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err(FetchError::NoSuchKey("a header of the question cannot be written".to_owned()));
            };
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        if let Some(body) = &spec.body {
            request = request.header("content-type", "application/json").body(filled(body, in_json)?);
        }
        let answer = self.answer(request).await?;
        self.keys_in(spec, id, &host, &answer)
    }

    /// SHA-256 of all that decides which key an answer is: provider, setting and id, address, headers and body. With
    /// other settings it is another one. `None` where nothing could be asked.
    pub(crate) fn digest(
        &self,
        (provider, id): (&str, &str),
        spec: &FetchSpec,
        settings: &KindSettings,
    ) -> Option<[u8; 32]> {
        let url = self.url_of(spec, id, settings).ok()?;
        let filled = |text: &String| filled(text, id, settings, str::to_owned).ok();
        let headers: Option<Vec<String>> = spec.headers.values().map(filled).collect();
        let body: Option<Vec<String>> = spec.body.iter().map(filled).collect();
        let parts = serde_json::json!([provider, spec.setting, id, url.as_str(), headers?, body?]);
        digest(Hash::Sha256, &[parts.to_string().as_bytes()]).try_into().ok()
    }

    /// Checks a fetched certificate: that it is a key, whose it is, and its chain. Other forms need no check.
    pub(crate) fn check(&self, spec: &FetchSpec, host: &str, text: &str) -> Result<(), FetchError> {
        if spec.form != FetchForm::Pem {
            return Ok(());
        }
        check_name(spec, host, text)?;
        if spec.chain {
            self.check_chain(text)?;
        }
        // What is not a key would take the place of one.
        PublicKey::parse(text).map(drop).ok_or_else(|| FetchError::NoSuchKey("it cannot be read".to_owned()))
    }

    /// Whatever else it answers, 2xx confirms.
    pub(crate) async fn confirm(&self, spec: &ConfirmSpec, url: &str) -> Result<(), FetchError> {
        let url = self.pinned(url, &spec.hosts)?;
        if url.path() != spec.path {
            return Err(FetchError::NoSuchKey("its address is none where the sender confirms".to_owned()));
        }
        self.answer(self.http.get(url)).await.map(drop)
    }

    /// The address of the key `id`, if that is a place of the sender's own: checked without a call.
    pub(crate) fn url_of(
        &self,
        spec: &FetchSpec,
        id: &str,
        settings: &KindSettings,
    ) -> Result<Url, FetchError> {
        if !spec.is_id(id) {
            return Err(FetchError::NoSuchKey("its id is not of the form that the sender's have".to_owned()));
        }
        let url = if spec.url == "{id}" { id.to_owned() } else { filled(&spec.url, id, settings, percent)? };
        let url = self.pinned(&url, &spec.hosts)?;
        let is_bare = spec.path.is_none() || url.query().or(url.fragment()).is_none();
        if !spec.is_path(url.path()) || !is_bare {
            return Err(FetchError::NoSuchKey("its address is none where the sender has keys".to_owned()));
        }
        Ok(url)
    }

    /// The address, if it is one of the sender's own.
    fn pinned(&self, text: &str, hosts: &[String]) -> Result<Url, FetchError> {
        let refused = |why: &str| FetchError::NoSuchKey(why.to_owned());
        if text.len() > URL_BYTES_MAX {
            return Err(refused("its address is too long"));
        }
        let url = Url::parse(text).map_err(|_| refused("its address is none"))?;
        let is_plain = url.scheme() == "https" && url.username().is_empty() && url.password().is_none();
        if !is_plain || !is_host_of(url.host_str().unwrap_or_default(), hosts) {
            return Err(refused("its address is not on a host of the sender"));
        }
        self.allowed.check(&url).map_err(FetchError::NoSuchKey)?;
        Ok(url)
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Vec<u8>, FetchError> {
        let away = |error: reqwest::Error| FetchError::Away(error.without_url().to_string());
        let response = request.send().await.map_err(away)?;
        let code = response.status().as_u16();
        match code {
            200..=299 => {}
            // Busy, or our own credentials: neither says anything about the key.
            401 | 403 | 408 | 425 | 429 | 500..=599 => {
                return Err(FetchError::Away(format!("the sender's host answered {code}")));
            }
            _ => return Err(FetchError::NoSuchKey(format!("the sender's host answered {code}"))),
        }
        let body = read_capped(response, ANSWER_BYTES_MAX).await.map_err(away)?;
        body.ok_or_else(|| FetchError::Away(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes")))
    }

    fn keys_in(
        &self,
        spec: &FetchSpec,
        id: &str,
        host: &str,
        answer: &[u8],
    ) -> Result<Vec<(String, String)>, FetchError> {
        let odd = |why: &str| FetchError::Away(format!("the answer of the sender's host {why}"));
        let text = std::str::from_utf8(answer).map_err(|_| odd("is no text"))?;
        self.check(spec, host, text)?;
        if spec.form == FetchForm::Pem {
            return Ok(vec![(id.to_owned(), text.to_owned())]);
        }
        let json: Value = serde_json::from_str(text).map_err(|_| odd("is no JSON"))?;
        if spec.form == FetchForm::Jwks {
            let keys = json.get("keys").and_then(Value::as_array).ok_or_else(|| odd("is no JWK set"))?;
            let named = keys.iter().filter_map(|key| Some((key.get("kid")?.as_str()?, key)));
            let short = named.filter(|(kid, _)| kid.len() <= KEY_ID_BYTES_MAX).take(SET_N_MAX);
            return Ok(short.map(|(kid, key)| (kid.to_owned(), key.to_string())).collect());
        }
        match json.pointer(spec.pointer.as_deref().unwrap_or_default()) {
            Some(Value::String(key)) => Ok(vec![(id.to_owned(), key.clone())]),
            Some(key @ Value::Object(_)) => Ok(vec![(id.to_owned(), key.to_string())]),
            _ => Err(FetchError::NoSuchKey(NOT_LISTED.to_owned())),
        }
    }

    /// Refuses a certificate that no authority vouches for; its subject is for the kind to check.
    fn check_chain(&self, pem: &str) -> Result<(), FetchError> {
        let odd = |why: String| FetchError::NoSuchKey(format!("its certificate is not believed: {why}"));
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect();
        let (leaf, rest) = chain.split_first().ok_or_else(|| odd("there is none".to_owned()))?;
        let name = Parsed::parse(pem).and_then(|leaf| leaf.names.into_iter().next());
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        let name = name.ok_or_else(|| odd("it names no host".to_owned()))?;
        self.chain
            .verify_server_cert(leaf, rest, &name, &[], UnixTime::now())
            .map(drop)
            .map_err(|error| odd(error.to_string()))
    }
}

/// Refuses a certificate that is of another name than the sender's for this host, or not valid now.
fn check_name(spec: &FetchSpec, host: &str, pem: &str) -> Result<(), FetchError> {
    if spec.names.is_empty() {
        return Ok(());
    }
    let refused = |why: &str| FetchError::NoSuchKey(format!("its certificate is not believed: {why}"));
    let certificate = Parsed::parse(pem).ok_or_else(|| refused("it cannot be read"))?;
    if !certificate.names.iter().any(|name| spec.is_name(name, host)) {
        return Err(refused("it is of another name"));
    }
    let now_s = i64::try_from(UnixTime::now().as_secs()).unwrap_or(i64::MAX);
    if certificate.is_valid_at(now_s) { Ok(()) } else { Err(refused("it is not valid now")) }
}

fn percent(text: &str) -> String {
    utf8_percent_encode(text, URL_ESCAPED).to_string()
}

/// A text as it stands between the quotes of a JSON document.
fn in_json(text: &str) -> String {
    let quoted = Value::String(text.to_owned()).to_string();
    quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned()
}

/// `text` with `{id}` and `{setting:NAME}` or `{setting:NAME|default}` filled in, once: what is filled in is not looked
/// at again.
fn filled(
    text: &str,
    id: &str,
    settings: &KindSettings,
    escape: fn(&str) -> String,
) -> Result<String, FetchError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let place = after.split_once('}').filter(|(name, _)| *name == "id" || name.starts_with("setting:"));
        let Some((name, tail)) = place else {
            out.push('{');
            rest = after;
            continue;
        };
        let value = match name.strip_prefix("setting:") {
            Some(setting) => {
                let (setting, default) =
                    setting.split_once('|').map_or((setting, None), |(name, default)| (name, Some(default)));
                settings.text(setting).or(default).ok_or_else(|| {
                    FetchError::Away(format!(
                        "setting `{setting}` is missing, without which keys cannot be fetched"
                    ))
                })?
            }
            None => id,
        };
        out.push_str(&escape(value));
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> KindSettings {
        let mut settings = KindSettings::default();
        settings.push("region", None, "eu/1");
        settings
    }

    #[test]
    fn places_are_filled_once_and_escaped_for_where_they_stand() {
        #[track_caller]
        fn check(text: &str, id: &str, escape: fn(&str) -> String, want: &str) {
            assert_eq!(filled(text, id, &settings(), escape).as_deref(), Ok(want), "{text}");
        }
        check("https://k.test/{setting:region}/{id}", "a b?", percent, "https://k.test/eu%2F1/a%20b%3F");
        check(r#"{"id":"{id}"}"#, "a\"\\", in_json, r#"{"id":"a\"\\"}"#);
        check("{id}", "{setting:region}", str::to_owned, "{setting:region}");
        check("{setting:no|default}{", "", str::to_owned, "default{");
        let missing = filled("{setting:no}", "", &settings(), str::to_owned);
        assert!(matches!(missing, Err(FetchError::Away(why)) if why.contains("`no`")));
    }
}
