//! The kinds that come with Hooklatch: one line each. `README.md` beside this file says how to add one.

use crate::prelude::*;

mod adyen;
mod alipay;
mod apple_app_store;
mod atlassian_connect;
mod aws_sns;
mod billplz;
mod r#box;
mod braintree;
mod contentful;
mod cybersource;
mod fireblocks;
mod gitlab;
mod google_pubsub;
mod hubspot;
mod iyzico;
mod marqeta;
mod mercadopago;
mod meta;
mod midtrans;
mod netlify;
mod nowpayments;
mod paddle_classic;
mod paypal;
mod paytm;
mod payu;
mod plaid;
mod rapyd;
mod rfc9421;
mod segment;
mod tap;
mod truelayer;
mod twilio;
mod wechat_pay;
mod x_twitter;

/// A kind that its `provider.toml` says everything about, with its sample events: type and file.
macro_rules! kind {
    ($kind:literal: $($event_type:literal in $file:literal),+) => {
        Provider::from_spec(include_str!(concat!($kind, "/provider.toml")))
            .samples(&[$(($event_type, include_str!(concat!($kind, "/samples/", $file, ".json")))),+])
    };
}

/// Every built-in kind, in alphabetical order.
#[expect(clippy::too_many_lines, reason = "a list, one line each")]
pub fn builtin() -> Vec<Provider> {
    vec![
        kind!("ably": "channel.message" in "channel.message", "channel.presence" in "channel.presence", "channel.lifecycle" in "channel.lifecycle"),
        adyen::provider(),
        kind!("affirm": "opened" in "opened", "approved" in "approved", "confirmed" in "confirmed"),
        kind!("airwallex": "payment_intent.succeeded" in "payment_intent.succeeded", "refund.settled" in "refund.settled", "payout.transfer.paid" in "payout.transfer.paid"),
        alipay::provider(),
        apple_app_store::provider(),
        kind!("asana": "changed" in "changed", "added" in "added", "deleted" in "deleted"),
        atlassian_connect::provider(),
        kind!("auth0": "s" in "s", "f" in "f", "ss" in "ss"),
        kind!("authorize_net": "net.authorize.payment.authcapture.created" in "net.authorize.payment.authcapture.created", "net.authorize.payment.refund.created" in "net.authorize.payment.refund.created", "net.authorize.customer.created" in "net.authorize.customer.created"),
        aws_sns::provider(),
        kind!("bigcommerce": "store/order/created" in "store-order-created", "store/order/statusUpdated" in "store-order-statusUpdated", "store/cart/converted" in "store-cart-converted"),
        billplz::provider(),
        kind!("bitbucket": "repo:push" in "repo-push", "pullrequest:created" in "pullrequest-created", "issue:created" in "issue-created"),
        kind!("bitpay": "invoice_paidInFull" in "invoice_paidInFull", "invoice_confirmed" in "invoice_confirmed", "invoice_completed" in "invoice_completed"),
        kind!("bolt": "payment" in "payment", "auth" in "auth", "credit" in "credit"),
        r#box::provider(),
        braintree::provider(),
        kind!("buildkite": "build.finished" in "build.finished", "job.started" in "job.started", "package.created" in "package.created", "agent.blocked" in "agent.blocked", "ping" in "ping"),
        kind!("calendly": "invitee.created" in "invitee.created", "invitee.canceled" in "invitee.canceled", "routing_form_submission.created" in "routing_form_submission.created"),
        kind!("cashfree": "PAYMENT_SUCCESS_WEBHOOK" in "PAYMENT_SUCCESS_WEBHOOK", "PAYMENT_FAILED_WEBHOOK" in "PAYMENT_FAILED_WEBHOOK", "PAYMENT_USER_DROPPED_WEBHOOK" in "PAYMENT_USER_DROPPED_WEBHOOK"),
        kind!("chargebee": "subscription_created" in "subscription_created", "payment_succeeded" in "payment_succeeded", "invoice_generated" in "invoice_generated"),
        kind!("checkout_com": "payment_approved" in "payment_approved", "payment_captured" in "payment_captured", "payment_refunded" in "payment_refunded"),
        kind!("circle": "transactions.inbound" in "transactions.inbound", "transactions.outbound" in "transactions.outbound", "webhooks.test" in "webhooks.test"),
        kind!("circleci": "workflow-completed" in "workflow-completed", "job-completed" in "job-completed", "ping" in "ping"),
        kind!("clerk": "user.created" in "user.created", "session.created" in "session.created", "organization.updated" in "organization.updated"),
        kind!("cloudevents": "com.example.order.placed" in "com.example.order.placed", "com.example.order.paid" in "com.example.order.paid", "com.example.order.shipped" in "com.example.order.shipped", "com.github.pull_request.opened" in "com.github.pull_request.opened"),
        kind!("cloudflare_notifications": "health_check_status_notification" in "health_check_status_notification", "advanced_ddos_attack_l4_alert" in "advanced_ddos_attack_l4_alert", "dedicated_ssl_certificate_event_type" in "dedicated_ssl_certificate_event_type"),
        kind!("cloudflare_stream": "ready" in "ready", "error" in "error", "inprogress" in "inprogress"),
        kind!("coinbase_cdp": "checkout.payment.success" in "checkout.payment.success", "checkout.payment.failed" in "checkout.payment.failed", "onchain.activity.detected" in "onchain.activity.detected"),
        kind!("coinbase_commerce": "charge:confirmed" in "charge-confirmed", "charge:created" in "charge-created", "charge:failed" in "charge-failed"),
        kind!("column": "ach.outgoing_transfer.completed" in "ach.outgoing_transfer.completed", "wire.incoming_transfer.completed" in "wire.incoming_transfer.completed", "book.transfer.completed" in "book.transfer.completed"),
        contentful::provider(),
        cybersource::provider(),
        kind!("discord": "APPLICATION_AUTHORIZED" in "APPLICATION_AUTHORIZED", "ENTITLEMENT_CREATE" in "ENTITLEMENT_CREATE", "LOBBY_MESSAGE_DELETE" in "LOBBY_MESSAGE_DELETE"),
        kind!("dlocal": "PAID" in "PAID", "REJECTED" in "REJECTED", "CANCELLED" in "CANCELLED"),
        kind!("docusign": "envelope-completed" in "envelope-completed", "envelope-sent" in "envelope-sent", "recipient-completed" in "recipient-completed"),
        kind!("dropbox": "list_folder" in "list_folder", "delta" in "delta", "list_folder" in "list_folder-team"),
        kind!("dwolla": "customer_created" in "customer_created", "transfer_completed" in "transfer_completed", "transfer_failed" in "transfer_failed"),
        kind!("elevenlabs": "post_call_transcription" in "post_call_transcription", "post_call_audio" in "post_call_audio", "voice_removal_notice" in "voice_removal_notice"),
        fireblocks::provider(),
        kind!("flutterwave": "charge.completed" in "charge.completed", "transfer.completed" in "transfer.completed", "subscription.cancelled" in "subscription.cancelled"),
        kind!("github": "ping" in "ping", "push" in "push", "issues" in "issues-opened", "pull_request" in "pull_request-opened", "workflow_dispatch" in "workflow_dispatch", "repository_dispatch" in "repository_dispatch", "watch" in "watch-started"),
        gitlab::provider(),
        kind!("gocardless": "payments.confirmed" in "payments-confirmed", "mandates.cancelled" in "mandates-cancelled", "subscriptions.created" in "subscriptions-created"),
        google_pubsub::provider(),
        hubspot::provider(),
        kind!("increase": "account.created" in "account.created", "transaction.created" in "transaction.created", "ach_transfer.updated" in "ach_transfer.updated"),
        kind!("intercom": "conversation.user.created" in "conversation.user.created", "contact.created" in "contact.created", "contact.lead.tag.created" in "contact.lead.tag.created", "ping" in "ping"),
        iyzico::provider(),
        kind!("jira": "jira:issue_created" in "jira-issue_created", "jira:issue_updated" in "jira-issue_updated", "comment_created" in "comment_created"),
        kind!("klarna": "payment.request.state-change.completed" in "payment.request.state-change.completed", "payment.request.state-change.expired" in "payment.request.state-change.expired", "payment.dispute.state-change.lost" in "payment.dispute.state-change.lost"),
        kind!("lemon_squeezy": "order_created" in "order_created", "subscription_created" in "subscription_created", "subscription_payment_success" in "subscription_payment_success"),
        kind!("line": "message" in "message", "follow" in "follow", "postback" in "postback", "unsend" in "unsend"),
        kind!("linear": "Issue.create" in "Issue.create", "Issue.update" in "Issue.update", "Comment.create" in "Comment.create"),
        kind!("lithic": "card.created" in "card.created", "card_transaction.updated" in "card_transaction.updated", "dispute.updated" in "dispute.updated"),
        kind!("mailgun": "delivered" in "delivered", "failed" in "failed", "opened" in "opened"),
        marqeta::provider(),
        mercadopago::provider(),
        meta::provider(),
        kind!("microsoft_graph": "created" in "created", "updated" in "updated", "updated" in "updated-drive", "deleted" in "deleted", "reauthorizationRequired" in "reauthorizationRequired"),
        kind!("microsoft_teams_outgoing": "message" in "message", "messageReaction" in "messageReaction", "invoke" in "invoke"),
        midtrans::provider(),
        kind!("modern_treasury": "payment_order" in "payment_order", "expected_payment" in "expected_payment", "return" in "return"),
        kind!("mollie": "payment-link.paid" in "payment-link.paid", "sales-invoice.paid" in "sales-invoice.paid", "profile.verified" in "profile.verified"),
        kind!("moyasar": "payment_paid" in "payment_paid", "payment_failed" in "payment_failed", "payment_refunded" in "payment_refunded"),
        netlify::provider(),
        kind!("nmi": "transaction.sale.success" in "transaction.sale.success", "transaction.refund.success" in "transaction.refund.success", "recurring.subscription.add" in "recurring.subscription.add"),
        kind!("notion": "page.created" in "page.created", "page.content_updated" in "page.content_updated", "comment.created" in "comment.created"),
        nowpayments::provider(),
        kind!("okta": "user.session.start" in "user.session.start", "user.lifecycle.create" in "user.lifecycle.create", "group.user_membership.add" in "group.user_membership.add"),
        kind!("openai": "response.completed" in "response.completed", "batch.completed" in "batch.completed", "fine_tuning.job.succeeded" in "fine_tuning.job.succeeded", "realtime.call.incoming" in "realtime.call.incoming", "safety.warning_issued" in "safety.warning_issued"),
        kind!("paddle_billing": "transaction.completed" in "transaction.completed", "subscription.created" in "subscription.created", "customer.updated" in "customer.updated"),
        paddle_classic::provider(),
        kind!("pagerduty": "incident.triggered" in "incident.triggered", "incident.acknowledged" in "incident.acknowledged", "incident.resolved" in "incident.resolved", "incident.priority_updated" in "incident.priority_updated"),
        paypal::provider(),
        kind!("paystack": "charge.success" in "charge.success", "transfer.success" in "transfer.success", "refund.processed" in "refund.processed"),
        paytm::provider(),
        payu::provider(),
        kind!("phonepe": "checkout.order.completed" in "checkout.order.completed", "checkout.order.failed" in "checkout.order.failed", "pg.refund.completed" in "pg.refund.completed"),
        plaid::provider(),
        kind!("polar": "order.paid" in "order.paid", "subscription.active" in "subscription.active", "customer.created" in "customer.created"),
        kind!("postmark": "Delivery" in "Delivery", "Bounce" in "Bounce", "Open" in "Open", "Click" in "Click", "inbound" in "inbound"),
        kind!("pusher": "channel_occupied" in "channel_occupied", "channel_vacated" in "channel_vacated", "member_added" in "member_added", "client_event" in "client_event"),
        rapyd::provider(),
        kind!("razorpay": "payment.captured" in "payment.captured", "payment.failed" in "payment.failed", "refund.processed" in "refund.processed"),
        kind!("recurly": "new_subscription_notification" in "new_subscription_notification", "successful_payment_notification" in "successful_payment_notification", "canceled_subscription_notification" in "canceled_subscription_notification"),
        kind!("resend": "email.delivered" in "email.delivered", "email.bounced" in "email.bounced", "email.complained" in "email.complained"),
        kind!("revenuecat": "INITIAL_PURCHASE" in "INITIAL_PURCHASE", "RENEWAL" in "RENEWAL", "CANCELLATION" in "CANCELLATION"),
        kind!("revolut": "TransactionStateChanged" in "TransactionStateChanged", "ORDER_COMPLETED" in "ORDER_COMPLETED", "ORDER_PAYMENT_DECLINED" in "ORDER_PAYMENT_DECLINED", "PAYOUT_COMPLETED" in "PAYOUT_COMPLETED"),
        rfc9421::provider(),
        kind!("sanity": "create" in "create", "update" in "update", "delete" in "delete"),
        segment::provider(),
        kind!("sendgrid": "processed" in "processed", "delivered" in "delivered", "bounce" in "bounce", "open" in "open"),
        kind!("sentry": "issue" in "issue", "event_alert" in "event_alert", "installation" in "installation"),
        kind!("shopify": "orders/paid" in "orders-paid", "orders/create" in "orders-create", "app/uninstalled" in "app-uninstalled"),
        kind!("slack": "message" in "message", "app_mention" in "app_mention", "reaction_added" in "reaction_added"),
        kind!("square": "payment.updated" in "payment.updated", "refund.created" in "refund.created", "order.created" in "order.created"),
        kind!("standard_webhooks": "contact.created" in "contact.created", "example.event" in "example.event", "contact.created" in "contact.created-thin"),
        kind!("stripe": "invoice.paid" in "invoice.paid", "charge.refunded" in "charge.refunded", "payment_intent.succeeded" in "payment_intent.succeeded"),
        kind!("supabase": "sms" in "sms", "email_data" in "email_data", "claims" in "claims", "factor_id" in "factor_id", "valid" in "valid"),
        kind!("svix": "user.created" in "user.created", "invoice.paid" in "invoice.paid", "email.delivered" in "email.delivered"),
        tap::provider(),
        kind!("telegram": "message" in "message", "edited_message" in "edited_message", "callback_query" in "callback_query", "pre_checkout_query" in "pre_checkout_query"),
        kind!("trello": "updateBoard" in "updateBoard", "createCard" in "createCard", "commentCard" in "commentCard"),
        truelayer::provider(),
        twilio::provider(),
        kind!("twitch": "stream.online" in "stream.online", "channel.follow" in "channel.follow", "channel.subscribe" in "channel.subscribe"),
        kind!("typeform": "form_response" in "form_response", "form_response_partial" in "form_response_partial", "form_response_test" in "form_response_test"),
        kind!("vercel": "deployment.created" in "deployment.created", "deployment.succeeded" in "deployment.succeeded", "project.created" in "project.created"),
        wechat_pay::provider(),
        kind!("wise": "transfers#state-change" in "transfers-state-change", "balances#credit" in "balances-credit", "transfers#payout-failure" in "transfers-payout-failure"),
        kind!("woocommerce": "order.created" in "order.created", "order.updated" in "order.updated", "product.created" in "product.created"),
        kind!("workos": "dsync.user.created" in "dsync.user.created", "user.created" in "user.created", "connection.activated" in "connection.activated"),
        kind!("worldline": "payment.created" in "payment.created", "payment.captured" in "payment.captured", "refund.refund_requested" in "refund.refund_requested"),
        kind!("worldpay": "authorized" in "authorized", "sentForSettlement" in "sentForSettlement", "refused" in "refused"),
        x_twitter::provider(),
        kind!("xendit": "payment.capture" in "payment.capture", "payment.failure" in "payment.failure", "refund.succeeded" in "refund.succeeded"),
        kind!("zendesk": "zen:event-type:user.created" in "zen-event-type-user.created", "zen:event-type:organization.created" in "zen-event-type-organization.created", "zen:event-type:ticket.created" in "zen-event-type-ticket.created"),
        kind!("zoom": "meeting.started" in "meeting.started", "meeting.ended" in "meeting.ended", "recording.completed" in "recording.completed"),
    ]
}
