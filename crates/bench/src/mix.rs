//! The requests that are sent: fresh events, copies of earlier ones, forgeries.

use std::collections::VecDeque;

use hooklatch_receive::provider::tamper;

/// Requests that a connection remembers for its copies.
const REMEMBERED_N: usize = 64;

/// Sort of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// A new event.
    Fresh,
    /// A request that was answered before, byte for byte.
    Copy,
    /// Changed after it was signed.
    Forged,
}

/// Writes signed requests, each with a new event.
pub trait Maker: Send {
    /// Puts a whole HTTP/1.1 request with a new event into `request`, which is empty, signed at `now_s`
    /// (unix seconds). The error says why this cannot be made.
    fn make(&mut self, now_s: i64, request: &mut Vec<u8>) -> Result<(), String>;
}

/// The requests of one connection, one after the other.
pub struct Mix {
    maker: Box<dyn Maker>,
    copies_share: f64,
    forgeries_share: f64,
    request: Vec<u8>,
    remembered: VecDeque<Vec<u8>>,
}

impl Mix {
    /// Mixes requests of `maker` with these shares of copies and of forgeries, each 0 to 1 and together at most 1.
    pub fn new(maker: Box<dyn Maker>, copies_share: f64, forgeries_share: f64) -> Self {
        Self { maker, copies_share, forgeries_share, request: Vec::new(), remembered: VecDeque::new() }
    }

    /// The next request; the last one was answered.
    pub(super) fn next(&mut self, now_s: i64) -> Result<(Sort, &[u8]), String> {
        let drawn = if self.copies_share + self.forgeries_share > 0.0 { fastrand::f64() } else { 1.0 };
        if drawn < self.copies_share && !self.remembered.is_empty() {
            let n = fastrand::usize(..self.remembered.len());
            return Ok((Sort::Copy, self.remembered.get(n).map(Vec::as_slice).unwrap_or_default()));
        }
        self.request.clear();
        self.maker.make(now_s, &mut self.request)?;
        if drawn >= self.copies_share && drawn < self.copies_share + self.forgeries_share {
            tamper(body(&mut self.request));
            return Ok((Sort::Forged, &self.request));
        }
        if self.copies_share > 0.0 {
            // Before it is answered; but nothing else goes over this connection until then.
            let mut kept = if self.remembered.len() < REMEMBERED_N {
                Vec::new()
            } else {
                self.remembered.pop_front().unwrap_or_default()
            };
            kept.clone_from(&self.request);
            self.remembered.push_back(kept);
        }
        Ok((Sort::Fresh, &self.request))
    }
}

/// Returns the body of a request, which follows its head.
fn body(request: &mut [u8]) -> &mut [u8] {
    let at = request.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
    request.get_mut(at..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct CountingMaker(u64);

    impl Maker for CountingMaker {
        fn make(&mut self, _: i64, request: &mut Vec<u8>) -> Result<(), String> {
            self.0 += 1;
            request.extend_from_slice(format!("POST / HTTP/1.1\r\n\r\n{{\"n\":{}}}", self.0 * 2).as_bytes());
            Ok(())
        }
    }

    #[test]
    fn the_shares_are_kept_and_copies_are_copies() {
        let mut mix = Mix::new(Box::new(CountingMaker(0)), 0.3, 0.2);
        let (mut fresh, mut copies_n, mut forged_n) = (Vec::new(), 0, 0);
        for _ in 0..10_000 {
            let (sort, request) = mix.next(0).expect("made");
            match sort {
                Sort::Fresh => fresh.push(request.to_vec()),
                Sort::Copy => {
                    copies_n += 1;
                    assert!(fresh.iter().rev().take(REMEMBERED_N).any(|one| one == request));
                }
                Sort::Forged => {
                    forged_n += 1;
                    assert!(!request.ends_with(b"0}") && request.starts_with(b"POST / HTTP/1.1\r\n\r\n{"));
                }
            }
        }
        assert!(
            (2_700..3_300).contains(&copies_n) && (1_700..2_300).contains(&forged_n),
            "{copies_n} {forged_n}"
        );
        assert_eq!(fresh.len() + copies_n + forged_n, 10_000);
    }
}
