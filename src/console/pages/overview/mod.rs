//! The first page: what needs a person, then what is due, then how it goes over time.
//!
//! `page.rs` asks and puts together; `needed.rs` finds what waits for a person, `causes.rs` groups failures by their error, `due.rs` what waits for its
//! destination, `over_time.rs` draws what the node counted, and `first.rs` says what to do before anything came.

mod causes;
mod due;
mod first;
mod needed;
mod over_time;
mod page;

pub(super) use page::routes;
