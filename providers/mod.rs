//! The kinds that come with Hooklatch: one line each. `README.md` beside this file says how to add one.

use crate::prelude::*;

mod adyen;

/// A kind that its `provider.toml` says everything about, with its sample events: type and file.
macro_rules! kind {
    ($kind:literal: $($event_type:literal in $file:literal),+) => {
        Provider::from_spec(include_str!(concat!($kind, "/provider.toml")))
            .samples(&[$(($event_type, include_str!(concat!($kind, "/samples/", $file, ".json")))),+])
    };
}

/// Every built-in kind, in alphabetical order.
pub fn builtin() -> Vec<Provider> {
    vec![
        adyen::provider(),
        kind!("github": "ping" in "ping", "push" in "push", "issues" in "issues-opened"),
        kind!("gocardless": "payments.confirmed" in "payments-confirmed", "mandates.cancelled" in "mandates-cancelled", "subscriptions.created" in "subscriptions-created"),
        kind!("paystack": "charge.success" in "charge.success", "transfer.success" in "transfer.success", "refund.processed" in "refund.processed"),
        kind!("razorpay": "payment.captured" in "payment.captured", "payment.failed" in "payment.failed", "refund.processed" in "refund.processed"),
        kind!("shopify": "orders/paid" in "orders-paid", "orders/create" in "orders-create", "app/uninstalled" in "app-uninstalled"),
        kind!("slack": "message" in "message", "app_mention" in "app_mention", "reaction_added" in "reaction_added"),
        kind!("square": "payment.updated" in "payment.updated", "refund.created" in "refund.created", "order.created" in "order.created"),
        kind!("standard_webhooks": "invoice.paid" in "invoice.paid", "user.created" in "user.created", "order.shipped" in "order.shipped"),
        kind!("stripe": "invoice.paid" in "invoice.paid", "charge.refunded" in "charge.refunded", "payment_intent.succeeded" in "payment_intent.succeeded"),
        kind!("svix": "user.created" in "user.created", "invoice.paid" in "invoice.paid", "email.delivered" in "email.delivered"),
    ]
}
