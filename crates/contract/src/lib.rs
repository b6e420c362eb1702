//! The operators' contract: what the API under `/v1` takes and returns, as types.
//!
//! One definition for three users: the HTTP handlers answer with views and read orders, the commands and the console
//! read views and write orders, and `openapi.json` is made of them. Times are unix milliseconds (`*_at_ms`); states
//! and outcomes are the words of the tables. Fields may be added; none changes its meaning.
//!
//! In reading order: `page.rs` and `problem.rs` are common to all; `event.rs`, `message.rs`, `destination.rs`,
//! `provider.rs`, `statistics.rs`, `activity.rs`, `search.rs` and `setting.rs` are the views; `order.rs` and
//! `operation.rs` the orders, `test_event.rs` events that operators make, `what_if.rs` what handlers would make of
//! events, `explain.rs` why a request is verified, `doctor.rs` what a live system shows; `reason.rs` and `whole.rs` the
//! texts and numbers in it; `etag.rs` the version of what can change, `if_match.rs` which version a request is about,
//! `audit.rs` and `token.rs` who did it. `routes.rs` is the list of routes, `judgement.rs` and `bulk.rs` the risk of an
//! act, on one and on many; `message_judgement/` and `judged_event/` judge messages and events. `document.rs` makes
//! `openapi.json` of it. Nothing here reads a database or a socket.

mod activity;
mod audit;
mod bulk;
mod destination;
mod doctor;
mod document;
mod etag;
mod event;
mod explain;
mod if_match;
mod judged_event;
mod judgement;
mod message;
mod message_judgement;
mod operation;
mod order;
mod page;
mod problem;
mod provider;
mod reason;
mod routes;
mod search;
mod setting;
mod statistics;
mod test_event;
mod token;
mod what_if;
mod whole;

pub use activity::{ActivityCount, ActivityView};
pub use audit::AuditView;
pub use bulk::bulk_acts;
pub use bulk::{
    BulkFigures, ChangedRows, NamedCount, OperationChoice, OperationPreview, PreviewedAct, RecentDecisions,
};
pub use destination::{BacklogCount, CallTimesView, DestinationView, PauseView, PolicyView, RetryView};
pub use doctor::{
    ArrivedHeader, ArrivedView, DoctorView, FindingVerdict, FindingView, ProbeAnswer, ProbePath, ProbeView,
};
pub use document::document;
pub use etag::Tagged;
pub use etag::{message_tag, pause_tag};
pub use event::{CallCounts, ContentView, DeliveryView, EventView, LedgerEntry, LedgerView, LedgerWhat};
pub use explain::{
    ExplainEvent, ExplainHeader, ExplainLines, ExplainOrder, ExplainParts, ExplainRequest, ExplainStep,
    ExplainVerdict, ExplainView,
};
pub use if_match::{IfMatch, InvalidIfMatch};
pub use judged_event::EventTaker;
pub use judged_event::{EventFacts, KeptBody, judge_event, open_calls_in_words, why_not_sent};
pub use judgement::{JudgedAct, Judgement, Risk};
pub use message::{AttemptView, CountView, LaneView, MessageDetail, MessageView};
pub use message_judgement::{MessageContent, MessageFacts, PauseFact, RepeatPolicy, StandsStill};
pub use operation::{
    EventFilter, MessageFilter, OperationOrder, OperationState, OperationSteps, OperationSubject,
    OperationView, SkippedRow, StepView, StepsView,
};
pub use order::{
    EventAct, EventOrder, MessageAct, MessageOrder, Order, OrderResult, PauseAct, PauseOrder, ReasonOrder,
    TokenOrder,
};
pub use page::{DamagedRow, PAGE_N_DEFAULT, PAGE_N_MAX, Page};
pub use problem::ProblemView;
pub use provider::{
    BacklogEvents, BacklogMessages, BacklogView, CauseView, LastEventView, ProviderView, RejectedGroup,
    RejectedView, SecretView, SenderView, StuckSubject, TaughtView, UnknownPathView, WaitingCount,
};
pub use reason::is_reason;
pub use routes::{ROUTES, RouteFacts, RouteParameter};
pub use search::{SearchHit, SearchView};
pub use setting::{SettingLayer, SettingView};
pub use statistics::{MinuteView, StatisticsView};
pub use test_event::{TestEventOrder, TestEventView};
pub use token::{MeView, TokenMade, TokenView};
pub use what_if::{
    WHAT_IF_N_DEFAULT, WHAT_IF_N_MAX, WhatIfCall, WhatIfChange, WhatIfEffect, WhatIfEvent, WhatIfOrder,
    WhatIfSaid, WhatIfTaken, WhatIfVerdict, WhatIfView,
};
pub use whole::TIME_MS_MAX;
