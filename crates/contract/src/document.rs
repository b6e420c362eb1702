//! `openapi.json`, made of the list of routes and of the types.
//!
//! Schemars describes the types; what clients that are generated from the document need beyond that is written here:
//! words as one `enum`, each variant of a union as a schema with a name of its own, pages and orders named after what
//! they hold, and for each operation the statuses and headers that it answers.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::page::ProblemView;
use super::routes::{ROUTES, RouteFacts, SchemaOf};
use hooklatch_core::types::{DeliveryFilter, EventState, MessageState};

/// The document that describes the API: `OpenAPI` 3.1, with JSON Schema 2020-12.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    // Those that the text of a parameter or of a refusal refers to.
    generator.subschema_for::<(DeliveryFilter, EventState, MessageState, ProblemView)>();
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(format!("/v1{}", route.path)).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.to_ascii_lowercase(), operation(route, &mut generator));
        }
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hooklatch, the operators' API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Times are unix milliseconds. Every POST that is no question needs an `Idempotency-Key`. Fields may be added; \
                none changes its meaning. What is out of a token's scope is answered as if it were not there. HTTP itself may refuse a \
                request before a route sees it: 400, 408, 417, 501.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "responses": REFUSALS.iter().map(|(status, name, about)| ((*name).to_owned(), refusal(*status, about))).collect::<Map<_, _>>(),
        },
    });
    polish(&mut document);
    if let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut) {
        *schemas = std::mem::take(schemas).into_iter().flat_map(named_variants).collect();
    }
    document
}

/// The statuses of refusals, their names, and what they mean on every route that answers them.
const REFUSALS: [(u16, &str, &str); 14] = [
    (
        400,
        "BadRequest",
        "The query, the body or a header is not as the route needs it; `detail` names what is wrong.",
    ),
    (401, "Unauthorized", "The request has no valid token."),
    (
        403,
        "Forbidden",
        "The role or the scope of the token does not suffice, or a web page of another origin sent the request.",
    ),
    (404, "NotFound", "It does not exist, or the token does not reach it."),
    (408, "RequestTimeout", "The body did not arrive in time."),
    (
        409,
        "Conflict",
        "The subject does not allow it now, or a request with the same key is being carried out.",
    ),
    (412, "PreconditionFailed", "The subject has changed since the version in `If-Match`."),
    (413, "PayloadTooLarge", "The body is too large."),
    (421, "MisdirectedRequest", "The `Host` is not a name of this server."),
    (422, "UnprocessableEntity", "The `Idempotency-Key` was used for another request."),
    (428, "PreconditionRequired", "The act needs `If-Match`."),
    (429, "TooManyRequests", "Too many wrong tokens were sent from this address."),
    (
        500,
        "InternalServerError",
        "The request broke off: repeat it under the same key. With the code `row_damaged`, a row of the database cannot be read: \
         `detail` says which, and what to do.",
    ),
    (
        503,
        "ServiceUnavailable",
        "The database or another part does not answer, or too many requests are waiting.",
    ),
];

/// `NotFound`, for 404.
fn refusal_name(status: u16) -> &'static str {
    REFUSALS.iter().find(|(one, ..)| *one == status).map_or("", |(_, name, _)| name)
}

fn refusal(status: u16, about: &str) -> Value {
    let mut response = json!({
        "description": about,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/ProblemView" } } },
    });
    let (name, about, schema) = match status {
        401 => ("WWW-Authenticate", "`Bearer`.", json!({ "type": "string" })),
        409 | 429 | 503 => {
            let about =
                "Seconds after which the request may be repeated; without it, repeating does not help.";
            ("Retry-After", about, json!({ "type": "integer", "minimum": 0 }))
        }
        _ => return response,
    };
    if let Some(response) = response.as_object_mut() {
        response.insert("headers".to_owned(), json!({ name: { "description": about, "schema": schema } }));
    }
    response
}

/// Names that follow from what is named, and words as one `enum`: schemars writes a `const` for each word with a
/// comment.
fn polish(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(polish),
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get_mut("$ref") {
                *reference = short(reference);
            }
            if let Some(words) = fields.get("oneOf").and_then(words) {
                fields.remove("oneOf");
                fields.insert("type".to_owned(), "string".into());
                fields.insert("enum".to_owned(), words.iter().map(|(word, _)| word.as_str()).collect());
                let described = words.into_iter().filter(|(_, about)| !about.is_null());
                fields.insert("x-enumDescriptions".to_owned(), described.collect());
            }
            *fields = std::mem::take(fields).into_iter().map(|(name, value)| (short(&name), value)).collect();
            fields.values_mut().for_each(polish);
        }
        _ => {}
    }
}

/// `EventPage` for a page of `EventView`, `MessageOrder` for an order of `MessageAct`.
fn short(name: &str) -> String {
    name.replace("ViewPage", "Page").replace("ActOrder", "Order")
}

/// The words of an enumeration with what they mean; `None` for a union of anything else.
fn words(options: &Value) -> Option<Vec<(String, Value)>> {
    let mut words = Vec::new();
    for option in options.as_array()? {
        let about = option.get("description").cloned().unwrap_or_default();
        let word = option.get("const").and_then(Value::as_str);
        let more =
            option.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let before_n = words.len();
        words.extend(word.into_iter().chain(more).map(|word| (word.to_owned(), about.clone())));
        if words.len() == before_n {
            return None;
        }
    }
    Some(words)
}

