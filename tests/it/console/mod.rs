//! The console's pages, asked over HTTP as a browser without scripts does: what they say, and what their forms do.

mod acts;
mod hostile_acts;
mod person;
