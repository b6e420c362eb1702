//! The list of routes: what each one takes and returns, and which role it requires. The server's router takes role and
//! names of the query from here, `document.rs` makes `openapi.json` of it, and the tests of access go through it.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::diagnosis::{DoctorView, ExplainOrder, ExplainView, ProbeView, WhatIfOrder, WhatIfView};
use super::event::{EventView, LaneView, LedgerView, MessageDetail, MessageView};
use super::judgement::{OperationChoice, OperationPreview};
use super::operation::{OperationOrder, OperationView};
use super::order::{
    EventOrder, MessageOrder, OrderResult, PauseOrder, ReasonOrder, TestEventOrder, TestEventView, TokenOrder,
};
use super::page::{Page, SearchView};
use super::provider::{BacklogView, DestinationView, PairingView, ProviderView, RejectedGroup, RejectedView};
use super::server::{ActivityView, AuditView, MeView, SettingView, TokenMade, TokenView};
use hooklatch_core::types::Role;

/// A value of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteParameter {
    /// Name in the query.
    pub name: &'static str,
    /// JSON schema of the value, as text.
    pub schema: &'static str,
    /// Meaning of the value, for people.
    pub about: &'static str,
    /// True when the query must have it.
    pub is_required: bool,
}

impl RouteParameter {
    const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}

/// Makes the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Facts about a route of the API.
#[derive(Debug, Clone, Copy)]
pub struct RouteFacts {
    /// The method, in upper case.
    pub method: &'static str,
    /// The path below `/v1`, with its parameters in braces.
    pub path: &'static str,
    /// The weakest role that has access; `None`: no token is needed.
    pub role: Option<Role>,
    /// One sentence for people.
    pub about: &'static str,
    /// Values that the query may have.
    pub query: &'static [RouteParameter],
    /// Schema of the order, for a POST with a body.
    pub order: Option<SchemaOf>,
    /// Schema of the answer; `None` for bytes.
    pub answer: Option<SchemaOf>,
    /// Status of an answer that went well.
    pub status: u16,
    /// True when the answer has an `ETag`.
    pub is_tagged: bool,
    /// Statuses of refusals beside those that follow from the other facts.
    pub also: &'static [u16],
    /// True for a query with a body: it changes nothing, and takes no `Idempotency-Key`.
    pub is_question: bool,
}

/// A value that a query may have.
const fn optional(name: &'static str, schema: &'static str, about: &'static str) -> RouteParameter {
    RouteParameter { name, schema, about, is_required: false }
}

const NAME: &str = r#"{"type":"string","pattern":"^[a-z0-9_-]{1,64}$"}"#;
const TEXT: &str = r#"{"type":"string","minLength":1,"maxLength":255,"pattern":"^[^\\x00]*$"}"#;
const TIME: &str = r#"{"type":"integer","minimum":0,"maximum":253402300799999}"#;
const PLACE: &str = r#"{"type":"string","minLength":1,"maxLength":1024}"#;

const LIMIT: RouteParameter = optional(
    "limit",
    r#"{"type":"integer","minimum":1,"maximum":500,"default":50}"#,
    "Most rows of the page.",
);
const CURSOR: RouteParameter = optional("cursor", PLACE, "`next` of the page before.");
const SINCE: RouteParameter =
    optional("since", PLACE, "`since` of an earlier page: what arrived after it, the oldest first.");
