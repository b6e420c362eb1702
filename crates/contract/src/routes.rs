//! The list of routes: what each one takes and returns, and which role it requires. The server's router, `openapi.json`
//! and the tests of access are checked against it.

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

/// Facts about a route of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Name of the order's schema, for a POST with a body.
    pub order: Option<&'static str>,
    /// Name of the answer's schema; `Page<EventView>` is a page of `EventView` and
    /// `application/octet-stream` bytes.
    pub answer: &'static str,
    /// Status of an answer that went well.
    pub status: u16,
    /// True when the answer has an `ETag`.
    pub is_tagged: bool,
    /// Statuses of refusals beside those that follow from the other facts.
    pub also: &'static [u16],
    /// True for a query with a body: it changes nothing, and takes no `Idempotency-Key`.
    pub is_question: bool,
}

const LIMIT: RouteParameter = RouteParameter {
    name: "limit",
    schema: r#"{"type":"integer","minimum":1,"maximum":500,"default":50}"#,
    about: "Most rows of the page.",
    is_required: false,
};
const CURSOR: RouteParameter = RouteParameter {
    name: "cursor",
    schema: r#"{"type":"string","minLength":1,"maxLength":1024}"#,
    about: "`next` of the page before.",
    is_required: false,
};
const SINCE: RouteParameter = RouteParameter {
    name: "since",
    schema: r#"{"type":"string","minLength":1,"maxLength":1024}"#,
    about: "`since` of an earlier page: what arrived after it, the oldest first.",
    is_required: false,
};
const PROVIDER: RouteParameter =
    RouteParameter { name: "provider", schema: NAME, about: "Name of the provider.", is_required: false };
const DESTINATION: RouteParameter = RouteParameter {
    name: "destination",
    schema: NAME,
    about: "Name of the destination.",
    is_required: false,
};
const LANE: RouteParameter =
    RouteParameter { name: "lane", schema: TEXT, about: "Key of the lane.", is_required: false };
const MESSAGE_STATE: RouteParameter = RouteParameter {
    name: "state",
    schema: r##"{"$ref":"#/components/schemas/MessageState"}"##,
    about: "State.",
    is_required: false,
};
const MESSAGE_STATE_SAID: RouteParameter = RouteParameter { is_required: true, ..MESSAGE_STATE };
const EVENT_STATE: RouteParameter = RouteParameter {
    name: "state",
    schema: r##"{"$ref":"#/components/schemas/EventState"}"##,
    about: "State.",
    is_required: false,
};
const EVENT_STATE_SAID: RouteParameter = RouteParameter { is_required: true, ..EVENT_STATE };
const CREATED_BEFORE: RouteParameter = RouteParameter {
    name: "created_before_ms",
    schema: TIME,
    about: "Those written before this time.",
    is_required: false,
};
const EVENT_TYPE: RouteParameter = RouteParameter {
    name: "type",
    schema: TEXT,
    about: "Type in the sender's words, exactly.",
    is_required: false,
};
const OBJECT: RouteParameter = RouteParameter {
    name: "object",
    schema: TEXT,
    about: "Object that they are about, exactly.",
    is_required: false,
};
const DELIVERY: RouteParameter = RouteParameter {
    name: "delivery",
    schema: r##"{"$ref":"#/components/schemas/DeliveryFilter"}"##,
    about: "Those with at least one call that is on hold, given up (dead), either of the two (stuck), or still to be \
            sent (open). Such a list has no `since`.",
    is_required: false,
};
const FROM: RouteParameter = RouteParameter {
    name: "received_from_ms",
    schema: TIME,
    about: "Those received at this time or later.",
    is_required: false,
};
const TO: RouteParameter = RouteParameter {
    name: "received_to_ms",
    schema: TIME,
    about: "Those received before this time.",
    is_required: false,
};

const NAME: &str = r#"{"type":"string","pattern":"^[a-z0-9_-]{1,64}$"}"#;
const TEXT: &str = r#"{"type":"string","minLength":1,"maxLength":255,"pattern":"^[^\\x00]*$"}"#;
const TIME: &str = r#"{"type":"integer","minimum":0,"maximum":253402300799999}"#;

const fn get(path: &'static str, role: Role, answer: &'static str, about: &'static str) -> RouteFacts {
    RouteFacts {
        method: "GET",
        path,
        role: Some(role),
        about,
        query: &[],
        order: None,
        answer,
        status: 200,
        is_tagged: false,
        also: &[],
        is_question: false,
    }
}

