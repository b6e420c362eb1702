//! One viewer: a place in the ring, what is shown to it, and what it is told next.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::hub::{HubState, TailHub, TailState, TooManyViewers};
use super::ring::json_line;
use crate::api::TailView;
use crate::stop::Stop;
use crate::store::StoreError;
use crate::types::Reach;

/// Time between two signs of life of a viewer to whom nothing is told.
pub const QUIET_EVERY: Duration = Duration::from_secs(15);
/// Missed events that a viewer is told who comes back to another node, or late. Further ones are counted.
const MISSED_N_MAX: usize = 500;
/// Events that are looked at for that.
const MISSED_LOOKED_N: u32 = 20_000;

/// The events that a viewer may see and wants to see.
#[derive(Debug, Clone)]
pub struct TailChoice {
    /// Providers in the token's scope.
    pub reach: Reach,
    /// One provider alone; `None` for all in scope.
    pub provider: Option<String>,
}

impl TailChoice {
    fn shows(&self, provider: &str) -> bool {
        self.reach.has(provider) && self.provider.as_deref().is_none_or(|wanted| wanted == provider)
    }
}

/// What a viewer is told next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailStep {
    /// An event or a number of events that were left out: a [`TailView`] as JSON on one line.
    Told {
        /// Name of it: `event` or `skipped`.
        what: &'static str,
        /// The view as JSON.
        data: String,
        /// Id of the server-sent event, to resume behind it.
        id: String,
    },
    /// Nothing came until the time that was given.
    Quiet {
        /// Id of the server-sent event, from which a viewer resumes.
        id: String,
    },
    /// The end, because the server stops.
    End,
}

/// Where a viewer left off: in which ring and where, and the highest number that was found up to there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Resume {
    run: String,
    place: u64,
    high_seq: i64,
}

impl Resume {
    /// Reads what a viewer was given as an id; what nobody gave out is none.
    fn parse(id: &str) -> Option<Self> {
        let mut parts = id.split('-');
        let (run, place, high_seq) = (parts.next()?, parts.next()?, parts.next()?);
        let resume =
            Self { run: run.to_owned(), place: place.parse().ok()?, high_seq: high_seq.parse().ok()? };
        let is_whole = parts.next().is_none() && (1..=16).contains(&run.len()) && resume.high_seq >= 0;
        is_whole.then_some(resume)
    }
}

/// One who views, until it is dropped.
pub struct TailViewer {
    hub: Arc<HubState>,
    choice: TailChoice,
    changes: watch::Receiver<u64>,
    stop: Stop,
    /// Place of the next entry of the ring.
    place: u64,
    /// Events of its choice that were found before that place.
    passed_n: u64,
    /// Missed events, to be told first, the next one last.
    missed: Vec<TailStep>,
    /// Their numbers: the ring may have them too.
    missed_seqs: BTreeSet<i64>,
}

impl TailHub {
    /// Lets one more view, from now on or from where `last_id` says, which an earlier step was given.
    pub async fn open(
        &self,
        choice: TailChoice,
        last_id: Option<&str>,
    ) -> Result<Result<TailViewer, TooManyViewers>, StoreError> {
        let hub = Arc::clone(&self.0);
        let (changes, stop) = (hub.changes(), hub.stop.clone());
        let after_n = match hub.enter() {
            Ok(after_n) => after_n,
            Err(too_many) => return Ok(Err(too_many)),
        };
        // From here on dropping it makes room for another one.
        let mut viewer = TailViewer {
            hub,
            choice,
            changes,
            stop,
            place: 0,
            passed_n: 0,
            missed: Vec::new(),
            missed_seqs: BTreeSet::new(),
        };
        viewer.begin(after_n, last_id.and_then(Resume::parse)).await?;
        Ok(Ok(viewer))
    }
}

impl TailViewer {
    async fn begin(&mut self, after_n: u64, resume: Option<Resume>) -> Result<(), StoreError> {
        if let Some(resume) = &resume
            && self.resume_in_ring(resume)
        {
            return Ok(());
        }
        loop {
            self.changes.borrow_and_update();
            if self.start(after_n) || self.stop.is_set() {
                break;
            }
            self.changed_or_stopped().await;
        }
        match resume {
            Some(resume) => self.catch_up(resume.high_seq).await,
            None => Ok(()),
        }
    }

    /// Goes on where it left off, if the ring still has all that came since.
    fn resume_in_ring(&mut self, resume: &Resume) -> bool {
        let hub = Arc::clone(&self.hub);
        let state = hub.state();
        let ring = &state.ring;
        let is_there = state.run == resume.run && (ring.begin()..=ring.end()).contains(&resume.place);
        if is_there {
            let between = (ring.begin()..resume.place).filter_map(|place| ring.at(place));
            let between_n = between.filter(|entry| self.choice.shows(&entry.provider)).count() as u64;
            self.passed_n = ring.left_n_of(|provider| self.choice.shows(provider)) + between_n;
            self.place = resume.place;
        }
        is_there
    }

    /// Begins behind all that was found, once so many looks are over.
    fn start(&mut self, after_n: u64) -> bool {
        let hub = Arc::clone(&self.hub);
        let state = hub.state();
        if state.window.is_none() || state.polls_n < after_n {
            return false;
        }
        self.place = state.ring.end();
        self.passed_n = state.ring.found_n_of(|provider| self.choice.shows(provider));
        true
    }

