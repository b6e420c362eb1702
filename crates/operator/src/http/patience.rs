//! Limits the time that a peer may take for its headers. hyper requests a timer with each request and drops it when
//! they are there; one timer for the whole connection serves them all, because setting and cancelling one costs more
//! than reading the headers.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// The timer of one connection, for all of its requests.
pub(super) struct HeaderDeadline(Alarm);

/// The timer, set to some time that was waited for: it may be earlier than what is waited for now, never later.
type Alarm = Arc<Mutex<Pin<Box<tokio::time::Sleep>>>>;

/// One wait for headers.
struct Wait {
    alarm: Alarm,
    until: tokio::time::Instant,
}

impl HeaderDeadline {
    /// A timer without waiters; `first` is how long the first wait will take, or less.
    pub(crate) fn new(first: Duration) -> Self {
        Self(Arc::new(Mutex::new(Box::pin(tokio::time::sleep(first)))))
    }
}

impl Timer for HeaderDeadline {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait { alarm: Arc::clone(&self.0), until: deadline.into() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        *sleep = self.sleep_until(new_deadline);
    }
}

impl Sleep for Wait {}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        if alarm.deadline() > self.until {
            alarm.as_mut().reset(self.until);
        }
        loop {
            ready!(alarm.as_mut().poll(cx));
            if alarm.deadline() >= self.until {
                return Poll::Ready(());
            }
            // It rang for a wait that is over.
            alarm.as_mut().reset(self.until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_wait_ends_when_it_should_whatever_was_waited_for_before() {
        let timer = HeaderDeadline::new(Duration::from_secs(10));
        let waited = async |seconds: u64| {
            let began = tokio::time::Instant::now();
            timer.sleep(Duration::from_secs(seconds)).await;
            began.elapsed().as_secs()
        };
        assert_eq!(waited(10).await, 10);
        assert_eq!(waited(3).await, 3, "the alarm has rung before");
        let given_up = tokio::time::timeout(Duration::from_secs(1), waited(5)).await;
        assert!(given_up.is_err());
        assert_eq!(waited(7).await, 7, "the alarm rings earlier");
        let given_up = tokio::time::timeout(Duration::from_secs(1), waited(60)).await;
        assert!(given_up.is_err());
        assert_eq!(waited(2).await, 2, "the alarm is set for later");
        let mut wait = timer.sleep(Duration::from_secs(1));
        timer.reset(&mut wait, timer.now() + Duration::from_secs(4));
        let began = tokio::time::Instant::now();
        wait.await;
        assert_eq!(began.elapsed().as_secs(), 4);
    }
}
