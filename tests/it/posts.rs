//! Every POST of the operators' API with each of its fields wrong. The table is made of `openapi.json`, so a new route is in
//! it by itself: a wrong order is refused with 400, `detail` names the field, and nothing is done.

use serde_json::{Map, Value, json};

use crate::contract::{Operator, document};
use crate::database::{Database, on_sqlite};
use crate::look::fill;
use crate::process::Server;

on_sqlite!(each_field_of_each_post_is_refused_by_its_name_when_it_is_wrong);

const ADMIN: &str = "admin-token-0123456789";

/// An order that is wrong, and what the refusal has to name.
struct Wrong {
    what: String,
    order: Value,
    /// The last names of its path, of which one must be named: serde and schema may stop at the parent.
    named: String,
}

/// The schema behind a reference.
fn resolved(schema: &Value) -> &Value {
    match schema["$ref"].as_str() {
        Some(reference) => resolved(document().pointer(reference.trim_start_matches('#')).unwrap()),
        None => schema,
    }
}

/// The options of a schema that may be several things, without null.
fn options(schema: &Value) -> Vec<&Value> {
    let all = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array);
    match all {
        Some(all) => all.iter().map(resolved).filter(|one| one["type"] != "null").collect(),
        None => vec![schema],
    }
}

fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::Array(types) => types.iter().map(|one| one.as_str().unwrap()).collect(),
        Value::String(one) => vec![one.as_str()],
        _ => Vec::new(),
    }
}

/// A value that the schema allows, with all fields: of several options the `n`-th.
fn right(schema: &Value, n: usize) -> Value {
    let schema = resolved(schema);
    let all = options(schema);
    let schema = if all.len() > 1 || all.first().is_some_and(|one| !std::ptr::eq(*one, schema)) {
        return right(all[n % all.len()], n);
    } else {
        schema
    };
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    if let Some(word) = schema.get("const") {
        return word.clone();
    }
    match types(schema).first() {
        Some(&"string") => "held".into(),
        Some(&"integer" | &"number") => schema["minimum"].as_i64().unwrap_or(1).into(),
        Some(&"boolean") => false.into(),
        Some(&"array") => json!([right(&schema["items"], n)]),
        Some(&"object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            Value::Object(fields.map(|(name, one)| (name.clone(), right(one, n))).collect())
        }
        other => panic!("a schema of no known kind: {other:?} {schema}"),
    }
}

/// True when a value of this type is allowed somewhere in the schema.
fn allows(schema: &Value, of: &str) -> bool {
    let schema = resolved(schema);
    if let Some(all) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array) {
        return all.iter().any(|one| allows(one, of));
    }
    if schema["enum"].is_array() || schema.get("const").is_some() {
        return of == "string";
    }
    let found = types(schema);
    found.contains(&of) || (of == "integer" && found.contains(&"number"))
}

/// Values that a field of this schema may not have, each with what is wrong.
fn wrong_values(schema: &Value) -> Vec<(String, Value)> {
    let of_types = [
        ("null", Value::Null),
        ("boolean", true.into()),
        ("integer", 7.into()),
        ("string", "held".into()),
        ("array", json!([7])),
        ("object", json!({ "x": 1 })),
    ];
    let mut all: Vec<(String, Value)> = of_types
        .into_iter()
        .filter(|(of, _)| !allows(schema, of))
        .map(|(of, value)| (format!("is of type {of}"), value))
        .collect();
    for one in options(resolved(schema)) {
        if one["enum"].is_array() {
            all.push(("is another word".to_owned(), "nothing like it".into()));
        }
        let found = types(one);
        if found.contains(&"string") && !one["enum"].is_array() && options(resolved(schema)).len() == 1 {
            if let Some(most) = one["maxLength"].as_u64() {
                all.push(("is too long".to_owned(), "x".repeat(usize::try_from(most).unwrap() + 1).into()));
            }
            if one["pattern"].is_string() {
                all.push(("is too long for its pattern".to_owned(), "x".repeat(300).into()));
                all.push(("has a NUL".to_owned(), "a\u{0}b".into()));
                all.push(("is empty".to_owned(), "".into()));
            }
        }
        if found.contains(&"integer") {
            if let Some(most) = one["maximum"].as_u64() {
                all.push(("is too large".to_owned(), json!(most + 1)));
            }
            if let Some(least) = one["minimum"].as_i64() {
                all.push(("is too small".to_owned(), json!(least - 1)));
            }
            all.push(("has a fraction".to_owned(), json!(60.5)));
        }
        if let Some(most) = one["maxItems"].as_u64() {
            let item = right(&one["items"], 0);
            all.push((
                "has too many items".to_owned(),
                vec![item; usize::try_from(most).unwrap() + 1].into(),
            ));
        }
    }
    all
}

