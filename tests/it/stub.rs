//! A destination that a test controls: it honours idempotency keys, records its calls, and misbehaves by its mode.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, Request, Response, Version};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// How one request is answered. Without any, the answer is 200.
#[derive(Clone)]
pub(crate) enum Mode {
    /// This status, no effect.
    Status(u16),
    /// This status and these headers, no effect.
    With(u16, &'static [(&'static str, &'static str)]),
    /// The effect, and then nothing ever.
    ActThenHang,
    /// The effect, and then the connection is closed.
    ActThenDrop,
    /// The effect, and 200 once the test releases it.
    WhenReleased,
    /// Nothing for as long as the caller waits; the effect once the test releases it.
    WorkUntilReleased,
    /// The effect, and this status from a gateway that lost the answer.
    ActThenStatus(u16),
    /// No effect, and the connection is closed.
    Drop,
    /// 200 at once, and a body without an end.
    Endless,
    /// 200 at once, and a body that never arrives.
    Stall,
    /// The effect, 200, and this many bytes.
    Large(usize),
    /// The effect, 200, and this body.
    Says(&'static str),
}

/// The calls under one idempotency key.
#[derive(Default, Clone)]
pub(crate) struct Call {
    pub(crate) requests_n: u32,
    pub(crate) effects_n: u32,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) bodies: Vec<Bytes>,
}

#[derive(Default)]
struct Memory {
    calls: BTreeMap<String, Call>,
    modes: VecDeque<Mode>,
    questions: Vec<String>,
    question_modes: VecDeque<Mode>,
    on_question: Option<Box<dyn Fn() + Send>>,
    release: Arc<Notify>,
    /// Keys of calls whose effects are pending.
    at_work: Vec<String>,
    versions: Vec<Version>,
}

/// A destination that runs until it is dropped.
#[derive(Clone)]
pub(crate) struct Stub {
    pub(crate) addr: SocketAddr,
    memory: Arc<Mutex<Memory>>,
    _server: Arc<JoinSet<()>>,
}

type Body = BoxBody<Bytes, io::Error>;

impl Stub {
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// At another loopback address.
    pub(crate) async fn start_at(host: &str) -> Self {
        Self::serve_on(TcpListener::bind((host, 0)).await.unwrap(), None)
    }

    /// With TLS if `tls` is given. HTTP/1.1 and 2, with TLS or without.
    pub(crate) async fn start_with(tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        Self::serve_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), tls)
    }

    fn serve_on(listener: TcpListener, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let addr = listener.local_addr().unwrap();
        let memory = Arc::new(Mutex::new(Memory::default()));
        let mut server = JoinSet::new();
        server.spawn(serve(listener, tls.map(Into::into), Arc::clone(&memory)));
        Self { addr, memory, _server: Arc::new(server) }
    }

    /// The next requests are answered so, one each.
    pub(crate) fn next(&self, modes: &[Mode]) {
        self.memory.lock().unwrap().modes.extend(modes.iter().cloned());
    }

    /// Forgets the modes of later requests: they are answered with 200.
    pub(crate) fn forget_modes(&self) {
        self.memory.lock().unwrap().modes.clear();
    }

    /// The next questions are answered so, instead of by what is known.
    pub(crate) fn next_question(&self, modes: &[Mode]) {
        self.memory.lock().unwrap().question_modes.extend(modes.iter().cloned());
    }

    /// Called on each query, before it is answered.
    pub(crate) fn on_question(&self, act: impl Fn() + Send + 'static) {
        self.memory.lock().unwrap().on_question = Some(Box::new(act));
    }

    /// Lets every request of [`Mode::WorkUntilReleased`] have its effect.
    pub(crate) fn work_ends(&self) {
        let mut memory = self.memory.lock().unwrap();
        for key in std::mem::take(&mut memory.at_work) {
            memory.calls.entry(key).or_default().effects_n += 1;
        }
    }

    /// Lets one request of [`Mode::WhenReleased`] be answered.
    pub(crate) fn release(&self) {
        self.memory.lock().unwrap().release.notify_one();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/calls", self.addr)
    }

    pub(crate) fn query_url(&self) -> String {
        format!("http://{}/effects?key={{{{ idempotency_key }}}}", self.addr)
    }

    /// Every call it received, by its key.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.memory.lock().unwrap().calls.values().cloned().collect()
    }

    pub(crate) fn call(&self, key: &str) -> Call {
        self.memory.lock().unwrap().calls.get(key).cloned().unwrap_or_default()
    }

    /// Requests and effects under one key.
    pub(crate) fn counts(&self, key: &str) -> (u32, u32) {
        let call = self.call(key);
        (call.requests_n, call.effects_n)
    }

    /// The HTTP version of each request.
    pub(crate) fn versions(&self) -> Vec<Version> {
        self.memory.lock().unwrap().versions.clone()
    }

    /// Requests under whatever key.
    pub(crate) fn requests_n(&self) -> u32 {
        self.memory.lock().unwrap().calls.values().map(|call| call.requests_n).sum()
    }

    pub(crate) fn questions_n(&self) -> usize {
        self.memory.lock().unwrap().questions.len()
    }
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, memory: Arc<Mutex<Memory>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (memory, tls) = (Arc::clone(&memory), tls.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&memory), request));
            let http = auto::Builder::new(TokioExecutor::new());
            match tls {
                None => drop(http.serve_connection(TokioIo::new(stream), service).await),
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        drop(http.serve_connection(TokioIo::new(stream), service).await);
                    }
                }
            }
        });
    }
}