    /// Reads what came behind this number, the newest of it at least.
    async fn catch_up(&mut self, high_seq: i64) -> Result<(), StoreError> {
        let found = self.hub.store.tail_missed(high_seq, MISSED_LOOKED_N).await?;
        let mine: Vec<i64> = found
            .into_iter()
            .filter(|(_, provider)| self.choice.shows(provider))
            .map(|(seq, _)| seq)
            .collect();
        let told: Vec<i64> = mine.iter().copied().take(MISSED_N_MAX).collect();
        let skipped_n = (mine.len() - told.len()) as u64;
        let events = self.hub.store.tail_events(told.clone()).await?;
        self.missed_seqs = told.into_iter().collect();
        let (run, place) = (self.hub.state().run.clone(), self.place);
        let mut high_seq = high_seq;
        let mut steps: Vec<TailStep> = Vec::new();
        if let (1.., Some((first, _))) = (skipped_n, events.first()) {
            high_seq = first - 1;
            steps.push(skipped(skipped_n, format!("missed-{place}-{high_seq}")));
        }
        for (seq, event) in events {
            high_seq = high_seq.max(seq);
            // Who leaves in the midst of these comes back by number, not by a place of the ring.
            let id = format!("missed-{place}-{high_seq}");
            steps.push(TailStep::Told {
                what: "event",
                data: json_line(&TailView::Event { event: Box::new(event) }),
                id,
            });
        }
        if let Some(TailStep::Told { id, .. }) = steps.last_mut() {
            *id = format!("{run}-{place}-{high_seq}");
        }
        steps.reverse();
        self.missed = steps;
        Ok(())
    }

    /// The next thing to tell, or that nothing came until then.
    pub async fn next(&mut self, until: Instant) -> TailStep {
        loop {
            if self.stop.is_set() {
                return TailStep::End;
            }
            self.changes.borrow_and_update();
            if let Some(step) = self.missed.pop().or_else(|| self.step()) {
                return step;
            }
            if timeout_at(until, self.changed_or_stopped()).await.is_err() {
                let state = self.hub.state();
                return TailStep::Quiet { id: self.id(&state) };
            }
        }
    }

    async fn changed_or_stopped(&mut self) {
        tokio::select! {
            // The hub is ours, so that it is never gone.
            _ = self.changes.changed() => {}
            () = self.stop.wait() => {}
        }
    }

    /// What the ring has for it.
    fn step(&mut self) -> Option<TailStep> {
        let hub = Arc::clone(&self.hub);
        let state = hub.state();
        if self.place < state.ring.begin() {
            let left_n = state.ring.left_n_of(|provider| self.choice.shows(provider));
            let skipped_n = left_n.saturating_sub(self.passed_n);
            (self.place, self.passed_n) = (state.ring.begin(), left_n);
            if skipped_n > 0 {
                return Some(skipped(skipped_n, self.id(&state)));
            }
        }
        while let Some(entry) = state.ring.at(self.place) {
            self.place += 1;
            if !self.choice.shows(&entry.provider) {
                continue;
            }
            self.passed_n += 1;
            if self.missed_seqs.contains(&entry.event_seq) {
                continue;
            }
            let id = format!("{}-{}-{}", state.run, self.place, entry.high_seq);
            return Some(TailStep::Told { what: "event", data: entry.data.to_string(), id });
        }
        None
    }

    /// Where to resume: behind all that this viewer was told.
    fn id(&self, state: &TailState) -> String {
        let before = self.place.checked_sub(1).and_then(|place| state.ring.at(place));
        let high_seq = match before {
            Some(entry) => entry.high_seq,
            // At the beginning of the ring: what it has is behind this place.
            None => state.ring.at(self.place).map_or(state.ring.high_seq(), |entry| entry.high_seq - 1),
        };
        format!("{}-{}-{high_seq}", state.run, self.place)
    }
}

fn skipped(skipped_n: u64, id: String) -> TailStep {
    TailStep::Told { what: "skipped", data: json_line(&TailView::Skipped { skipped_n }), id }
}

impl Drop for TailViewer {
    fn drop(&mut self) {
        self.hub.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_given_and_nothing_else_is() {
        let resume = Resume { run: "a1b2".to_owned(), place: 7, high_seq: 8_192 };
        assert_eq!(Resume::parse("a1b2-7-8192"), Some(resume));
        for wrong in
            ["", "a1b2-7", "a1b2-7-8192-1", "-7-1", "a-x-1", "a-1-x", "a-1--5", "a-1-9223372036854775808"]
        {
            assert_eq!(Resume::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_choice_shows_what_is_wanted_and_in_reach() {
        let name = |text: &str| crate::types::Name::parse(text).expect("a name");
        let reach = Reach::These([name("stripe"), name("adyen")].into());
        let all = TailChoice { reach: reach.clone(), provider: None };
        let one = TailChoice { reach, provider: Some("adyen".to_owned()) };
        let other = TailChoice { reach: Reach::All, provider: Some("github".to_owned()) };
        let shows = |choice: &TailChoice| ["stripe", "adyen", "github"].map(|name| choice.shows(name));
        assert_eq!(shows(&all), [true, true, false]);
        assert_eq!(shows(&one), [false, true, false]);
        assert_eq!(shows(&other), [false, false, true]);
    }
}