/// Every way in which the value at `path` of a right order can be wrong.
fn wrong_orders(whole: &Value, schema: &Value, path: &[String], n: usize, found: &mut Vec<Wrong>) {
    let schema = resolved(schema);
    let all = options(schema);
    let one = if all.len() > 1 { all[n % all.len()] } else { all[0] };
    if !std::ptr::eq(one, schema) {
        return wrong_orders(whole, one, path, n, found);
    }
    let pointer = |path: &[String]| path.iter().flat_map(|part| ["/", part.as_str()]).collect::<String>();
    let with = |path: &[String], change: &dyn Fn(&mut Map<String, Value>)| {
        let mut order = whole.clone();
        change(order.pointer_mut(&pointer(path)).unwrap().as_object_mut().unwrap());
        order
    };
    let shown = |name: &str| path.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(".");
    let Some(fields) = schema["properties"].as_object() else { return };
    if schema["additionalProperties"] == false {
        let order = with(path, &|fields| drop(fields.insert("nowhere_known".to_owned(), 1.into())));
        found.push(Wrong {
            what: format!("`{}` is unknown", shown("nowhere_known")),
            order,
            named: "nowhere_known".to_owned(),
        });
    }
    for (name, field) in fields {
        if schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name)) {
            let order = with(path, &|fields| drop(fields.remove(name)));
            found.push(Wrong { what: format!("`{}` is missing", shown(name)), order, named: name.clone() });
        }
        for (what, value) in wrong_values(field) {
            let order = with(path, &|fields| drop(fields.insert(name.clone(), value.clone())));
            found.push(Wrong { what: format!("`{}` {what}", shown(name)), order, named: name.clone() });
        }
        let inner: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
        if whole.pointer(&pointer(&inner)).is_some_and(Value::is_object) {
            wrong_orders(whole, field, &inner, n, found);
        }
    }
}

/// The path of a route with names in the place of its parameters.
fn filled(path: &str) -> String {
    let path = path.trim_start_matches("/v1");
    let parts = path.split('/').map(|part| match part {
        "{name}" if path.starts_with("/destinations") => "billing",
        "{provider}" | "{name}" => "stripe",
        "{event_id}" => "evt_1",
        "{message_id}" => "4096",
        "{operation_id}" | "{token_id}" => "0190a0a0-0000-7000-8000-000000000000",
        part if part.starts_with('{') => panic!("{path}: say here what stands for {part}"),
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

async fn each_field_of_each_post_is_refused_by_its_name_when_it_is_wrong(database: &Database) {
    fill(database).await;
    let more = format!(
        "[outbox]\npoll_ms = 60000\n[retention]\nevery_ms = 0\n[destinations.billing]\nurl = \"http://127.0.0.1:9/\"\n\
         [[admin.tokens]]\nname = \"admin\"\nrole = \"admin\"\ntoken = \"{ADMIN}\"\n"
    );
    let server = Server::start(&database.url, &more).await;
    let admin = Operator::new(server.admin, ADMIN);
    let changes = "SELECT (SELECT COUNT(*) FROM audit_log) + (SELECT COUNT(*) FROM operations)
        + (SELECT COUNT(*) FROM operator_tokens) + (SELECT COUNT(*) FROM processed_webhook_events)";
    let before = database.count(changes).await;
    let (mut tried_n, mut routes_n, mut failures) = (0, 0, Vec::new());
    for (path, methods) in document()["paths"].as_object().unwrap() {
        let Some(post) = methods.get("post") else { continue };
        let takes_key =
            post["parameters"].as_array().into_iter().flatten().any(|one| one["name"] == "Idempotency-Key");
        let Some(schema) = post["requestBody"]["content"]["application/json"].get("schema") else { continue };
        routes_n += 1;
        let mut wrongs = Vec::new();
        // Both of two options, such as messages and events.
        for n in 0..options(resolved(schema)).len().max(2) {
            let order = right(schema, n);
            wrong_orders(&order, schema, &[], n, &mut wrongs);
        }
        for (what, body) in [
            ("is an array", "[]"),
            ("is a text", "\"x\""),
            ("is a number", "7"),
            ("is null", "null"),
            ("is empty", ""),
            ("breaks off", "{\"reason\":"),
            ("is no UTF-8", "\u{0}"),
        ] {
            let key = format!("{path} {what}").replace(' ', "-").replace(['{', '}', '/'], "_");
            let headers = [("idempotency-key", key.as_str())];
            let answer = admin
                .ask("POST", &filled(path), &headers[..usize::from(takes_key)], Some(body.to_owned()))
                .await;
            let detail = answer.body["detail"].as_str().unwrap_or_default();
            if answer.status != 400 || !detail.contains("body") {
                failures.push(format!("{path}: the body {what}: {} {detail}", answer.status));
            }
        }
        for wrong in wrongs {
            tried_n += 1;
            let key = format!("k{tried_n}");
            let headers = [("idempotency-key", key.as_str())];
            let headers = &headers[..usize::from(takes_key)];
            let answer = admin.ask("POST", &filled(path), headers, Some(wrong.order.to_string())).await;
            let detail = answer.body["detail"].as_str().unwrap_or_default();
            if answer.status != 400 || !detail.contains(&wrong.named) {
                failures.push(format!("{path}: {}: {} {detail}", wrong.what, answer.status));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {tried_n}: {failures:#?}", failures.len());
    assert!(routes_n > 12 && tried_n > 400, "{routes_n} routes, {tried_n} orders");
    assert_eq!(database.count(changes).await, before, "nothing was done");
}
