//! The kinds that come with Hooklatch: one line each. `README.md` beside this file says how to add one.

use hooklatch::kind::prelude::*;

mod adyen;
mod alipay;
mod apple_app_store;
mod atlassian_connect;
mod aws_sns;
mod azure_event_grid;
mod billplz;
mod r#box;
mod braintree;
mod bridge;
mod contentful;
mod cybersource;
mod fireblocks;
mod first_party;
mod gitlab;
mod google_pubsub;
mod hubspot;
mod iyzico;
mod mandrill;
mod marqeta;
mod mercadopago;
mod midtrans;
mod netlify;
mod nowpayments;
mod nuvei;
mod paddle_classic;
mod payfast;
mod paymob;
mod paypal;
mod paytm;
mod payu;
mod persona;
mod phonepe;
mod plaid;
mod plivo;
mod rapyd;
mod recurly_xml;
mod redsys;
mod rfc9421;
mod salesforce;
mod segment;
mod sumsub;
mod tap;
mod truelayer;
mod trustly;
mod twilio;
mod two_checkout;
mod vonage;
mod wechat_pay;
mod wompi;
mod x_twitter;

/// A kind that its `provider.toml` says everything about, with its sample events: type and file.
macro_rules! kind {
    ($kind:literal: $($event_type:literal in $file:literal),+) => {
        ($kind, || {
            Provider::from_spec(include_str!(concat!($kind, "/provider.toml")))
                .samples(&[$(($event_type, include_str!(concat!($kind, "/samples/", $file, ".json")))),+])
        })
    };
}