async fn answer(memory: Arc<Mutex<Memory>>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let mode = if head.method == Method::GET {
        question(&memory, &head.uri.to_string())
    } else {
        effect(&memory, &head, body)
    };
    match mode {
        Mode::Status(code) | Mode::ActThenStatus(code) => Ok(plain(code, "{}")),
        Mode::With(code, headers) => {
            let mut response = plain(code, "{}");
            for (name, value) in headers {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            Ok(response)
        }
        Mode::WhenReleased => {
            let release = Arc::clone(&memory.lock().unwrap().release);
            release.notified().await;
            Ok(plain(200, "{}"))
        }
        Mode::Large(bytes_n) => {
            let chunk = Bytes::from(vec![b'x'; 64 * 1024]);
            let chunks = stream::iter(
                (0..bytes_n / chunk.len()).map(move |_| Ok::<_, io::Error>(Frame::data(chunk.clone()))),
            );
            Ok(Response::new(BodyExt::boxed(StreamBody::new(chunks))))
        }
        Mode::Says(body) => Ok(plain(200, body)),
        Mode::ActThenHang | Mode::WorkUntilReleased => std::future::pending().await,
        Mode::ActThenDrop | Mode::Drop => Err(io::Error::other("dropped by order")),
        Mode::Endless => {
            let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
            let chunks = stream::repeat_with(move || Ok::<_, Infallible>(Frame::data(chunk.clone())));
            Ok(Response::new(BodyExt::boxed(StreamBody::new(chunks).map_err(|never| match never {}))))
        }
        Mode::Stall => {
            let first = stream::iter([Ok::<_, io::Error>(Frame::data(Bytes::from_static(b"{")))]);
            Ok(Response::new(BodyExt::boxed(StreamBody::new(first.chain(stream::pending())))))
        }
    }
}

fn effect(memory: &Mutex<Memory>, head: &http::request::Parts, body: Bytes) -> Mode {
    let mut memory = memory.lock().unwrap();
    let mode = memory.modes.pop_front().unwrap_or(Mode::Status(200));
    let key = head.headers["idempotency-key"].to_str().unwrap();
    memory.versions.push(head.version);
    let call = memory.calls.entry(key.to_owned()).or_default();
    call.requests_n += 1;
    if matches!(&mode, Mode::ActThenStatus(_)) {
        // A destination that ignores keys.
        call.effects_n += 1;
    } else if !matches!(&mode, Mode::Status(300..) | Mode::With(..) | Mode::Drop | Mode::WorkUntilReleased)
        && call.effects_n == 0
    {
        call.effects_n = 1;
    }
    call.path = head.uri.to_string();
    call.headers = head.headers.clone();
    call.bodies.push(body);
    if matches!(mode, Mode::WorkUntilReleased) {
        memory.at_work.push(key.to_owned());
    }
    mode
}

fn question(memory: &Mutex<Memory>, uri: &str) -> Mode {
    let mut memory = memory.lock().unwrap();
    memory.questions.push(uri.to_owned());
    if let Some(act) = &memory.on_question {
        act();
    }
    if let Some(mode) = memory.question_modes.pop_front() {
        return mode;
    }
    let key = uri.rsplit_once("key=").map_or("", |(_, key)| key);
    let key = percent_encoding::percent_decode_str(key).decode_utf8().unwrap();
    let has_happened = memory.calls.get(key.as_ref()).is_some_and(|call| call.effects_n > 0);
    Mode::Status(if has_happened { 200 } else { 404 })
}

fn plain(code: u16, body: &'static str) -> Response<Body> {
    let body = Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {});
    let mut response = Response::new(BodyExt::boxed(body));
    *response.status_mut() = code.try_into().unwrap();
    response
}
