//! The path under which a proxy shows the operator side: taken off, whether or not the proxy has done so already.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use http::Uri;
use http::uri::PathAndQuery;
use tower::util::MapRequest;

/// The same routes, also below `base`, which has no slash at its end and is empty for none.
pub fn below(base: String, router: Router) -> Router {
    if base.is_empty() {
        return router;
    }
    // In front of the router, which has chosen a route before any layer of its own.
    let service = MapRequest::new(router, move |mut request: Request<Body>| {
        if let Some(uri) = without(&base, request.uri()) {
            *request.uri_mut() = uri;
        }
        request
    });
    Router::new().fallback_service(service)
}

/// The address without the prefix; `None` when it does not begin with it.
fn without(base: &str, uri: &Uri) -> Option<Uri> {
    let rest = uri.path().strip_prefix(base)?;
    let path = match rest {
        "" => "/",
        rest if rest.starts_with('/') => rest,
        _ => return None,
    };
    let text = uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(text.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_taken_off_whole_parts_alone() {
        #[track_caller]
        fn check(given: &str, want: Option<&str>) {
            let found = without("/ops/hooklatch", &given.parse().expect("an address"));
            assert_eq!(found.map(|uri| uri.to_string()).as_deref(), want, "{given}");
        }
        check("/ops/hooklatch", Some("/"));
        check("/ops/hooklatch?a=b", Some("/?a=b"));
        check("/ops/hooklatch/events/a%2Fb?c=%20", Some("/events/a%2Fb?c=%20"));
        check("http://ops.internal/ops/hooklatch/v1/me", Some("http://ops.internal/v1/me"));
        check("/ops/hooklatch2/events", None);
        check("/events", None);
        check("/ops", None);
    }
}
