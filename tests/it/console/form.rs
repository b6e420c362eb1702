//! A form as a page has it, filled in and sent by a browser that runs no scripts.

use super::Browser;
use super::browser::Shown;

/// A form of a page: where it is sent to, and its fields.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) action: String,
    pub(super) fields: Vec<(String, String)>,
    /// Acts that its buttons stand for.
    pub(super) acts: Vec<String>,
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

    /// The same, with another value in this field.
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

    /// The same, for another address.
    pub(super) fn to(&self, action: &str) -> Self {
        Self { action: action.to_owned(), ..self.clone() }
    }

    pub(super) fn value(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(one, _)| one == name);
        &found.unwrap_or_else(|| panic!("no {name}: {:?}", self.fields)).1
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Sends it as a browser does.
    pub(super) async fn send(&self, browser: &Browser) -> Shown {
        browser.post(&self.action, &self.pairs()).await
    }

    /// Sends it with what a browser says of the page that it is on, and gives the status.
    pub(super) async fn status_from(&self, browser: &Browser, headers: &[(&str, &str)]) -> u16 {
        browser.ask("POST", &self.action, headers, Some(&self.pairs())).await.status
    }
}

/// The value of an attribute of the element that `text` begins in.
fn attribute(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!("{name}=\"")).unwrap();
    let value = rest.split('"').next().unwrap();
    value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// The text of a page that is there.
pub(super) async fn text(browser: &Browser, path: &str) -> String {
    let shown = browser.get(path).await;
    assert_eq!(shown.status, 200, "{path}: {}", shown.text);
    shown.text
}

#[track_caller]
pub(super) fn has(text: &str, wanted: &[&str]) {
    for one in wanted {
        assert!(text.contains(one), "`{one}` is not in: {text}");
    }
}

#[track_caller]
pub(super) fn has_not(text: &str, unwanted: &[&str]) {
    for one in unwanted {
        assert!(!text.contains(one), "`{one}` is in: {text}");
    }
}
