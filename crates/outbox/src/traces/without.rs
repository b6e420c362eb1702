//! The exporter of a program that was built without the feature `otel`: there is none. A configuration that asks for
//! one is refused before.

use super::options::TraceOptions;
use super::tracer::Tracer;
use hooklatch_core::stop::Stop;

/// The exporter, of which this program has none.
pub struct NoExporter(());

impl NoExporter {
    pub fn new(_: &TraceOptions<'_>) -> Result<(Tracer, Self), String> {
        Err("this program was built without the feature `otel`".to_owned())
    }

    /// Never called: without the feature there is no exporter.
    pub async fn run(&mut self, mut stop: Stop) {
        let () = self.0;
        stop.wait().await;
    }
}
