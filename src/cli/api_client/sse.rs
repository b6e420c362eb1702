//! Server-sent events, as the HTML standard describes them, out of the pieces in which they arrive.

/// Longest line that is kept. Bytes; what is longer is no event of ours.
const LINE_BYTES_MAX: usize = 1 << 20;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SseEvent {
    /// The id to resume behind; `None` when the stream has said none so far.
    pub(crate) id: Option<String>,
    /// Lines of data, joined.
    pub(crate) data: String,
}

/// Takes a stream apart.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    rest: Vec<u8>,
    data: Vec<String>,
    /// The id that the current block says.
    said_id: Option<String>,
    /// The id behind which to resume: that of the last block that was whole, with data or without.
    pub(crate) id: Option<String>,
    /// The wait that the server wants before the next connection. Milliseconds.
    pub(crate) retry_ms: Option<u64>,
}

impl SseReader {
    /// A reader of a stream that resumes behind `id`.
    pub(crate) fn behind(id: Option<String>) -> Self {
        Self { said_id: id.clone(), id, ..Self::default() }
    }

    /// The events that are whole with this piece.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Vec<SseEvent> {
        self.rest.extend_from_slice(piece);
        let mut events = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            events.extend(self.line(line.trim_end_matches('\n').trim_end_matches('\r')));
        }
        if self.rest.len() > LINE_BYTES_MAX {
            self.rest.clear();
        }
        events
    }

    fn line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            self.id.clone_from(&self.said_id);
            let data = std::mem::take(&mut self.data);
            return (!data.is_empty()).then(|| SseEvent { id: self.id.clone(), data: data.join("\n") });
        }
        // A line that begins with a colon is a comment, and has an empty name.
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => self.data.push(value.to_owned()),
            "id" if !value.contains('\0') => self.said_id = Some(value.to_owned()),
            "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, data: &str) -> SseEvent {
        SseEvent { id: id.map(str::to_owned), data: data.to_owned() }
    }

    #[test]
    fn events_come_out_whole_however_they_arrive() {
        let stream = ": hello\nretry: 2000\n\nid: 5\nevent: event\ndata: {\"a\":1}\n\n: beat\n\ndata:x\r\ndata: y\r\n\r\n\
                      id: 6\n\ndata: zażółć\n\n";
        let want = [event(Some("5"), "{\"a\":1}"), event(Some("5"), "x\ny"), event(Some("6"), "zażółć")];
        for size in 1..stream.len() {
            let mut reader = SseReader::default();
            let found: Vec<SseEvent> =
                stream.as_bytes().chunks(size).flat_map(|piece| reader.take(piece)).collect();
            assert_eq!((found.as_slice(), reader.retry_ms), (&want[..], Some(2_000)), "in pieces of {size}");
        }
    }

    #[test]
    fn a_stream_that_resumes_knows_behind_what_and_a_half_event_is_none() {
        let mut reader = SseReader::behind(Some("4".to_owned()));
        assert_eq!(reader.take(b"data: a\n\ndata: b\n"), [event(Some("4"), "a")]);
        assert_eq!(reader.take(b"retry: soon\n\n"), [event(Some("4"), "b")]);
        assert_eq!((reader.retry_ms, reader.id.as_deref()), (None, Some("4")));
        assert_eq!(reader.take(b": nothing new\nid: 7\n\nid: 8\ndata: half"), []);
        assert_eq!(reader.id.as_deref(), Some("7"), "a block without data says where to resume too");
    }

    #[test]
    fn a_line_without_an_end_takes_no_more_than_its_bound() {
        let mut reader = SseReader::default();
        for _ in 0..64 {
            reader.take(&vec![b'x'; 64 * 1024]);
            assert!(reader.rest.len() <= LINE_BYTES_MAX + 64 * 1024);
        }
    }
}