/// A schema, and behind it the variants of a union as schemas of their own: `LedgerEntryReceived`. What all variants
/// have in common stands in each of them.
fn named_variants((name, mut schema): (String, Value)) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let Some(union) = schema.as_object_mut() else { return vec![(name, schema)] };
    let Some(Value::Array(variants)) = union.remove("oneOf") else { return vec![(name, schema)] };
    let common = union.remove("properties");
    let required = union.remove("required");
    union.remove("type");
    let (mut references, mut tags) = (Vec::new(), Map::new());
    let mut tag = None;
    for mut variant in variants {
        let Some(fields) = variant.get_mut("properties").and_then(Value::as_object_mut) else { continue };
        let tagged = fields
            .iter()
            .find_map(|(name, field)| Some((name.clone(), field.get("const")?.as_str()?.to_owned())));
        // With its tag inside, or as the only field of an object.
        let word = match &tagged {
            Some((_, word)) => word.clone(),
            None => fields.keys().next().cloned().unwrap_or_default(),
        };
        let of_variant = format!("{name}{}", camel(&word));
        if let (None, Some(content)) = (&tagged, fields.get_mut(&word))
            && content.get("$ref").is_none()
        {
            let of_content = format!("{of_variant}Content");
            let reference = json!({ "$ref": format!("#/components/schemas/{of_content}") });
            all.push((of_content, std::mem::replace(content, reference)));
        }
        fields.extend(
            common
                .iter()
                .filter_map(Value::as_object)
                .flatten()
                .map(|(name, field)| (name.clone(), field.clone())),
        );
        if let (Some(Value::Array(all)), Some(Value::Array(more))) = (variant.get_mut("required"), &required)
        {
            all.extend(more.iter().cloned());
        }
        if let Some(variant) = variant.as_object_mut() {
            variant.insert("title".to_owned(), of_variant.as_str().into());
        }
        let reference = format!("#/components/schemas/{of_variant}");
        references.push(json!({ "$ref": reference.as_str() }));
        if let Some((name, word)) = tagged {
            tag = Some(name);
            tags.insert(word, reference.into());
        }
        all.push((of_variant, variant));
    }
    union.insert("oneOf".to_owned(), references.into());
    if let Some(tag) = tag {
        union.insert("discriminator".to_owned(), json!({ "propertyName": tag, "mapping": tags }));
    }
    all.push((name, schema));
    all
}

/// `EventId`, for `event_id`.
fn camel(word: &str) -> String {
    let capital = |part: &str| {
        let mut chars = part.chars();
        chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect::<String>()
    };
    word.split('_').map(capital).collect()
}

fn operation(route: &RouteFacts, generator: &mut SchemaGenerator) -> Value {
    let mut json_of = |schema: SchemaOf| json!({ "application/json": { "schema": schema(generator) } });
    let order = route.order.map(&mut json_of);
    let content = match route.answer {
        Some(answer) => json_of(answer),
        None => json!({ "application/octet-stream": {} }),
    };
    let mut answer = json!({ "description": route.about, "content": content });
    if let Some(answer) = answer.as_object_mut().filter(|_| !headers(route).is_empty()) {
        answer.insert("headers".to_owned(), headers(route).into());
    }
    let mut answers = Map::from_iter([(route.status.to_string(), answer)]);
    if route.is_tagged {
        let answer = json!({ "description": "The answer would be the one in `If-None-Match`.", "headers": headers(route) });
        answers.insert("304".to_owned(), answer);
    }
    answers.extend(route.refusals().into_iter().map(|status| {
        (status.to_string(), json!({ "$ref": format!("#/components/responses/{}", refusal_name(status)) }))
    }));
    let tag = route.path.split('/').nth(1);
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.about,
        "tags": [tag],
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
    if let Some(order) = order {
        fields.insert("requestBody".to_owned(), json!({ "required": true, "content": order }));
    }
    operation
}

/// Headers of an answer that went well.
fn headers(route: &RouteFacts) -> Map<String, Value> {
    let header = |about: &str| json!({ "description": about, "schema": { "type": "string" } });
    let mut headers = Map::new();
    if route.is_tagged {
        let about = "The version of the subject, a dot, and the digest of this answer, for `If-Match` and `If-None-Match`.";
        headers.insert("ETag".to_owned(), header(about));
    }
    if route.takes_key() {
        let about = "`true` when this is the answer to an earlier request with the same key.";
        headers.insert("Idempotency-Replayed".to_owned(), header(about));
    }
    if route.status == 202 {
        headers.insert("Location".to_owned(), header("The path of what was begun."));
    }
    headers
}

/// `post_messages_message_id_decide`, from the method and the path.
fn operation_id(route: &RouteFacts) -> String {
    let words = route.path.split(['/', '{', '}']).filter(|word| !word.is_empty());
    let words: Vec<&str> = std::iter::once(route.method).chain(words).collect();
    words.join("_").replace('-', "_").to_ascii_lowercase()
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
            "description": "The `ETag` that the subject had when it was read: 412 when it has changed since. An event that another operator decided about \
                            is run or dispatched only with it, and a message that an operator had sent again is settled as done or discarded only with it: 428.",
            "schema": { "type": "string", "pattern": "^([*]|(W/)?\"[!#-~]{0,64}\"(, (W/)?\"[!#-~]{0,64}\"){0,8})$" },
        }));
    }
    if route.is_tagged {
        all.push(json!({
            "name": "If-None-Match", "in": "header", "required": false,
            "description": "The `ETag` of an earlier answer: 304 without a body when the answer would be the same.",
            "schema": { "type": "string" },
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
        assert!(!text.contains("Page2") && !text.contains("Order2"), "two schemas have one name");
        for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(document.pointer(reference).is_some(), "{reference} leads nowhere");
        }
        let mut ids: Vec<String> = ROUTES.iter().map(operation_id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), ROUTES.len());
    }
}
