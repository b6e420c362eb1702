//! The protocol as it is built holds in every order of events; each way in which it was or could be broken is caught.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

use super::{MARGIN, Protocol, Unknown};

/// As it is built.
fn ours(unknown: Unknown) -> Protocol {
    Protocol {
        unknown,
        honours_keys: unknown == Unknown::Retry,
        // Leases and ends of attempts use one clock: the database's, or that of the only node.
        skew: 0,
        is_pause_unbounded: unknown != Unknown::Query,
        is_fenced: true,
        // With `query` the config refuses it: a lease that could not be prolonged would let another worker ask
        // about a call that is still under way.
        has_heartbeat: unknown != Unknown::Query,
        remembers_lapse: true,
        records_lapse: true,
        appends_what_it_deleted: true,
        waits_to_ask: true,
        believes_gateways: false,
    }
}

fn check(protocol: Protocol) -> impl Checker<Protocol> {
    protocol.checker().threads(2).spawn_bfs().join()
}

#[test]
fn leases_keep_their_promises_in_every_order_of_events() {
    for unknown in [Unknown::Retry, Unknown::Query, Unknown::Hold] {
        let checked = check(ours(unknown));
        assert!(checked.unique_state_count() > 1_000, "{unknown:?} saw {}", checked.unique_state_count());
        checked.assert_properties();
    }
}

#[test]
fn the_model_catches_what_is_broken_on_purpose() {
    fn caught(broken: Protocol, property: &'static str) {
        let until = HasDiscoveries::AnyOf(BTreeSet::from([property]));
        broken.checker().threads(2).finish_when(until).spawn_bfs().join().assert_any_discovery(property);
    }
    let unfenced = |unknown| Protocol { is_fenced: false, ..ours(unknown) };
    caught(unfenced(Unknown::Retry), "an end is never undone");
    caught(unfenced(Unknown::Hold), "an end is never undone");
    caught(unfenced(Unknown::Retry), "no row is taken away by another worker");
    let blind = Protocol { appends_what_it_deleted: false, ..ours(Unknown::Retry) };
    caught(blind, "what is done is reported once");
    caught(Protocol { records_lapse: false, ..ours(Unknown::Retry) }, "how each claim ended is reported");
    let forgetful = |unknown| Protocol { remembers_lapse: false, ..ours(unknown) };
    caught(forgetful(Unknown::Hold), "hold repeats nothing");
    caught(forgetful(Unknown::Query), "query repeats nothing");
    // Queried while the call is still worked on, the destination answers "no" for what is yet to happen.
    caught(Protocol { waits_to_ask: false, ..ours(Unknown::Query) }, "query repeats nothing");
    let credulous = |unknown| Protocol { believes_gateways: true, ..ours(unknown) };
    caught(credulous(Unknown::Hold), "hold repeats nothing");
    caught(credulous(Unknown::Query), "query repeats nothing");
    // The limits of what can be promised: see `docs/outbox.md`.
    caught(Protocol { is_pause_unbounded: true, ..ours(Unknown::Query) }, "query repeats nothing");
    caught(Protocol { skew: MARGIN, ..ours(Unknown::Query) }, "query repeats nothing");
}
