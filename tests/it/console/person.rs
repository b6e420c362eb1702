//! A person with a browser that runs no scripts: asks for pages, fills in their forms, and follows nothing by itself.

use reqwest::redirect::Policy;

use crate::process::{Server, client};

/// One who looks at the console.
pub(super) struct Person {
    base: String,
    client: reqwest::Client,
}

/// A page, or where one is sent instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) status: u16,
    /// Where it leads, for an answer that sends on.
    pub(super) location: String,
    pub(super) text: String,
}

/// A form of a page: where it is sent to, and its fields.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) action: String,
    pub(super) fields: Vec<(String, String)>,
    /// Acts that its buttons stand for.
    pub(super) acts: Vec<String>,
}

impl Person {
    pub(super) fn at(server: &Server) -> Self {
        // The first client in the process installs what all of them need.
        drop(client());
        let client = reqwest::Client::builder().no_proxy().redirect(Policy::none());
        Self {
            base: format!("http://{}", server.admin),
            client: client.timeout(std::time::Duration::from_secs(30)).build().unwrap(),
        }
    }

    pub(super) async fn get(&self, path: &str) -> Page {
        page(self.client.get(format!("{}{path}", self.base)).send().await.unwrap()).await
    }

    /// A page that is there.
    pub(super) async fn text(&self, path: &str) -> String {
        let page = self.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        page.text
    }

    /// Sends a form as a browser does.
    pub(super) async fn send(&self, form: &Form) -> Page {
        page(self.ask(form, &[("sec-fetch-site", "same-origin"), ("origin", &self.base)]).await).await
    }

    /// Sends a form with what a browser says of the page that it is on, and gives the status.
    pub(super) async fn status_from(&self, form: &Form, headers: &[(&str, &str)]) -> u16 {
        self.ask(form, headers).await.status().as_u16()
    }

    async fn ask(&self, form: &Form, headers: &[(&str, &str)]) -> reqwest::Response {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(&form.fields).finish();
        let mut request = self.client.post(format!("{}{}", self.base, form.action)).body(body);
        request = request.header("content-type", "application/x-www-form-urlencoded");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }
}

async fn page(response: reqwest::Response) -> Page {
    let status = response.status().as_u16();
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let location = header("location").unwrap_or_default();
    if status != 303 {
        assert_eq!(header("cache-control").as_deref(), Some("no-store"));
        assert!(header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    }
    Page { status, location, text: response.text().await.unwrap() }
}

impl Form {
    /// The form of a page that is sent to this address.
    pub(super) fn of(text: &str, action: &str) -> Self {
        let start = format!("method=\"post\" action=\"{action}\">");
        let (_, rest) = text.split_once(&start).unwrap_or_else(|| panic!("no form for {action}: {text}"));
        let inside = rest.split("</form>").next().unwrap();
        let hidden = inside.split("<input type=\"hidden\" ").skip(1);
        let fields = hidden.map(|one| (attribute(one, "name"), attribute(one, "value"))).collect();
        let buttons = inside.split("<button type=\"submit\" ").skip(1);
        let acts = buttons.map(|one| attribute(one, "value")).collect();
        Self { action: action.to_owned(), fields, acts }
    }

    /// The same, filled in.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut form = self.clone();
        form.fields.retain(|(one, _)| one != name);
        form.fields.push((name.to_owned(), value.to_owned()));
        form
    }

    /// The same with an act and a reason.
    pub(super) fn act(&self, act: &str, reason: &str) -> Self {
        self.with("act", act).with("reason", reason)
    }

    pub(super) fn value(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(one, _)| one == name);
        &found.unwrap_or_else(|| panic!("no {name}: {:?}", self.fields)).1
    }
}

/// The value of an attribute of the element that `text` begins in.
fn attribute(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!("{name}=\"")).unwrap();
    let value = rest.split('"').next().unwrap();
    value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}
