//! One connection of the sender: a request goes out whole, an answer comes in whole.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Most bytes of one answer; a receiver's are a few hundred.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// An answer of the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoadAnswer {
    pub(super) status: u16,
    /// `Hooklatch-Outcome`, which only Hooklatch sends.
    pub(super) outcome: Option<String>,
    /// True when the connection can be used again.
    is_kept: bool,
    /// Bytes of the body that follow the head.
    body: Length,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunked,
}

#[cfg(test)]
impl LoadAnswer {
    /// One of a receiver that keeps its connections.
    pub(super) fn of(status: u16, outcome: Option<&str>) -> Self {
        Self { status, outcome: outcome.map(str::to_owned), is_kept: true, body: Length::Bytes(0) }
    }
}

/// A connection that is made when it is needed.
pub(super) struct HttpConnection {
    addr: SocketAddr,
    stream: Option<TcpStream>,
    read: Vec<u8>,
}

impl HttpConnection {
    pub(super) fn new(addr: SocketAddr) -> Self {
        Self { addr, stream: None, read: Vec::with_capacity(4_096) }
    }

    /// Sends `request` and reads its answer. After an error the next request goes over a new connection: no one
    /// knows what became of this one.
    pub(super) async fn ask(
        &mut self,
        request: &[u8],
        timeout: Duration,
    ) -> Result<LoadAnswer, &'static str> {
        let asked = tokio::time::timeout(timeout, self.exchange(request)).await;
        let answer = match asked {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(word(&error)),
            Err(_) => Err("no answer in time"),
        };
        if !answer.as_ref().is_ok_and(|answer| answer.is_kept) {
            self.stream = None;
        }
        answer
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<LoadAnswer> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let stream = TcpStream::connect(self.addr).await?;
                stream.set_nodelay(true)?;
                none.insert(stream)
            }
        };
        stream.write_all(request).await?;
        self.read.clear();
        loop {
            if stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(answer) = whole(&self.read)? {
                return Ok(answer);
            }
            if self.read.len() > ANSWER_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

/// A word for a report: few of them, so that they can be counted.
fn word(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            "connection closed"
        }
        io::ErrorKind::InvalidData => "not HTTP/1.1",
        _ => "connection failed",
    }
}

/// The answer at the start of `read`, once it is there to its last byte.
fn whole(read: &[u8]) -> io::Result<Option<LoadAnswer>> {
    let Some(head_bytes) = read.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4) else {
        return Ok(None);
    };
    let head = read.get(..head_bytes).and_then(|head| std::str::from_utf8(head).ok());
    let answer = head.and_then(answer).ok_or(io::ErrorKind::InvalidData)?;
    let body = read.get(head_bytes..).unwrap_or_default();
    let is_whole = match answer.body {
        Length::Bytes(bytes) => body.len() >= bytes,
        Length::Chunked => body.ends_with(b"0\r\n\r\n"),
    };
    Ok(is_whole.then_some(answer))
}

fn answer(head: &str) -> Option<LoadAnswer> {
    let mut lines = head.lines();
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let mut answer = LoadAnswer { status, outcome: None, is_kept: true, body: Length::Bytes(0) };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            answer.body = Length::Bytes(value.parse().ok()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            answer.body = Length::Chunked;
        } else if name.eq_ignore_ascii_case("connection") {
            answer.is_kept = !value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("hooklatch-outcome") {
            answer.outcome = Some(value.to_owned());
        }
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_it_is_there_to_its_last_byte() {
        #[track_caller]
        fn check(text: &str, want: Option<(u16, Option<&str>, bool)>) {
            let found = whole(text.as_bytes()).expect("HTTP");
            let found = found.as_ref().map(|one| (one.status, one.outcome.as_deref(), one.is_kept));
            assert_eq!(found, want, "{text:?}");
        }
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nhooklatch-outcome: accepted\r\n\r\n";
        check(ok, None);
        check(&format!("{ok}{{"), None);
        check(&format!("{ok}{{}}"), Some((200, Some("accepted"), true)));
        check("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n", Some((204, None, false)));
        check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n", None);
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            Some((200, None, true)),
        );
        for wrong in
            ["SSH-2.0\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"]
        {
            assert!(whole(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }
}
