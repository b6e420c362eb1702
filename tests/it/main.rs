//! One integration-test binary: every further one would link the library again.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    clippy::items_after_statements,
    unreachable_pub,
    reason = "tests"
)]

mod access;
mod activity;
mod addresses;
mod admit;
mod admit_bounds;
mod admit_faults;
mod admit_nodes;
mod age;
mod answers;
mod api;
mod app;
mod bad_input;
mod broken_transactions;
mod brokers;
mod cli;
mod cli_api;
mod cli_served;
mod config;
mod confirmed;
mod conflicts;
mod connections;
mod console;
mod contract;
mod crash;
mod damaged;
mod database;
mod delivery;
mod doctor;
mod edge;
mod encrypted;
mod envelope;
mod events_read;
mod examples;
mod exits;
mod explain;
mod faults;
mod faults_page;
mod fetched;
mod first_party;
mod floors;
mod fuzz;
mod get_events;
mod guard;
mod handler_sessions;
mod handlers_blocked;
mod handshakes;
mod headlines;
mod idempotency;
mod identity;
mod identity_banks;
mod identity_payments;
mod identity_saas;
mod identity_shops;
mod identity_tools;
mod identity_written;
mod idle;
mod inside;
mod joint;
mod judged;
mod kinds;
mod large_bodies;
mod library;
mod loaded;
mod look;
mod metrics;
mod migrations;
mod model;
mod moved;
mod needs;
mod negotiated;
mod nodes;
mod odd_requests;
mod openapi;
mod operations;
mod operator;
mod ops;
mod oracles;
mod outbox;
mod own_kinds;
mod pages;
mod pairing;
mod paused;
mod payers;
mod posts;
mod private;
mod process;
mod program_migrations;
mod proven;
mod providers;
mod reading;
mod refusals;
mod reload;
mod restore;
mod retention;
mod scopes;
mod sdk;
mod secrets;
mod service;
mod shown;
mod soak;
mod store;
mod stub;
mod templates;
mod test_events;
mod test_servers;
mod tidy;
mod tls_listeners;
mod tokens;
mod traces;
mod two_nodes;
mod upgrade;
mod vectors;
mod warned;
mod what_if;
mod whole_batches;
mod whose;
mod work;
