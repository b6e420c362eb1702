//! A fake operator API: it answers as a test says, records its requests, and can close connections. And the real
//! binary, run against it with a home folder of its own.

use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A request that the fake received.
#[derive(Debug, Clone)]
pub(super) struct ReceivedRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl ReceivedRequest {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// An answer of the stand-in.
pub(super) enum Says {
    /// This status and this JSON.
    Json(u16, Value),
    /// The same with these headers.
    With(u16, Value, Vec<(&'static str, String)>),
    /// This status with a page, as a proxy answers.
    Page(u16),
    /// The connection is closed once the request was read.
    HangUp,
}

impl Says {
    /// An answer that is good.
    pub(super) fn ok(body: Value) -> Self {
        Self::Json(200, body)
    }

    /// A problem as the API renders it.
    pub(super) fn problem(status: u16, code: &str, detail: &str) -> Self {
        Self::Json(
            status,
            json!({ "type": "about:blank", "title": "No", "status": status, "code": code, "detail": detail }),
        )
    }
}

type Answer = Box<dyn FnMut(&ReceivedRequest) -> Says + Send>;

/// A server, and a person's machine from which it is asked.
pub(super) struct Stand {
    addr: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    home: TempDir,
    _server: JoinSet<()>,
}

/// The exit code and output of one command.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl Stand {
    pub(super) async fn start(answer: impl FnMut(&ReceivedRequest) -> Says + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(answer)));
        let mut server = JoinSet::new();
        server.spawn(serve(listener, Arc::clone(&received), answer));
        Self { addr, received, home: tempfile::tempdir().unwrap(), _server: server }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Everything that was asked so far.
    pub(super) fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }

    /// Requests that would change something.
    pub(super) fn posts(&self) -> Vec<ReceivedRequest> {
        self.received().into_iter().filter(|received| received.method == "POST").collect()
    }

    pub(super) fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    /// The command as it is, without saying which server.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command
            .args(arguments)
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command as a person with a token for this server.
    pub(super) async fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(arguments);
        command.env("HOOKLATCH_URL", self.url()).env("HOOKLATCH_TOKEN", "a-token-0123456789");
        ran(command).await
    }
}

/// Runs it, while the stand-in goes on answering.
pub(super) async fn ran(mut command: Command) -> Ran {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

async fn serve(
    listener: TcpListener,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    answer: Arc<Mutex<Answer>>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (received, answer) = (Arc::clone(&received), Arc::clone(&answer));
        connections.spawn(async move {
            let service =
                service_fn(move |request| reply(request, Arc::clone(&received), Arc::clone(&answer)));
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn reply(
    request: Request<Incoming>,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    answer: Arc<Mutex<Answer>>,
) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let one = ReceivedRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    received.lock().unwrap().push(one.clone());
    let says = answer.lock().unwrap()(&one);
    let (status, headers, body) = match says {
        Says::HangUp => return Err(io::Error::other("ordered to")),
        Says::Json(status, body) => (status, Vec::new(), body.to_string()),
        Says::With(status, body, headers) => (status, headers, body.to_string()),
        Says::Page(status) => (status, Vec::new(), "<html>Gateway Timeout</html>".to_owned()),
    };
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(body))).unwrap())
}
