//! The non-blocking writer of log lines. No task waits for a slow reader: a pipe that is full, or a disk, costs lines
//! and nothing else.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a pipe takes at once, or not at all, when it says that it takes something. Bytes.
const PART_BYTES: usize = 4096;
/// Longest wait for a reader that was quick enough until now: it may have lost its processor.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NO_PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A writer of whole lines that leaves out what its file does not take in time, and never fails.
#[derive(Debug)]
pub(super) struct NonBlockingWriter<W> {
    state: Mutex<State<W>>,
}

#[derive(Debug)]
struct State<W> {
    file: W,
    /// True when the last line was not taken: the writer does not wait for the next one.
    is_stuck: bool,
    /// True when a part of a line was taken: the next one begins on a line of its own.
    is_cut: bool,
}

impl<W: Write + AsFd> NonBlockingWriter<W> {
    pub(crate) fn new(file: W) -> Self {
        Self { state: Mutex::new(State { file, is_stuck: false, is_cut: false }) }
    }

    /// Writes a line, or counts that it was left out.
    fn line(&self, line: &[u8]) {
        // The rest of a line that was cut is lost: the flag has a line end written before the next line.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = (!state.is_cut || state.takes(b"\n")) && {
            state.is_cut = false;
            line.chunks(PART_BYTES).all(|part| {
                let is_taken = state.takes(part);
                state.is_cut |= is_taken;
                is_taken
            })
        };
        state.is_stuck = !is_taken;
        if is_taken {
            state.is_cut = false;
        } else {
            metrics::counter!("hooklatch_log_lines_left_out_total").increment(1);
        }
    }
}

impl<W: Write + AsFd> State<W> {
    fn takes(&mut self, part: &[u8]) -> bool {
        let patience = if self.is_stuck { NO_PATIENCE } else { PATIENCE };
        let is_full = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], Some(&patience)) == Ok(0);
        !is_full && self.file.write_all(part).is_ok()
    }
}

impl<W: Write + AsFd> Write for &NonBlockingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn lines_without_a_reader_are_left_out_and_later_lines_are_complete() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let writer = NonBlockingWriter::new(near);
        let line = |n: usize| format!("{n} {}\n", "x".repeat(3 * PART_BYTES));
        // More than the system buffers for a reader.
        for n in 0..1_000 {
            (&writer).write_all(line(n).as_bytes()).expect("never fails");
        }
        far.set_nonblocking(true).expect("set");
        let mut read = Vec::new();
        let ended = far.read_to_end(&mut read);
        assert_eq!(ended.map_err(|error| error.kind()).expect_err("open"), io::ErrorKind::WouldBlock);
        (&writer).write_all(b"there again\n").expect("never fails");
        drop(writer);
        far.read_to_end(&mut read).expect("the rest");
        let text = String::from_utf8(read).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.last(), Some(&"there again"));
        let whole_n = lines.iter().enumerate().filter(|(n, one)| **one == line(*n).trim_end()).count();
        assert!((1..1_000).contains(&whole_n) && lines.len() - whole_n <= 2, "{whole_n} of {}", lines.len());
    }

    #[test]
    fn a_full_disk_is_not_an_error_of_the_writer() {
        let Ok(full) = File::options().write(true).open("/dev/full") else { return };
        let writer = NonBlockingWriter::new(full);
        for _ in 0..3 {
            (&writer).write_all(b"line\n").expect("never fails");
        }
    }
}
