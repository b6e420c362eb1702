//! Waiting things, in one line for each provider, that are taken in turns. A provider whose handlers are slow, or that
//! sends much, makes only its own line long.

use std::collections::VecDeque;

use hooklatch_core::types::Name;

/// Lines of waiting things, one for each provider, that are served in turns.
pub(super) struct FairQueue<T> {
    /// Those that are not empty; the next one first.
    lines: VecDeque<(Name, VecDeque<T>)>,
    waiting_n: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { lines: VecDeque::new(), waiting_n: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Number of those that wait, over all lines.
    pub(crate) fn waiting_n(&self) -> usize {
        self.waiting_n
    }

    /// Goes to the end of its provider's line.
    pub(crate) fn push(&mut self, provider: &Name, one: T) {
        self.waiting_n += 1;
        match self.lines.iter_mut().find(|(name, _)| name == provider) {
            Some((_, line)) => line.push_back(one),
            None => self.lines.push_back((provider.clone(), VecDeque::from([one]))),
        }
    }

    /// The next one; its provider's turn comes again after that of all others.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let (provider, mut line) = self.lines.pop_front()?;
        let one = line.pop_front();
        if !line.is_empty() {
            self.lines.push_back((provider, line));
        }
        self.waiting_n = self.waiting_n.saturating_sub(1);
        one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_take_turns_even_when_one_sends_more() {
        let name = |text: &str| Name::parse(text).expect("a name");
        let mut fair = FairQueue::default();
        for n in 1..=3 {
            fair.push(&name("a"), format!("a{n}"));
        }
        fair.push(&name("b"), "b1".to_owned());
        let first = fair.pop();
        fair.push(&name("c"), "c1".to_owned());
        let rest: Vec<String> = std::iter::from_fn(|| fair.pop()).collect();
        assert_eq!(
            (first.as_deref(), rest),
            (Some("a1"), ["b1", "a2", "c1", "a3"].map(str::to_owned).to_vec())
        );
        assert_eq!(fair.waiting_n(), 0);
    }
}
