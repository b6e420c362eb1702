//! The console behind a proxy that shows it under a path of its own, which it takes off or leaves on.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;

use super::Browser;
use crate::contract::Operator;
use crate::database::{Database, On};
use crate::process::{Server, client};

const ADMIN: &str = "admin-token-0123456789";

/// A proxy: where it leads, and how it writes addresses.
#[derive(Clone)]
struct Proxy {
    to: SocketAddr,
    /// True when it takes the path off under which it shows the console.
    is_stripping: bool,
    /// The `Host` that it sends on; `None` for the one that it got.
    host: Option<String>,
}

impl Proxy {
    async fn start(self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(pass_on).with_state(self);
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }
}

async fn pass_on(State(proxy): State<Proxy>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().as_str();
    let path = if proxy.is_stripping { path.strip_prefix("/ops/hooklatch").unwrap_or(path) } else { path };
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let mut headers = parts.headers;
    if let Some(host) = proxy.host {
        headers.insert("host", host.parse().unwrap());
    }
    let client =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let request =
        client.request(parts.method, format!("http://{}{path}", proxy.to)).headers(headers).body(body);
    let answer = request.send().await.unwrap();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    response.headers_mut().remove("transfer-encoding");
    *response.body_mut() = Body::from(answer.bytes().await.unwrap());
    response
}

async fn serve(database: &Database, public_url: &str) -> Server {
    let mut server = Server::prepare(&database.url, "");
    let config = std::fs::read_to_string(server.config()).unwrap();
    let admin = format!(
        "public_url = \"{public_url}\"\n\
         tokens = [{{ name = \"ann\", role = \"admin\", token = \"{ADMIN}\" }}]\n[database]"
    );
    std::fs::write(server.config(), config.replace("[database]", &admin)).unwrap();
    server.spawn().await;
    server
}

#[tokio::test]
async fn under_a_path_of_a_proxy_every_link_form_and_cookie_stays_below_it() {
    drop(client());
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = serve(&database, "http://ops.example.com/ops/hooklatch/").await;
    for is_stripping in [true, false] {
        for host in [None, Some("ops.example.com".to_owned()), Some("127.0.0.1:8081".to_owned())] {
            let case = format!("stripping: {is_stripping}, host: {host:?}");
            let at = Proxy { to: server.admin, is_stripping, host: host.clone() }.start().await;
            through(&format!("http://{at}/ops/hooklatch"), host.is_none(), &case).await;
        }
    }
    // Without the proxy: the same, as it is.
    through(&format!("http://{}/ops/hooklatch", server.admin), true, "directly").await;
    through(&format!("http://{}", server.admin), true, "directly, without the path").await;
    assert_eq!(Operator::new(server.admin, ADMIN).get("/me").await.status, 200);
    let near = Browser::new(server.admin).get("/ops/hooklatch2/events").await;
    assert_eq!(near.status, 404);
}

/// Signs in through the proxy, looks around, sends a form and signs out.
async fn through(base: &str, is_own_origin: bool, case: &str) {
    let mut ann = Browser::at(base.to_owned());
    let asked = ann.get("/events?state=handled").await;
    assert_eq!(asked.status, 303, "{case}: {}", asked.text);
    let to = "/ops/hooklatch/sign-in?to=%2Fevents%3Fstate%3Dhandled";
    assert_eq!(asked.header("location"), to, "{case}");
    let page = ann.get("/sign-in?to=%2Fevents%3Fstate%3Dhandled").await;
    assert!(page.text.contains("action=\"/ops/hooklatch/sign-in\""), "{case}: {}", page.text);
    // A browser says the origin that it knows.
    let origin = if is_own_origin {
        base.splitn(4, '/').take(3).collect::<Vec<_>>().join("/")
    } else {
        "http://ops.example.com".to_owned()
    };
    let headers = [("origin", origin.as_str()), ("sec-fetch-site", "same-origin")];
    let fields = [("token", ADMIN), ("to", "/events?state=handled")];
    let signed = ann.ask("POST", "/sign-in", &headers, Some(&fields)).await;
    assert_eq!(
        (signed.status, signed.header("location")),
        (303, "/ops/hooklatch/events?state=handled"),
        "{case}: {}",
        signed.text
    );
    let cookie = signed.header("set-cookie");
    assert!(cookie.contains("; Path=/ops/hooklatch; ") && !cookie.contains("Secure"), "{case}: {cookie}");
    ann.keep(&signed);
    for path in ["/", "/events?state=handled", "/messages", "/settings", "/audit"] {
        let page = ann.get(path).await;
        assert_eq!(page.status, 200, "{case}: {path}");
        for attribute in ["href=\"/", "action=\"/", "src=\"/"] {
            for link in page.text.split(attribute).skip(1) {
                assert!(
                    link.starts_with("ops/hooklatch/"),
                    "{case}: {path} links to /{}",
                    link.split('"').next().unwrap()
                );
            }
        }
    }
    let style = ann
        .get("/")
        .await
        .text
        .split("href=\"/ops/hooklatch")
        .find(|rest| rest.starts_with("/assets/console"))
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(ann.get(&style).await.status, 200, "{case}: {style}");
    let me = ann.ask("GET", "/v1/me", &[("authorization", &format!("Bearer {ADMIN}"))], None).await;
    assert_eq!(me.status, 200, "{case}: {}", me.text);
    let gone = ann.ask("POST", "/sign-out", &headers, Some(&[])).await;
    assert_eq!((gone.status, gone.header("location")), (303, "/ops/hooklatch/sign-in?why=out"), "{case}");
    assert!(gone.header("set-cookie").contains("; Path=/ops/hooklatch; Max-Age=0"), "{case}");
}

#[tokio::test]
async fn behind_https_the_cookie_goes_over_https_alone() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = serve(&database, "https://ops.example.com").await;
    let browser = Browser::new(server.admin);
    let ask = async |origin: &str| {
        let headers = [("host", "ops.example.com"), ("origin", origin)];
        browser.ask("POST", "/sign-in", &headers, Some(&[("token", ADMIN)])).await
    };
    let signed = ask("https://ops.example.com").await;
    assert_eq!((signed.status, signed.header("location")), (303, "/"));
    let cookie = signed.header("set-cookie");
    assert!(cookie.ends_with("; Path=/; Max-Age=43200; Secure"), "{signed:?}");
    // Browsers take a cookie of this name from this host alone, over TLS.
    let session = cookie.split(';').next().unwrap().to_owned();
    let (name, value) = session.split_once('=').unwrap();
    assert_eq!(name, "__Host-hooklatch_session");
    let status = async |cookie: String| {
        let mut browser = Browser::new(server.admin);
        browser.cookie = Some(cookie);
        browser.get("/").await.status
    };
    assert_eq!(status(format!("hooklatch_session={value}")).await, 303, "a sibling host could set this one");
    assert_eq!(status(session.clone()).await, 200);
    let lost = ask("http://ops.example.com").await;
    assert_eq!((lost.status, lost.header("set-cookie")), (400, ""));
    assert!(lost.text.contains("plain HTTP"), "{}", lost.text);
    let foreign = ask("https://evil.example").await;
    assert_eq!(foreign.status, 403);
}