/// The name of a built-in kind, and the function that makes it.
type BuiltIn = (&'static str, fn() -> Provider);

/// Every built-in kind, in alphabetical order.
pub const KINDS: &[BuiltIn] = &[
    kind!("ably": "channel.message" in "channel.message", "channel.presence" in "channel.presence", "channel.lifecycle" in "channel.lifecycle"),
    ("adyen", adyen::provider),
    kind!("affirm": "opened" in "opened", "approved" in "approved", "confirmed" in "confirmed"),
    kind!("airtable": "notification" in "notification", "notification" in "notification-other-base", "notification" in "notification-later"),
    kind!("airwallex": "payment_attempt.authorized" in "payment_attempt.authorized", "payment_intent.created" in "payment_intent.created", "payment_intent.succeeded" in "payment_intent.succeeded", "refund.settled" in "refund.settled", "payout.transfer.paid" in "payout.transfer.paid"),
    kind!("alchemy": "ADDRESS_ACTIVITY" in "ADDRESS_ACTIVITY", "MINED_TRANSACTION" in "MINED_TRANSACTION", "DROPPED_TRANSACTION" in "DROPPED_TRANSACTION"),
    ("alipay", alipay::provider),
    ("apple_app_store", apple_app_store::provider),
    kind!("asaas": "PAYMENT_CREATED" in "PAYMENT_CREATED", "PAYMENT_RECEIVED" in "PAYMENT_RECEIVED", "PAYMENT_REFUNDED" in "PAYMENT_REFUNDED"),
    kind!("asana": "changed" in "changed", "added" in "added", "deleted" in "deleted"),
    ("atlassian_connect", atlassian_connect::provider),
    kind!("auth0": "s" in "s", "f" in "f", "ss" in "ss"),
    kind!("authorize_net": "net.authorize.payment.authcapture.created" in "net.authorize.payment.authcapture.created", "net.authorize.payment.refund.created" in "net.authorize.payment.refund.created", "net.authorize.customer.created" in "net.authorize.customer.created"),
    ("aws_sns", aws_sns::provider),
    ("azure_event_grid", azure_event_grid::provider),
    kind!("bigcommerce": "store/order/created" in "store-order-created", "store/order/statusUpdated" in "store-order-statusUpdated", "store/cart/converted" in "store-cart-converted", "store/customer/address/created" in "store-customer-address-created"),
    ("billplz", billplz::provider),
    kind!("binance_pay": "PAY.PAY_SUCCESS" in "PAY.PAY_SUCCESS", "PAY_REFUND.REFUND_SUCCESS" in "PAY_REFUND.REFUND_SUCCESS", "SHARE_ACCOUNT_ID.SUCCESS" in "SHARE_ACCOUNT_ID.SUCCESS", "MERCHANT_QR_CODE.MERCHANT_QR_CODE_SCANED" in "MERCHANT_QR_CODE.MERCHANT_QR_CODE_SCANED"),
    kind!("bitbucket": "repo:push" in "repo-push", "pullrequest:created" in "pullrequest-created", "issue:created" in "issue-created"),
    kind!("bitpay": "invoice_paidInFull" in "invoice_paidInFull", "invoice_confirmed" in "invoice_confirmed", "invoice_completed" in "invoice_completed", "paid" in "paid", "confirmed" in "confirmed"),
    kind!("bolt": "payment" in "payment", "auth" in "auth", "credit" in "credit"),
    ("box", r#box::provider),
    ("braintree", braintree::provider),
    ("bridge", bridge::provider),
    kind!("buildkite": "build.finished" in "build.finished", "job.started" in "job.started", "package.created" in "package.created", "agent.blocked" in "agent.blocked", "ping" in "ping"),
    kind!("calendly": "invitee.created" in "invitee.created", "invitee.canceled" in "invitee.canceled", "routing_form_submission.created" in "routing_form_submission.created"),
    kind!("cashfree": "PAYMENT_SUCCESS_WEBHOOK" in "PAYMENT_SUCCESS_WEBHOOK", "PAYMENT_FAILED_WEBHOOK" in "PAYMENT_FAILED_WEBHOOK", "PAYMENT_USER_DROPPED_WEBHOOK" in "PAYMENT_USER_DROPPED_WEBHOOK", "DISPUTE_CREATED" in "DISPUTE_CREATED", "REFUND_STATUS_WEBHOOK" in "REFUND_STATUS_WEBHOOK", "SUBSCRIPTION_PAYMENT_SUCCESS" in "SUBSCRIPTION_PAYMENT_SUCCESS"),
    kind!("chargebee": "subscription_created" in "subscription_created", "payment_succeeded" in "payment_succeeded", "invoice_generated" in "invoice_generated", "customer_changed" in "customer_changed"),
    kind!("checkout_com": "payment_captured" in "payment_captured", "payment_captured" in "payment_captured-2019", "payment_approved" in "payment_approved", "payment_refunded" in "payment_refunded"),
    kind!("circle": "transactions.inbound" in "transactions.inbound", "transactions.outbound" in "transactions.outbound", "webhooks.test" in "webhooks.test"),
    kind!("circleci": "workflow-completed" in "workflow-completed", "job-completed" in "job-completed", "ping" in "ping"),
    kind!("clerk": "user.created" in "user.created", "session.created" in "session.created", "organization.updated" in "organization.updated"),
    kind!("cloudevents": "com.example.order.placed" in "com.example.order.placed", "com.example.order.paid" in "com.example.order.paid", "com.example.order.shipped" in "com.example.order.shipped", "com.github.pull_request.opened" in "com.github.pull_request.opened"),
    kind!("cloudflare_notifications": "health_check_status_notification" in "health_check_status_notification", "advanced_ddos_attack_l4_alert" in "advanced_ddos_attack_l4_alert", "dedicated_ssl_certificate_event_type" in "dedicated_ssl_certificate_event_type"),
    kind!("cloudflare_stream": "ready" in "ready", "error" in "error", "inprogress" in "inprogress"),
    kind!("coinbase_cdp": "checkout.payment.success" in "checkout.payment.success", "checkout.payment.failed" in "checkout.payment.failed", "wallet.activity.detected" in "wallet.activity.detected", "onchain.activity.detected" in "onchain.activity.detected"),
    kind!("coinbase_commerce": "charge:created" in "charge-created", "charge:confirmed" in "charge-confirmed", "charge:failed" in "charge-failed"),
    kind!("column": "ach.outgoing_transfer.completed" in "ach.outgoing_transfer.completed", "wire.incoming_transfer.completed" in "wire.incoming_transfer.completed", "book.transfer.completed" in "book.transfer.completed"),
    kind!("conekta": "charge.paid" in "charge.paid", "order.paid" in "order.paid", "webhook_ping" in "webhook_ping"),
    ("contentful", contentful::provider),
    kind!("customer_io": "email.delivered" in "email.delivered", "email.clicked" in "email.clicked", "customer.subscribed" in "customer.subscribed"),
    ("cybersource", cybersource::provider),
    kind!("discord": "APPLICATION_AUTHORIZED" in "APPLICATION_AUTHORIZED", "ENTITLEMENT_CREATE" in "ENTITLEMENT_CREATE", "LOBBY_MESSAGE_DELETE" in "LOBBY_MESSAGE_DELETE"),
    kind!("dlocal": "PAID" in "PAID", "REJECTED" in "REJECTED", "CANCELLED" in "CANCELLED"),
    kind!("docusign": "envelope-completed" in "envelope-completed", "envelope-sent" in "envelope-sent", "recipient-completed" in "recipient-completed"),
    kind!("doku": "VIRTUAL_ACCOUNT.SUCCESS" in "VIRTUAL_ACCOUNT.SUCCESS", "CREDIT_CARD.SUCCESS" in "CREDIT_CARD.SUCCESS", "CREDIT_CARD.FAILED" in "CREDIT_CARD.FAILED"),
    kind!("dropbox": "list_folder" in "list_folder", "delta" in "delta", "list_folder" in "list_folder-team"),
    kind!("dwolla": "account_suspended" in "account_suspended", "customer_created" in "customer_created", "transfer_completed" in "transfer_completed", "transfer_failed" in "transfer_failed"),
    kind!("ebanx": "update" in "update", "refund" in "refund", "chargeback" in "chargeback"),
    kind!("elevenlabs": "post_call_transcription" in "post_call_transcription", "post_call_audio" in "post_call_audio", "voice_removal_notice" in "voice_removal_notice"),
    ("fireblocks", fireblocks::provider),
    ("first_party", first_party::provider),
    kind!("flutterwave": "charge.completed" in "charge.completed", "transfer.completed" in "transfer.completed", "subscription.cancelled" in "subscription.cancelled"),
    kind!("github": "ping" in "ping", "push" in "push", "issues" in "issues-opened", "pull_request" in "pull_request-opened", "workflow_dispatch" in "workflow_dispatch", "repository_dispatch" in "repository_dispatch", "watch" in "watch-started", "pull_request" in "pull_request-closed", "issue_comment" in "issue_comment-created", "release" in "release-published", "workflow_run" in "workflow_run-completed", "pull_request_review" in "pull_request_review-submitted", "check_run" in "check_run-completed", "check_suite" in "check_suite-completed", "create" in "create", "delete" in "delete", "deployment" in "deployment-created", "deployment_status" in "deployment_status-created", "fork" in "fork", "installation" in "installation-created", "issues" in "issues-labeled", "issues" in "issues-reopened", "pull_request" in "pull_request-labeled", "pull_request" in "pull_request-review_requested", "pull_request" in "pull_request-synchronize", "pull_request_review_comment" in "pull_request_review_comment-created", "star" in "star-created", "status" in "status", "workflow_job" in "workflow_job-completed"),
    ("gitlab", gitlab::provider),
    kind!("gocardless": "subscriptions.created" in "subscriptions-created", "payments.confirmed" in "payments-confirmed", "mandates.cancelled" in "mandates-cancelled", "payments.failed" in "payments-failed", "payments.paid_out" in "payments-paid_out", "payments.charged_back" in "payments-charged_back", "mandates.active" in "mandates-active", "mandates.failed" in "mandates-failed", "subscriptions.cancelled" in "subscriptions-cancelled", "payouts.paid" in "payouts-paid", "payments.created" in "payments-created", "payments.submitted" in "payments-submitted", "payments.cancelled" in "payments-cancelled", "mandates.created" in "mandates-created", "mandates.submitted" in "mandates-submitted", "mandates.expired" in "mandates-expired", "mandates.reinstated" in "mandates-reinstated", "refunds.created" in "refunds-created", "refunds.paid" in "refunds-paid", "subscriptions.finished" in "subscriptions-finished", "subscriptions.payment_created" in "subscriptions-payment_created"),
    ("google_pubsub", google_pubsub::provider),
    kind!("greenhouse": "candidate_stage_change" in "candidate_stage_change", "hire_candidate" in "hire_candidate", "new_candidate_application" in "new_candidate_application"),
    kind!("gusto": "employee.form.updated" in "employee.form.updated", "contractor.document.updated" in "contractor.document.updated", "payroll.processed" in "payroll.processed"),
    kind!("help_scout": "convo.created" in "convo.created", "convo.assigned" in "convo.assigned", "customer.created" in "customer.created"),
    kind!("heroku": "release.update" in "release.update", "dyno.create" in "dyno.create", "build.create" in "build.create"),
    ("hubspot", hubspot::provider),
    kind!("increase": "transaction.created" in "transaction.created", "account.created" in "account.created", "ach_transfer.updated" in "ach_transfer.updated"),
    kind!("intercom": "conversation.user.created" in "conversation.user.created", "contact.created" in "contact.created", "contact.lead.tag.created" in "contact.lead.tag.created", "ping" in "ping"),
    ("iyzico", iyzico::provider),
    kind!("jira": "jira:issue_created" in "jira-issue_created", "jira:issue_updated" in "jira-issue_updated", "comment_created" in "comment_created"),
    kind!("klarna": "payment.request.state-change.completed" in "payment.request.state-change.completed", "payment.request.state-change.expired" in "payment.request.state-change.expired", "payment.dispute.state-change.lost" in "payment.dispute.state-change.lost"),
    kind!("klaviyo": "event:klaviyo.email_delivered" in "event-klaviyo.email_delivered", "event:klaviyo.opened_email" in "event-klaviyo.opened_email", "event:klaviyo.subscribed_to_list" in "event-klaviyo.subscribed_to_list"),
    kind!("kushki": "SALE.APPROVAL" in "SALE-APPROVAL", "SALE.DECLINED" in "SALE-DECLINED", "SALE.INITIALIZED" in "SALE-INITIALIZED"),
    kind!("lemon_squeezy": "order_created" in "order_created", "subscription_created" in "subscription_created", "subscription_payment_success" in "subscription_payment_success"),
    kind!("line": "message" in "message", "follow" in "follow", "postback" in "postback", "unsend" in "unsend"),
    kind!("linear": "Issue.create" in "Issue.create", "Issue.update" in "Issue.update", "Comment.create" in "Comment.create"),
    kind!("lithic": "account_holder.created" in "account_holder.created", "card.created" in "card.created", "card_transaction.updated" in "card_transaction.updated", "dispute.updated" in "dispute.updated"),
    kind!("mailgun": "delivered" in "delivered", "failed" in "failed", "opened" in "opened"),
    ("mandrill", mandrill::provider),
    kind!("mangopay": "PAYIN_NORMAL_SUCCEEDED" in "PAYIN_NORMAL_SUCCEEDED", "PAYOUT_NORMAL_FAILED" in "PAYOUT_NORMAL_FAILED", "KYC_SUCCEEDED" in "KYC_SUCCEEDED", "USER_ACCOUNT_ACTIVATED" in "USER_ACCOUNT_ACTIVATED"),
    ("marqeta", marqeta::provider),
    ("mercadopago", mercadopago::provider),
    kind!("meta": "page.feed" in "page.feed", "whatsapp_business_account.messages" in "whatsapp_business_account.messages", "whatsapp_business_account.messages.statuses" in "whatsapp_business_account.messages-status", "instagram.comments" in "instagram.comments", "page.message" in "page.message", "page.postback" in "page.postback", "page.read" in "page.read", "user.photos" in "user.photos"),
    kind!("microsoft_graph": "created" in "created", "updated" in "updated", "updated" in "updated-drive", "deleted" in "deleted", "reauthorizationRequired" in "reauthorizationRequired"),
    kind!("microsoft_teams_outgoing": "message" in "message", "messageReaction" in "messageReaction", "invoke" in "invoke"),
    ("midtrans", midtrans::provider),
    kind!("modern_treasury": "payment_order" in "payment_order", "expected_payment" in "expected_payment", "return" in "return"),
    kind!("mollie": "payment-link.paid" in "payment-link.paid", "payment-link.paid" in "payment-link.paid-snapshot", "sales-invoice.paid" in "sales-invoice.paid", "profile.verified" in "profile.verified", "payment.paid" in "payment.paid", "payment.failed" in "payment.failed", "payment.expired" in "payment.expired", "refund.refunded" in "refund.refunded", "chargeback.received" in "chargeback.received", "payment.authorized" in "payment.authorized", "payment.canceled" in "payment.canceled", "payment.pending" in "payment.pending", "refund.canceled" in "refund.canceled", "refund.failed" in "refund.failed", "refund.pending" in "refund.pending", "capture.failed" in "capture.failed", "capture.succeeded" in "capture.succeeded", "chargeback.reversed" in "chargeback.reversed", "sales-invoice.canceled" in "sales-invoice.canceled", "sales-invoice.issued" in "sales-invoice.issued"),
    kind!("monnify": "SUCCESSFUL_TRANSACTION" in "SUCCESSFUL_TRANSACTION", "SUCCESSFUL_DISBURSEMENT" in "SUCCESSFUL_DISBURSEMENT", "SUCCESSFUL_REFUND" in "SUCCESSFUL_REFUND", "SETTLEMENT" in "SETTLEMENT", "MANDATE_UPDATE" in "MANDATE_UPDATE", "ACCOUNT_ACTIVITY" in "ACCOUNT_ACTIVITY", "LOW_BALANCE_ALERT" in "LOW_BALANCE_ALERT"),
    kind!("moyasar": "payment_paid" in "payment_paid", "payment_failed" in "payment_failed", "payment_refunded" in "payment_refunded"),
    kind!("mux": "video.asset.ready" in "video.asset.ready", "video.asset.created" in "video.asset.created", "video.live_stream.active" in "video.live_stream.active"),
    ("netlify", netlify::provider),
    kind!("nmi": "transaction.sale.success" in "transaction.sale.success", "transaction.refund.success" in "transaction.refund.success", "recurring.subscription.add" in "recurring.subscription.add"),
    kind!("notion": "page.created" in "page.created", "page.content_updated" in "page.content_updated", "comment.created" in "comment.created"),
    ("nowpayments", nowpayments::provider),
    ("nuvei", nuvei::provider),
    kind!("okta": "user.session.start" in "user.session.start", "user.lifecycle.create" in "user.lifecycle.create", "group.user_membership.add" in "group.user_membership.add"),
    kind!("onfido": "check.completed" in "check.completed", "workflow_run.completed" in "workflow_run.completed", "workflow_task.completed" in "workflow_task.completed"),
    kind!("openai": "response.completed" in "response.completed", "batch.completed" in "batch.completed", "fine_tuning.job.succeeded" in "fine_tuning.job.succeeded", "realtime.call.incoming" in "realtime.call.incoming", "safety.warning_issued" in "safety.warning_issued"),
    kind!("paddle_billing": "customer.updated" in "customer.updated", "adjustment.created" in "adjustment.created", "payout.paid" in "payout.paid", "subscription.created" in "subscription.created", "transaction.completed" in "transaction.completed"),
    ("paddle_classic", paddle_classic::provider),
    kind!("pagbank": "WAITING" in "WAITING", "PAID" in "PAID", "DECLINED" in "DECLINED"),
    kind!("pagerduty": "incident.triggered" in "incident.triggered", "incident.acknowledged" in "incident.acknowledged", "incident.resolved" in "incident.resolved", "incident.priority_updated" in "incident.priority_updated"),
    kind!("payermax": "PAYMENT.SUCCESS" in "PAYMENT.SUCCESS", "PAYMENT.FAILED" in "PAYMENT.FAILED", "REFUND.REFUND_SUCCESS" in "REFUND.REFUND_SUCCESS"),
    ("payfast", payfast::provider),
    ("paymob", paymob::provider),
    kind!("paymongo": "source.chargeable" in "source.chargeable", "payment.paid" in "payment.paid", "payment.failed" in "payment.failed"),
    ("paypal", paypal::provider),
    kind!("paystack": "charge.success" in "charge.success", "transfer.success" in "transfer.success", "refund.processed" in "refund.processed", "bank.transfer.rejected" in "bank.transfer.rejected", "charge.dispute.create" in "charge.dispute.create", "charge.dispute.remind" in "charge.dispute.remind", "charge.dispute.resolve" in "charge.dispute.resolve", "customeridentification.failed" in "customeridentification.failed", "dedicatedaccount.assign.success" in "dedicatedaccount.assign.success", "direct_debit.authorization.active" in "direct_debit.authorization.active", "invoice.create" in "invoice.create", "invoice.payment_failed" in "invoice.payment_failed", "invoice.update" in "invoice.update", "paymentrequest.success" in "paymentrequest.success", "preauthorization.capture.success" in "preauthorization.capture.success", "refund.failed" in "refund.failed", "refund.pending" in "refund.pending", "subscription.create" in "subscription.create", "subscription.disable" in "subscription.disable", "subscription.expiring_cards" in "subscription.expiring_cards", "subscription.not_renew" in "subscription.not_renew", "transfer.failed" in "transfer.failed", "transfer.reversed" in "transfer.reversed"),
    ("paytm", paytm::provider),
    ("payu", payu::provider),
    ("persona", persona::provider),
    ("phonepe", phonepe::provider),
    ("plaid", plaid::provider),
    ("plivo", plivo::provider),
    kind!("polar": "order.paid" in "order.paid", "subscription.active" in "subscription.active", "customer.created" in "customer.created"),
    kind!("postmark": "Delivery" in "Delivery", "Bounce" in "Bounce", "Open" in "Open", "Click" in "Click", "inbound" in "inbound"),
    kind!("pusher": "channel_occupied" in "channel_occupied", "channel_vacated" in "channel_vacated", "member_added" in "member_added", "client_event" in "client_event"),
    kind!("qonto": "v1/beneficiaries" in "v1-beneficiaries", "v1/consent-revocations" in "v1-consent-revocations", "v1/transactions" in "v1-transactions"),
    kind!("quickbooks": "qbo.customer.created.v1" in "qbo.customer.created", "qbo.invoice.created.v1" in "qbo.invoice.created", "qbo.invoice.updated.v1" in "qbo.invoice.updated"),
    ("rapyd", rapyd::provider),
    kind!("razorpay": "payment.captured" in "payment.captured", "payment.failed" in "payment.failed", "refund.processed" in "refund.processed", "payment.dispute.created" in "payment.dispute.created", "subscription.charged" in "subscription.charged"),
    kind!("recurly": "account.created" in "account.created", "charge_invoice.paid" in "charge_invoice.paid", "subscription.canceled" in "subscription.canceled", "new_subscription_notification" in "new_subscription_notification", "billing_info_updated_notification" in "billing_info_updated_notification"),
    ("recurly_xml", recurly_xml::provider),
    ("redsys", redsys::provider),
    kind!("resend": "email.delivered" in "email.delivered", "email.bounced" in "email.bounced", "email.complained" in "email.complained"),
    kind!("revenuecat": "INITIAL_PURCHASE" in "INITIAL_PURCHASE", "RENEWAL" in "RENEWAL", "CANCELLATION" in "CANCELLATION", "TRANSFER" in "TRANSFER", "BILLING_ISSUE" in "BILLING_ISSUE", "EXPIRATION" in "EXPIRATION"),
    kind!("revolut": "TransactionStateChanged" in "TransactionStateChanged", "ORDER_COMPLETED" in "ORDER_COMPLETED", "ORDER_PAYMENT_DECLINED" in "ORDER_PAYMENT_DECLINED", "PAYOUT_COMPLETED" in "PAYOUT_COMPLETED"),
    ("rfc9421", rfc9421::provider),
    ("salesforce", salesforce::provider),
    kind!("salt_edge": "finish" in "finish", "initialize" in "initialize", "submit" in "submit"),
    kind!("sanity": "create" in "create", "update" in "update", "delete" in "delete"),
    ("segment", segment::provider),
    kind!("sendgrid": "processed" in "processed", "delivered" in "delivered", "bounce" in "bounce", "open" in "open"),
    kind!("sentry": "issue" in "issue", "event_alert" in "event_alert", "installation" in "installation"),
    kind!("shopify": "orders/paid" in "orders-paid", "orders/create" in "orders-create", "app/uninstalled" in "app-uninstalled", "products/update" in "products-update", "products/delete" in "products-delete", "orders/updated" in "orders-updated", "orders/cancelled" in "orders-cancelled", "orders/fulfilled" in "orders-fulfilled", "refunds/create" in "refunds-create", "customers/create" in "customers-create", "app/scopes_update" in "app-scopes_update", "app_subscriptions/update" in "app_subscriptions-update", "carts/update" in "carts-update", "checkouts/update" in "checkouts-update", "collections/update" in "collections-update", "customers/data_request" in "customers-data_request", "customers/redact" in "customers-redact", "customers/update" in "customers-update", "disputes/create" in "disputes-create", "draft_orders/create" in "draft_orders-create", "fulfillments/create" in "fulfillments-create", "fulfillments/update" in "fulfillments-update", "inventory_levels/update" in "inventory_levels-update", "order_transactions/create" in "order_transactions-create", "orders/edited" in "orders-edited", "products/create" in "products-create", "shop/redact" in "shop-redact"),
    kind!("sinch": "delivery_report_sms" in "delivery_report_sms", "mo_text" in "mo_text", "recipient_delivery_report_sms" in "recipient_delivery_report_sms"),
    kind!("slack": "message" in "message", "app_mention" in "app_mention", "reaction_added" in "reaction_added"),
    kind!("square": "payment.created" in "payment.created", "payment.updated" in "payment.updated", "webhooks.test_notification" in "webhooks.test_notification", "order.created" in "order.created", "refund.created" in "refund.created", "refund.updated" in "refund.updated", "order.updated" in "order.updated", "invoice.payment_made" in "invoice.payment_made", "customer.created" in "customer.created", "subscription.created" in "subscription.created", "dispute.created" in "dispute.created", "booking.created" in "booking.created", "card.created" in "card.created", "catalog.version.updated" in "catalog.version.updated", "customer.deleted" in "customer.deleted", "customer.updated" in "customer.updated", "dispute.state.updated" in "dispute.state.updated", "inventory.count.updated" in "inventory.count.updated", "invoice.created" in "invoice.created", "invoice.published" in "invoice.published", "oauth.authorization.revoked" in "oauth.authorization.revoked", "payout.sent" in "payout.sent", "subscription.updated" in "subscription.updated"),
    kind!("squarespace": "extension.uninstall" in "extension.uninstall", "order.create" in "order.create", "order.update" in "order.update"),
    kind!("standard_webhooks": "contact.created" in "contact.created", "example.event" in "example.event", "contact.created" in "contact.created-thin"),
    kind!("stripe": "payment_intent.succeeded" in "payment_intent.succeeded", "invoice.paid" in "invoice.paid", "charge.refunded" in "charge.refunded", "plan.created" in "plan.created", "v1.billing.meter.error_report_triggered" in "v1.billing.meter.error_report_triggered", "checkout.session.completed" in "checkout.session.completed", "payment_intent.payment_failed" in "payment_intent.payment_failed", "customer.subscription.created" in "customer.subscription.created", "customer.subscription.updated" in "customer.subscription.updated", "customer.subscription.deleted" in "customer.subscription.deleted", "invoice.payment_failed" in "invoice.payment_failed", "charge.succeeded" in "charge.succeeded", "charge.dispute.created" in "charge.dispute.created", "payout.paid" in "payout.paid", "payout.failed" in "payout.failed", "account.updated" in "account.updated", "setup_intent.succeeded" in "setup_intent.succeeded", "payment_method.attached" in "payment_method.attached", "customer.created" in "customer.created", "customer.updated" in "customer.updated", "refund.updated" in "refund.updated", "transfer.created" in "transfer.created", "payment_intent.succeeded" in "payment_intent.succeeded-connect", "account.application.deauthorized" in "account.application.deauthorized", "application_fee.created" in "application_fee.created", "charge.dispute.closed" in "charge.dispute.closed", "charge.failed" in "charge.failed", "charge.refunded" in "charge.refunded-connect", "checkout.session.async_payment_succeeded" in "checkout.session.async_payment_succeeded", "checkout.session.completed" in "checkout.session.completed-connect", "checkout.session.completed" in "checkout.session.completed-live", "checkout.session.expired" in "checkout.session.expired", "customer.deleted" in "customer.deleted", "customer.subscription.trial_will_end" in "customer.subscription.trial_will_end", "customer.subscription.updated" in "customer.subscription.updated-connect", "customer.subscription.updated" in "customer.subscription.updated-live", "invoice.created" in "invoice.created", "invoice.finalized" in "invoice.finalized", "invoice.payment_succeeded" in "invoice.payment_succeeded", "payment_intent.canceled" in "payment_intent.canceled", "payment_intent.created" in "payment_intent.created", "payment_intent.succeeded" in "payment_intent.succeeded-live", "payment_method.detached" in "payment_method.detached", "payout.paid" in "payout.paid-connect", "refund.created" in "refund.created", "refund.failed" in "refund.failed"),
    ("sumsub", sumsub::provider),
    kind!("supabase": "sms" in "sms", "email_data" in "email_data", "claims" in "claims", "factor_id" in "factor_id", "valid" in "valid"),
    kind!("svix": "user.created" in "user.created", "invoice.paid" in "invoice.paid", "email.delivered" in "email.delivered"),
    kind!("tabapay": "ACH.Sent" in "ACH.Sent", "ACH.Return" in "ACH.Return", "Chargeback.Open" in "Chargeback.Open"),
    kind!("tabby": "authorized" in "authorized", "closed" in "closed", "rejected" in "rejected"),
    ("tap", tap::provider),
    kind!("telegram": "message" in "message", "edited_message" in "edited_message", "callback_query" in "callback_query", "pre_checkout_query" in "pre_checkout_query"),
    kind!("telnyx": "call.initiated" in "call.initiated", "call.answered" in "call.answered", "message.finalized" in "message.finalized", "siprec.failed" in "siprec.failed", "link_clicked" in "link_clicked"),
    kind!("tink": "account-transactions:modified" in "account-transactions-modified", "account:updated" in "account-updated", "refresh:finished" in "refresh-finished"),
    kind!("toss_payments": "PAYMENT_STATUS_CHANGED" in "PAYMENT_STATUS_CHANGED", "CANCEL_STATUS_CHANGED" in "CANCEL_STATUS_CHANGED", "METHOD_UPDATED" in "METHOD_UPDATED"),
    kind!("trello": "updateBoard" in "updateBoard", "createCard" in "createCard", "commentCard" in "commentCard"),
    ("truelayer", truelayer::provider),
    ("trustly", trustly::provider),
    ("twilio", twilio::provider),
    kind!("twitch": "stream.online" in "stream.online", "channel.follow" in "channel.follow", "channel.subscribe" in "channel.subscribe"),
    ("two_checkout", two_checkout::provider),
    kind!("typeform": "form_response" in "form_response", "form_response_partial" in "form_response_partial", "form_response_test" in "form_response_test"),
    kind!("unit": "customer.created" in "customer.created", "payment.sent" in "payment.sent", "transaction.created" in "transaction.created"),
    kind!("vercel": "deployment.created" in "deployment.created", "deployment.succeeded" in "deployment.succeeded", "project.created" in "project.created"),
    kind!("vipps": "CREATED" in "CREATED", "AUTHORIZED" in "AUTHORIZED", "CAPTURED" in "CAPTURED", "REFUNDED" in "REFUNDED"),
    ("vonage", vonage::provider),
    ("wechat_pay", wechat_pay::provider),
    kind!("wise": "transfers#state-change" in "transfers-state-change", "transfers#payout-failure" in "transfers-payout-failure", "balances#credit" in "balances-credit"),
    ("wompi", wompi::provider),
    kind!("woocommerce": "order.created" in "order.created", "order.updated" in "order.updated", "product.created" in "product.created", "customer.created" in "customer.created", "order.deleted" in "order.deleted"),
    kind!("workos": "dsync.user.created" in "dsync.user.created", "user.created" in "user.created", "connection.activated" in "connection.activated"),
    kind!("worldline": "payment.created" in "payment.created", "payment.captured" in "payment.captured", "refund.refund_requested" in "refund.refund_requested"),
    kind!("worldpay": "sentForSettlement" in "sentForSettlement", "authorized" in "authorized", "refused" in "refused", "cancelled" in "cancelled", "sentForAuthorization" in "sentForAuthorization"),
    ("x_twitter", x_twitter::provider),
    kind!("xendit": "payment.capture" in "payment.capture", "payment.failure" in "payment.failure", "refund.succeeded" in "refund.succeeded", "PAID" in "PAID", "ewallet.capture" in "ewallet.capture", "callback_virtual_account_id" in "callback_virtual_account_id"),
    kind!("xero": "CONTACT.UPDATE" in "CONTACT-UPDATE", "INVOICE.CREATE" in "INVOICE-CREATE", "INVOICE.UPDATE" in "INVOICE-UPDATE"),
    kind!("zendesk": "zen:event-type:user.created" in "zen-event-type-user.created", "zen:event-type:organization.created" in "zen-event-type-organization.created", "zen:event-type:ticket.created" in "zen-event-type-ticket.created"),
    kind!("zettle": "PurchaseCreated" in "PurchaseCreated", "InventoryTrackingStarted" in "InventoryTrackingStarted", "ProductDeleted" in "ProductDeleted"),
    kind!("zoom": "meeting.started" in "meeting.started", "meeting.ended" in "meeting.ended", "recording.completed" in "recording.completed"),
];

/// Makes every built-in kind, in alphabetical order.
pub fn builtin() -> Vec<Provider> {
    KINDS.iter().map(|(_, make)| make()).collect()
}
