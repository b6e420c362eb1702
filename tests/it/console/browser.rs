//! A browser without a window: it keeps the cookie of its session, follows nothing by itself and sends what browsers
//! send.

use std::net::SocketAddr;

use http::HeaderMap;

use crate::process::client;

/// A user of the console.
#[derive(Clone)]
pub struct Browser {
    /// Where the console is, such as `http://127.0.0.1:8081`, with the prefix of a proxy.
    pub base: String,
    pub client: reqwest::Client,
    /// `name=value` of the session, when there is one.
    pub cookie: Option<String>,
}

/// A page as it was received.
#[derive(Debug)]
pub struct Shown {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Shown {
    /// The value of a header; empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The value of a field of this name in the first form that has one.
    pub fn field(&self, name: &str) -> String {
        let (_, rest) = self.text.split_once(&format!("name=\"{name}\" value=\"")).expect("a field");
        rest.split('"').next().unwrap().replace("&quot;", "\"").replace("&amp;", "&")
    }
}

impl Browser {
    /// A browser without a session.
    pub fn new(admin: SocketAddr) -> Self {
        Self::at(format!("http://{admin}"))
    }

    /// The same at this address.
    pub fn at(base: String) -> Self {
        drop(client());
        let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        // One connection for each request: refusals on a shared one are delayed.
        Self { base, client: builder.pool_max_idle_per_host(0).build().unwrap(), cookie: None }
    }

    /// One that is signed in with this token.
    pub async fn signed_in(admin: SocketAddr, token: &str) -> Self {
        let mut browser = Self::new(admin);
        let shown = browser.sign_in(token, "/").await;
        assert_eq!(shown.status, 303, "{}", shown.text);
        browser
    }

    /// Signs in, and keeps the cookie.
    pub async fn sign_in(&mut self, token: &str, to: &str) -> Shown {
        let shown = self.post("/sign-in", &[("token", token), ("to", to)]).await;
        self.keep(&shown);
        shown
    }

    /// Keeps a cookie that was given, or throws away one that was taken.
    pub fn keep(&mut self, shown: &Shown) {
        let given = shown.header("set-cookie").split(';').next().unwrap_or_default();
        if let Some((_, value)) = given.split_once('=') {
            self.cookie = (!value.is_empty()).then(|| given.to_owned());
        }
    }

    /// A page, as when a user types its address.
    pub async fn get(&self, path: &str) -> Shown {
        self.ask("GET", path, &[("sec-fetch-site", "none")], None).await
    }

    /// The beginning of an answer that has no end.
    pub async fn begin(&self, path: &str) -> Shown {
        let mut request = self.client.get(format!("{}{path}", self.base)).header("sec-fetch-site", "none");
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        let response = request.send().await.unwrap();
        Shown { status: response.status().as_u16(), headers: response.headers().clone(), text: String::new() }
    }

    /// A form of ours, sent.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Shown {
        let origin = self.base.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let headers = [("sec-fetch-site", "same-origin"), ("origin", origin.as_str())];
        self.ask("POST", path, &headers, Some(fields)).await
    }

    /// Any request, with the session if there is one.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        fields: Option<&[(&str, &str)]>,
    ) -> Shown {
        let mut request = self.client.request(method.parse().unwrap(), format!("{}{path}", self.base));
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(fields) = fields {
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Shown { status, headers, text: response.text().await.unwrap() }
    }
}