const PROVIDER: RouteParameter = optional("provider", NAME, "Name of the provider.");
const DESTINATION: RouteParameter = optional("destination", NAME, "Name of the destination.");
const LANE: RouteParameter = optional("lane", TEXT, "Key of the lane.");
const MESSAGE_STATE: RouteParameter =
    optional("state", r##"{"$ref":"#/components/schemas/MessageState"}"##, "State.");
const EVENT_STATE: RouteParameter =
    optional("state", r##"{"$ref":"#/components/schemas/EventState"}"##, "State.");
const CREATED_BEFORE: RouteParameter = optional("created_before_ms", TIME, "Those written before this time.");
const EVENT_TYPE: RouteParameter = optional("type", TEXT, "Type in the sender's words, exactly.");
const OBJECT: RouteParameter = optional("object", TEXT, "Object that they are about, exactly.");
const DELIVERY: RouteParameter = optional(
    "delivery",
    r##"{"$ref":"#/components/schemas/DeliveryFilter"}"##,
    "Those with at least one call that is on hold, given up (dead), either of the two (stuck), or still to be sent (open). \
     Such a list has no `since`.",
);
const FROM: RouteParameter = optional("received_from_ms", TIME, "Those received at this time or later.");
const TO: RouteParameter = optional("received_to_ms", TIME, "Those received before this time.");

const fn get<T: JsonSchema>(path: &'static str, role: Role, about: &'static str) -> RouteFacts {
    RouteFacts {
        method: "GET",
        path,
        role: Some(role),
        about,
        query: &[],
        order: None,
        answer: Some(schema::<T>),
        status: 200,
        is_tagged: false,
        also: &[],
        is_question: false,
    }
}

/// A POST without a body.
const fn act<T: JsonSchema>(path: &'static str, role: Role, about: &'static str) -> RouteFacts {
    RouteFacts { method: "POST", ..get::<T>(path, role, about) }
}

/// A POST of an order, and what it is answered with.
const fn post<O: JsonSchema, T: JsonSchema>(
    path: &'static str,
    role: Role,
    about: &'static str,
) -> RouteFacts {
    RouteFacts { order: Some(schema::<O>), ..act::<T>(path, role, about) }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl RouteFacts {
    /// Name of the order's schema, for a POST with a body.
    pub fn order_name(&self) -> Option<String> {
        let schema = self.order?(&mut SchemaGenerator::default());
        let reference = schema.get("$ref").and_then(|one| one.as_str()).unwrap_or_default();
        Some(reference.rsplit('/').next().unwrap_or_default().replace("ActOrder", "Order"))
    }

    /// True when a request is carried out once for each `Idempotency-Key`, and must have one.
    pub fn takes_key(&self) -> bool {
        self.method == "POST" && !self.is_question
    }

    /// A query: it changes nothing.
    const fn question(self) -> Self {
        Self { is_question: true, ..self }
    }

    /// Answered with bytes.
    const fn of_bytes(self) -> Self {
        Self { answer: None, ..self }
    }

    /// Statuses of refusals that the route may answer.
    pub fn refusals(&self) -> Vec<u16> {
        let mut all = vec![400, 401, 403, 421, 429, 500, 503];
        all.extend_from_slice(self.also);
        if self.path.contains('{') || !self.query.is_empty() {
            all.push(404);
        }
        if self.order.is_some() || self.takes_key() {
            all.extend([408, 413]);
        }
        if self.takes_key() {
            all.extend([409, 422]);
        }
        if self.path.ends_with("/decide") {
            all.extend([412, 428]);
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    const fn tagged(self) -> Self {
        Self { is_tagged: true, ..self }
    }

    const fn also(self, also: &'static [u16]) -> Self {
        Self { also, ..self }
    }

    const fn query(self, query: &'static [RouteParameter]) -> Self {
        Self { query, ..self }
    }

    const fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }
}

/// Every route below `/v1`.
pub const ROUTES: &[RouteFacts] = &[
    get::<MeView>("/me", Role::Viewer, "Who asks, as the server sees them."),
    get::<Page<EventView>>("/events", Role::Viewer, "Events, the newest first.").query(&[
        PROVIDER,
        EVENT_TYPE,
        EVENT_STATE,
        OBJECT,
        DELIVERY,
        FROM,
        TO,
        CURSOR,
        SINCE,
        LIMIT,
    ]),
    get::<LedgerView>("/events/{provider}/{event_id}", Role::Viewer, "The ledger of one event.").tagged(),
    get::<()>("/events/{provider}/{event_id}/body", Role::Reader,
        "The bytes of an event's body. Each look is recorded in the audit log.",
    )
    .of_bytes()
    .also(&[409]),
    post::<EventOrder, OrderResult>("/events/{provider}/{event_id}/decide", Role::Operator,
        "Decide about one event.",
    ),
    act::<WhatIfView>("/events/{provider}/{event_id}/what-if", Role::Operator,
        "What the handlers of this server would make of one event now. Each time is recorded in the audit log.",
    )
    .question(),
    post::<ExplainOrder, ExplainView>("/explain", Role::Reader,
        "Why a request that was saved is or is not believed, step by step, and what it would be read as.",
    )
    .question()
    .also(&[404]),
    post::<WhatIfOrder, WhatIfView>("/what-if", Role::Operator,
        "What the handlers of this server would make of the events that a filter finds, the newest first.",
    )
    .question()
    .also(&[404]),
    get::<Page<MessageView>>("/messages", Role::Viewer, "Messages, the newest first.").query(&[
        MESSAGE_STATE,
        DESTINATION,
        PROVIDER,
        LANE,
        CREATED_BEFORE,
        CURSOR,
        LIMIT,
    ]),
    get::<MessageDetail>("/messages/{message_id}", Role::Viewer,
        "One message with its attempts and decisions.",
    )
    .tagged(),
    post::<MessageOrder, OrderResult>("/messages/{message_id}/decide", Role::Operator,
        "Decide about one message.",
    ),
    get::<Page<LaneView>>("/lanes", Role::Viewer, "Lanes that have open messages, by destination and key.")
        .query(&[DESTINATION, CURSOR, LIMIT]),
    get::<Page<DestinationView>>("/destinations", Role::Viewer, "Every destination, by name."),
    get::<DestinationView>("/destinations/{name}", Role::Viewer, "One destination.").tagged(),
    post::<PauseOrder, OrderResult>("/destinations/{name}/decide", Role::Operator,
        "Pause or resume a destination.",
    ),
    get::<Page<ProviderView>>("/providers", Role::Viewer, "Every configured provider, by name."),
    get::<ProviderView>("/providers/{name}", Role::Viewer, "One provider.").tagged(),
    post::<PauseOrder, OrderResult>("/providers/{name}/decide", Role::Operator,
        "Pause or resume a provider: while it is paused its events are admitted and not dispatched.",
    ),
    act::<PairingView>("/providers/{name}/pairing", Role::Operator,
        "The secret that a sender sent while its provider was pairing: once.",
    ),
    post::<TestEventOrder, TestEventView>("/providers/{name}/test-events", Role::Operator,
        "Make a test event of this provider. It is marked as one everywhere, and nothing follows from it unless `route` \
         asks for that: real destinations then get real calls.",
    )
    .status(201),
    get::<Page<RejectedView>>("/rejected", Role::Viewer,
        "Requests that were not believed, the newest first.",
    )
    .query(&[
        PROVIDER,
        optional("reason", TEXT, "Reason, as the answer has it."),
        CURSOR,
        LIMIT,
    ]),
    get::<Page<RejectedGroup>>("/rejected/groups", Role::Viewer,
        "The refused requests that are kept, counted by provider, reason and client: the 50 largest groups.",
    ),
    get::<BacklogView>("/backlog", Role::Viewer, "What waits for an operator."),
    get::<ActivityView>("/activity", Role::Viewer,
        "Requests and attempts per hour, as all nodes counted them.",
    )
    .query(&[
        PROVIDER,
        DESTINATION,
        optional("hours_n", r#"{"type":"integer","minimum":1,"maximum":9600,"default":24}"#, "Hours to look back, the one under way included."),
    ]),
    get::<SearchView>("/search", Role::Viewer, "Whatever an id leads to, and why it leads nowhere.").query(
        &[optional("id", r#"{"type":"string","minLength":1,"maxLength":1000,"pattern":"^[^\\x00]*$"}"#, "Id of an event or inside one, of a message or an object, an idempotency key, the name of an effect, or the address of a page that ends with an id.").required()],
    ),
    get::<Page<OperationView>>("/operations", Role::Viewer, "Operations, the newest first.")
        .query(&[CURSOR, LIMIT]),
    post::<OperationOrder, OperationView>("/operations", Role::Operator,
        "Begin an operation: do something to all that a filter finds.",
    )
    .status(202)
    .also(&[404]),
    post::<OperationChoice, OperationPreview>("/operations/preview", Role::Viewer,
        "What an operation on a filter would act on, and what each act would do and risk. It changes nothing.",
    )
    .question()
    .also(&[404]),
    get::<OperationView>("/operations/{operation_id}", Role::Viewer, "One operation and its progress."),
    get::<OperationPreview>("/operations/{operation_id}/preview", Role::Viewer,
        "What an operation acts on yet: the rows of its set that are left, and what its act does and risks. It is what a \
         second person approves.",
    ),
    post::<ReasonOrder, OperationView>("/operations/{operation_id}/approve", Role::Operator,
        "Approve an operation that another operator ordered, so that it begins.",
    ),
    post::<ReasonOrder, OperationView>("/operations/{operation_id}/continue", Role::Operator,
        "Continue an operation that stopped because too many of its calls failed.",
    ),
    post::<ReasonOrder, OperationView>("/operations/{operation_id}/cancel", Role::Operator,
        "Cancel an operation; what was done stays done.",
    ),
    get::<Page<SettingView>>("/settings", Role::Operator,
        "The configuration that is in force, by key. Who reaches some providers or destinations alone sees what is about \
         those; tokens are shown to an admin who reaches everything.",
    )
    .query(&[CURSOR, LIMIT]),
    get::<DoctorView>("/doctor", Role::Operator,
        "What a live system shows about the node that answers and its database. Who reaches some providers or \
         destinations alone hears of those.",
    )
    .query(&[optional("deep", r#"{"type":"boolean","default":false}"#, "True to read every page of SQLite's file as well.")]),
    act::<ProbeView>("/probes", Role::Operator,
        "What it takes to send the receiver requests that make no event and are answered with what arrived.",
    )
    .question(),
    get::<Page<AuditView>>("/audit", Role::Operator, "The audit log, the newest first.")
        .query(&[CURSOR, LIMIT]),
    get::<Page<TokenView>>("/tokens", Role::Admin, "Every token, without itself, the newest first.")
        .query(&[CURSOR, LIMIT]),
    post::<TokenOrder, TokenMade>("/tokens", Role::Admin, "Make a token.").status(201),
    post::<ReasonOrder, TokenView>("/tokens/{token_id}/revoke", Role::Admin, "Revoke a token."),
];
