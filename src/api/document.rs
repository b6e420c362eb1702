//! `openapi.json`, made of the list of routes and of the types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::routes::{ROUTES, RouteFacts};
use super::{
    ActivityView, AuditVerified, AuditView, BacklogView, CountView, DestinationView, DoctorView, EventOrder,
    EventView, ExplainOrder, ExplainView, LaneView, LedgerView, MeView, MessageDetail, MessageOrder,
    MessageView, OperationChoice, OperationOrder, OperationPreview, OperationView, OrderResult, Page,
    PauseOrder, ProbeView, ProblemView, ProviderView, ReasonOrder, RejectedGroup, RejectedView, SearchView,
    SettingView, StatisticsView, TailView, TaughtView, TestEventOrder, TestEventView, TokenMade, TokenOrder,
    TokenView, WhatIfOrder, WhatIfView,
};
use crate::types::{DeliveryFilter, EventState, MessageState};

/// The document that describes the API: `OpenAPI` 3.1, with JSON Schema 2020-12.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let named = named(&mut generator);
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(format!("/v1{}", route.path)).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.to_ascii_lowercase(), operation(route, &named));
        }
    }
    let schemas: Map<String, Value> = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hooklatch, the operators' API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Times are unix milliseconds. Every POST that is no question needs an `Idempotency-Key`. Fields may be added; \
                none changes its meaning. What is out of a token's scope is answered as if it were not there.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "responses": { "Problem": {
                "description": "What is wrong, as RFC 9457 describes it.",
                "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/ProblemView" } } },
            } },
        },
    })
}

/// The schemas by the names that routes use, each put where references lead.
fn named(generator: &mut SchemaGenerator) -> Map<String, Value> {
    let mut named = Map::new();
    macro_rules! name {
        ($($word:literal: $type:ty,)*) => {
            $(named.insert($word.to_owned(), of::<$type>(generator));)*
        };
    }
    name! {
        "ActivityView": ActivityView, "AuditVerified": AuditVerified, "BacklogView": BacklogView, "CountView": CountView,
        "PauseOrder": PauseOrder, "DestinationView": DestinationView, "DoctorView": DoctorView, "ProbeView": ProbeView, "EventOrder": EventOrder,
        "DeliveryFilter": DeliveryFilter, "EventState": EventState, "LedgerView": LedgerView, "MeView": MeView, "MessageDetail": MessageDetail,
        "MessageOrder": MessageOrder, "MessageState": MessageState, "OperationChoice": OperationChoice, "OperationOrder": OperationOrder, "OperationPreview": OperationPreview,
        "OperationView": OperationView, "OrderResult": OrderResult, "Page<AuditView>": Page<AuditView>,
        "Page<DestinationView>": Page<DestinationView>, "Page<EventView>": Page<EventView>,
        "Page<LaneView>": Page<LaneView>, "Page<MessageView>": Page<MessageView>,
        "Page<OperationView>": Page<OperationView>, "Page<ProviderView>": Page<ProviderView>,
        "Page<RejectedGroup>": Page<RejectedGroup>, "Page<RejectedView>": Page<RejectedView>, "Page<SettingView>": Page<SettingView>, "Page<TokenView>": Page<TokenView>, "ProblemView": ProblemView,
        "ProviderView": ProviderView, "ReasonOrder": ReasonOrder, "SearchView": SearchView,
        "StatisticsView": StatisticsView, "TailView": TailView, "TaughtView": TaughtView,
        "TestEventOrder": TestEventOrder, "TestEventView": TestEventView, "TokenMade": TokenMade,
        "TokenOrder": TokenOrder, "TokenView": TokenView, "ExplainOrder": ExplainOrder, "ExplainView": ExplainView, "WhatIfOrder": WhatIfOrder, "WhatIfView": WhatIfView,
    }
    named
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn operation(route: &RouteFacts, named: &Map<String, Value>) -> Value {
    let schema = |name: &str| named.get(name).cloned().unwrap_or_default();
    let content = match route.answer {
        "text/event-stream" => json!({ "text/event-stream": { "schema": { "type": "string" } } }),
        "application/octet-stream" => json!({ "application/octet-stream": {} }),
        name => json!({ "application/json": { "schema": schema(name) } }),
    };
    let mut answers = json!({
        "default": { "$ref": "#/components/responses/Problem" },
    });
    if let Some(answers) = answers.as_object_mut() {
        answers.insert(route.status.to_string(), json!({ "description": route.about, "content": content }));
    }
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.about,
        "parameters": parameters(route),
        "responses": answers,
    });
    let Some(fields) = operation.as_object_mut() else { return operation };
    match route.role {
        Some(role) => {
            fields.insert("description".to_owned(), json!(format!("Role: {}.", role.as_str())));
        }
        None => drop(fields.insert("security".to_owned(), json!([]))),
    }
    if let Some(order) = route.order {
        let body =
            json!({ "required": true, "content": { "application/json": { "schema": schema(order) } } });
        fields.insert("requestBody".to_owned(), body);
    }
    operation
}

/// `post_messages_message_id_decide`, from the method and the path.
fn operation_id(route: &RouteFacts) -> String {
    let words = route.path.split(['/', '{', '}']).filter(|word| !word.is_empty());
    std::iter::once(route.method.to_ascii_lowercase().as_str()).chain(words).collect::<Vec<_>>().join("_")
}

fn parameters(route: &RouteFacts) -> Value {
    let text = json!({ "type": "string", "minLength": 1, "maxLength": 255 });
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path =
        in_path.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text.clone() }));
    let in_query = route.query.iter().map(|one| {
        let schema: Value = serde_json::from_str(one.schema).unwrap_or_default();
        let (name, about, is_required) = (one.name, one.about, one.is_required);
        json!({ "name": name, "in": "query", "required": is_required, "description": about, "schema": schema })
    });
    let mut all: Vec<Value> = in_path.chain(in_query).collect();
    if route.path.ends_with("/decide") {
        all.push(json!({
            "name": "If-Match", "in": "header", "required": false,
            "description": "The `ETag` that the subject had when it was read: 412 when it has changed since. An event that somebody decided about before \
                            is run or dispatched only with it: 428.",
            "schema": { "type": "string", "pattern": "^([*]|(W/)?\"[!#-~]{0,64}\"(, (W/)?\"[!#-~]{0,64}\"){0,8})$" },
        }));
    }
    if route.takes_key() {
        all.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": true,
            "description": "1 to 255 visible ASCII characters, the same when the request is repeated.",
            "schema": { "type": "string", "pattern": "^[!#-+\\--:<-~]{1,255}$" },
        }));
    }
    Value::Array(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_its_schemas_and_a_name_of_its_own() {
        let document = document();
        let text = document.to_string();
        assert!(!text.contains("\"schema\":null"), "a route names a schema that is not listed");
        for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(document.pointer(reference).is_some(), "{reference} leads nowhere");
        }
        let mut ids: Vec<String> = ROUTES.iter().map(operation_id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), ROUTES.len());
    }
}
