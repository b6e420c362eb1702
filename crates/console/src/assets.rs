//! The style, the script and the icon: in the binary, by names that change with what is in them.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::header;
use sha2::{Digest, Sha256};

use crate::page::PageError;

/// A file that pages load.
pub(crate) struct Asset {
    /// Path below the console's own, with a piece of the digest of its text.
    pub path: String,
    media_type: &'static str,
    text: &'static str,
}

impl Asset {
    fn new(stem: &str, ending: &str, media_type: &'static str, text: &'static str) -> Self {
        let digest = hex::encode(Sha256::digest(text));
        let path = format!("/assets/{stem}-{}.{ending}", digest.get(..16).unwrap_or_default());
        Self { path, media_type, text }
    }
}

/// The style of every page.
pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "css", "text/css; charset=utf-8", include_str!("assets/console.css"))
});
/// The script of every page; all works without it, and some of it better with it.
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "js", "text/javascript; charset=utf-8", include_str!("assets/console.js"))
});
/// The icon in a browser's tab.
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg")));

/// The file of this path; a browser keeps it for a year, because another text has another path.
pub(crate) fn serve(path: &str) -> Result<Response, PageError> {
    let asset = [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.path == path);
    let asset = asset.ok_or_else(PageError::not_found)?;
    let headers = [
        (header::CONTENT_TYPE, asset.media_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    Ok((headers, asset.text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_what_is_in_it() {
        let (one, other) = (Asset::new("a", "css", "text/css", "x"), Asset::new("a", "css", "text/css", "y"));
        assert_eq!(one.path, "/assets/a-2d711642b726b044.css");
        assert_ne!(one.path, other.path);
        assert!(serve(&STYLE.path).is_ok() && serve(&one.path).is_err());
    }

    #[test]
    fn the_script_is_short_and_makes_nothing_of_text_but_text() {
        assert!(SCRIPT.text.lines().count() < 220, "{} lines", SCRIPT.text.lines().count());
        for word in ["innerHTML =", "eval(", "document.write", "new Function"] {
            assert!(!SCRIPT.text.contains(word), "{word}");
        }
    }
}