const fn post(
    path: &'static str,
    role: Role,
    order: Option<&'static str>,
    answer: &'static str,
    about: &'static str,
) -> RouteFacts {
    RouteFacts { method: "POST", order, ..get(path, role, answer, about) }
}

impl RouteFacts {
    /// True when a request is carried out once for each `Idempotency-Key`, and must have one.
    pub fn takes_key(&self) -> bool {
        self.method == "POST" && !self.is_question
    }

    /// The same, as a query.
    const fn question(self) -> Self {
        Self { is_question: true, ..self }
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
    get("/me", Role::Viewer, "MeView", "Who asks, as the server sees them."),
    get("/events", Role::Viewer, "Page<EventView>", "Events, the newest first.").query(&[
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
    get("/events/count", Role::Viewer, "CountView", "How many events a filter finds; `state` must be said.")
        .query(&[PROVIDER, EVENT_TYPE, EVENT_STATE_SAID, OBJECT, FROM, TO]),
    get("/events/{provider}/{event_id}", Role::Viewer, "LedgerView", "The ledger of one event.").tagged(),
    get(
        "/events/{provider}/{event_id}/body",
        Role::Reader,
        "application/octet-stream",
        "The bytes of an event's body. Each look is recorded in the audit log.",
    )
    .also(&[409]),
    post(
        "/events/{provider}/{event_id}/decide",
        Role::Operator,
        Some("EventOrder"),
        "OrderResult",
        "Decide about one event.",
    ),
    post(
        "/events/{provider}/{event_id}/what-if",
        Role::Operator,
        None,
        "WhatIfView",
        "What the handlers of this server would make of one event now. Each time is recorded in the audit log.",
    )
    .question(),
    post(
        "/explain",
        Role::Reader,
        Some("ExplainOrder"),
        "ExplainView",
        "Why a request that was saved is or is not believed, step by step, and what it would be read as.",
    )
    .question()
    .also(&[404]),
    post(
        "/what-if",
        Role::Operator,
        Some("WhatIfOrder"),
        "WhatIfView",
        "What the handlers of this server would make of the events that a filter finds, the newest first.",
    )
    .question()
    .also(&[404]),
    get("/messages", Role::Viewer, "Page<MessageView>", "Messages, the newest first.").query(&[
        MESSAGE_STATE,
        DESTINATION,
        PROVIDER,
        LANE,
        CREATED_BEFORE,
        CURSOR,
        LIMIT,
    ]),
    get(
        "/messages/count",
        Role::Viewer,
        "CountView",
        "How many messages a filter finds; `state` must be said.",
    )
    .query(&[MESSAGE_STATE_SAID, DESTINATION, PROVIDER, LANE, CREATED_BEFORE]),
    get(
        "/messages/{message_id}",
        Role::Viewer,
        "MessageDetail",
        "One message with its attempts and decisions.",
    )
    .tagged(),
    post(
        "/messages/{message_id}/decide",
        Role::Operator,
        Some("MessageOrder"),
        "OrderResult",
        "Decide about one message.",
    ),
    get("/lanes", Role::Viewer, "Page<LaneView>", "Lanes that have open messages, by destination and key.")
        .query(&[DESTINATION, CURSOR, LIMIT]),
    get("/destinations", Role::Viewer, "Page<DestinationView>", "Every destination, by name."),
    get("/destinations/{name}", Role::Viewer, "DestinationView", "One destination.").tagged(),
    post(
        "/destinations/{name}/decide",
        Role::Operator,
        Some("PauseOrder"),
        "OrderResult",
        "Pause or resume a destination.",
    ),
    get("/providers", Role::Viewer, "Page<ProviderView>", "Every configured provider, by name."),
    get("/providers/{name}", Role::Viewer, "ProviderView", "One provider.").tagged(),
    post(
        "/providers/{name}/decide",
        Role::Operator,
        Some("PauseOrder"),
        "OrderResult",
        "Pause or resume a provider: while it is paused its events are admitted and not dispatched.",
    ),
    post(
        "/providers/{name}/taught",
        Role::Operator,
        None,
        "TaughtView",
        "The secret that a sender taught us while its provider was pairing: once.",
    ),
    post(
        "/providers/{name}/test-events",
        Role::Operator,
        Some("TestEventOrder"),
        "TestEventView",
        "Make a test event of this provider. It is marked as one everywhere, and nothing follows from it unless `route` \
         asks for that: real destinations then get real calls.",
    )
    .status(201),
    get(
        "/rejected",
        Role::Viewer,
        "Page<RejectedView>",
        "Requests that were not believed, the newest first.",
    )
    .query(&[
        PROVIDER,
        RouteParameter { name: "reason", schema: TEXT, about: "Reason, as the answer has it.", is_required: false },
        CURSOR,
        LIMIT,
    ]),
    get(
        "/rejected/groups",
        Role::Viewer,
        "Page<RejectedGroup>",
        "The refused requests that are kept, counted by provider, reason and client: the 50 largest groups.",
    ),
    get("/backlog", Role::Viewer, "BacklogView", "What waits for an operator."),
    get("/statistics", Role::Viewer, "StatisticsView", "Events per minute and provider, from the log.")
        .query(&[
            PROVIDER,
            RouteParameter {
                name: "minutes_n",
                schema: r#"{"type":"integer","minimum":1,"maximum":1440,"default":60}"#,
                about: "Minutes to look back.",
                is_required: false,
            },
        ]),
    get(
        "/activity",
        Role::Viewer,
        "ActivityView",
        "Requests and attempts per hour, as all nodes counted them.",
    )
    .query(&[
        PROVIDER,
        DESTINATION,
        RouteParameter {
            name: "hours_n",
            schema: r#"{"type":"integer","minimum":1,"maximum":9600,"default":24}"#,
            about: "Hours to look back, the one under way included.",
            is_required: false,
        },
    ]),
    get("/search", Role::Viewer, "SearchView", "Whatever an id leads to, and why it leads nowhere.").query(
        &[RouteParameter {
            name: "id",
            schema: r#"{"type":"string","minLength":1,"maxLength":1000,"pattern":"^[^\\x00]*$"}"#,
            about: "Id of an event or inside one, of a message or an object, an idempotency key, the name of an effect, or the address of a page that ends with an id.",
            is_required: true,
        }],
    ),
    get("/operations", Role::Viewer, "Page<OperationView>", "Operations, the newest first.")
        .query(&[CURSOR, LIMIT]),
    post(
        "/operations",
        Role::Operator,
        Some("OperationOrder"),
        "OperationView",
        "Begin an operation: do something to all that a filter finds.",
    )
    .status(202)
    .also(&[404]),
    post(
        "/operations/preview",
        Role::Viewer,
        Some("OperationChoice"),
        "OperationPreview",
        "What an operation on a filter would act on, and what each act would do and risk. It changes nothing.",
    )
    .question()
    .also(&[404]),
    get("/operations/{operation_id}", Role::Viewer, "OperationView", "One operation and its progress."),
    get(
        "/operations/{operation_id}/preview",
        Role::Viewer,
        "OperationPreview",
        "What an operation acts on yet: the rows of its set that are left, and what its act does and risks. It is what a \
         second person approves.",
    ),
    post(
        "/operations/{operation_id}/approve",
        Role::Operator,
        Some("ReasonOrder"),
        "OperationView",
        "Approve an operation that another operator ordered, so that it begins.",
    ),
    post(
        "/operations/{operation_id}/continue",
        Role::Operator,
        Some("ReasonOrder"),
        "OperationView",
        "Continue an operation that stopped because too many of its calls failed.",
    ),
    post(
        "/operations/{operation_id}/cancel",
        Role::Operator,
        Some("ReasonOrder"),
        "OperationView",
        "Cancel an operation; what was done stays done.",
    ),
    get(
        "/settings",
        Role::Operator,
        "Page<SettingView>",
        "The configuration that is in force, by key. Who reaches some providers or destinations alone sees what is about \
         those; tokens are shown to an admin who reaches everything.",
    )
    .query(&[CURSOR, LIMIT]),
    get(
        "/doctor",
        Role::Operator,
        "DoctorView",
        "What a live system shows about the node that answers and its database. Who reaches some providers or \
         destinations alone hears of those.",
    )
    .query(&[RouteParameter {
        name: "deep",
        schema: r#"{"type":"boolean","default":false}"#,
        about: "True to read every page of SQLite's file as well.",
        is_required: false,
    }]),
    post(
        "/probes",
        Role::Operator,
        None,
        "ProbeView",
        "What it takes to send the receiver requests that make no event and are answered with what arrived.",
    )
    .question(),
    get("/audit", Role::Operator, "Page<AuditView>", "The audit log, the newest first.")
        .query(&[CURSOR, LIMIT]),
    get("/tokens", Role::Admin, "Page<TokenView>", "Every token, without itself, the newest first.")
        .query(&[CURSOR, LIMIT]),
    post("/tokens", Role::Admin, Some("TokenOrder"), "TokenMade", "Make a token.").status(201),
    post("/tokens/{token_id}/revoke", Role::Admin, Some("ReasonOrder"), "TokenView", "Revoke a token."),
];
