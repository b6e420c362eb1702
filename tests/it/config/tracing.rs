//! `[tracing]`: its defaults, its keys, and its errors.

use hooklatch_core::config::InboundTraces;

use super::loaded;

#[test]
fn tracing_is_off_without_an_endpoint() {
    let tracing = loaded("", &[]).expect("right").tracing;
    assert_eq!((tracing.endpoint, tracing.service_name.as_str()), (None, "hooklatch"));
    assert!(tracing.propagate && tracing.headers.is_empty() && tracing.inbound == InboundTraces::Ignore);
    assert!((tracing.ratio - 1.0).abs() < f64::EPSILON);
}

#[cfg(feature = "otel")]
#[test]
fn an_endpoint_without_a_path_has_that_of_otlp() {
    for (written, want) in [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("https://collector.example.com/", "https://collector.example.com/v1/traces"),
        ("https://collector.example.com/otlp?key=1", "https://collector.example.com/otlp?key=1"),
    ] {
        let tracing = loaded(&format!("[tracing]\nendpoint = \"{written}\""), &[]).expect(written).tracing;
        assert_eq!(tracing.endpoint.as_deref(), Some(want));
    }
}

#[cfg(not(feature = "otel"))]
#[test]
fn an_endpoint_needs_the_feature() {
    let problems =
        loaded("[tracing]\nendpoint = \"http://collector:4318\"", &[]).expect_err("not built with it");
    assert!(problems[0].to_string().contains("needs the feature `otel`"), "{problems:#?}");
}

#[test]
fn a_ratio_is_a_number_from_nothing_to_all() {
    for (written, want) in
        [("0", 0.0), ("1", 1.0), ("0.0", 0.0), ("0.25", 0.25), ("1.0", 1.0), ("1e-3", 0.001)]
    {
        let tracing = loaded(&format!("[tracing]\nratio = {written}"), &[]).expect(written).tracing;
        assert!((tracing.ratio - want).abs() < f64::EPSILON, "{written}");
    }
    let by_variable = loaded("", &[("HOOKLATCH__TRACING__RATIO", "0.5")]).expect("right").tracing;
    assert!((by_variable.ratio - 0.5).abs() < f64::EPSILON);
}

#[test]
fn mistakes_are_reported_with_their_key_and_a_remedy() {
    #[track_caller]
    fn check(text: &str, key: &str, part: &str) {
        let problems = loaded(&format!("[tracing]\n{text}"), &[]).expect_err(text);
        let key = format!("tracing.{key}");
        assert!(problems.iter().any(|one| one.key == key && one.to_string().contains(part)), "{problems:#?}");
        assert!(!format!("{problems:?}").contains("s3cr3t"), "no secret is shown");
        assert!(problems.iter().all(|one| !one.remedy.is_empty()));
    }
    for bad in ["2", "-0.1", "1.5", "nan", "inf", "\"half\"", "true"] {
        check(&format!("ratio = {bad}"), "ratio", "is not a number from 0 to 1");
    }
    check("endpoint = \"collector:4318\"", "endpoint", "has another scheme than http:// or https://");
    check("endpoint = \"http://ann:s3cr3t@collector\"", "endpoint", "has a user or password in it");
    check("endpoint = \"grpc://collector:4317\"", "endpoint", "has another scheme");
    check("headers = { \"x y\" = \"s3cr3t\" }", "headers.x y", "is not the name of a header");
    check("headers = { x = \"s3cr3t\\n\" }", "headers.x", "has characters that a header cannot carry");
    check("service_name = \" \"", "service_name", "is no name");
    check("queue_n_max = 0", "queue_n_max", "is out of bounds");
    check("timeout_ms = 60001", "timeout_ms", "is out of bounds");
    check("inbound = \"parent\"", "inbound", "is not one of the words for this key");
    check("sampling = 0.5", "sampling", "is not a key of Hooklatch");
}
