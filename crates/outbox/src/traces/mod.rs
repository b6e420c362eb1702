//! Traces: what became of an event, as spans that are sent to a collector over OTLP.
//!
//! Nothing of a trace is stored. `ids.rs` computes the ids from what names the event, so any node, any attempt and any
//! process after a crash speaks of the same trace; `ratio.rs` says from the same bytes whether it is recorded.
//!
//! In reading order after these two: `span.rs` is what the parts of the program record of their work, and `queue.rs`
//! the bounded queue from them to the exporter, which never waits. `handle.rs` is what those parts hold: [`Traces`],
//! which is off by default and then costs a look at one word (`options.rs`: what it is made of). `request.rs` is one
//! request on its way, `tracer.rs` what both stand on. Behind the feature `otel`: `otlp.rs` turns recorded spans into
//! OTLP's messages, `collector.rs` posts them, `exporter.rs` is the task that does both. Without it, `without.rs`
//! stands in its place.
//!
//! No span has a body, a header, a URL or an error's text: docs/tracing.md says what they have.

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod exporter;
mod handle;
mod ids;
mod options;
#[cfg(feature = "otel")]
mod otlp;
mod queue;
mod ratio;
mod request;
mod span;
#[cfg(feature = "otel")]
#[cfg(test)]
mod tests;
mod tracer;
#[cfg(not(feature = "otel"))]
mod without;

#[cfg(feature = "otel")]
pub use exporter::SpanExporter;
pub use handle::{AttemptOf, DispatchedEvent, Traces};
pub use options::TraceOptions;
pub use request::{AdmittedRequest, RequestTrace};
pub use span::{AdmissionTimes, AttemptSpan, CommitSpan, HandlerRun, HttpServer};
#[cfg(not(feature = "otel"))]
pub use without::NoExporter as SpanExporter;
