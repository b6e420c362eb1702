//! Acme: what we do when an order is paid. How Acme signs: `provider.toml`.

use hooklatch::prelude::*;

pub(crate) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml"))
        .samples(&[("order.paid", include_str!("samples/order.paid.json"))])
        .on("order.paid", order_paid)
}

#[derive(Deserialize)]
struct Order {
    order: String,
    /// Cents.
    amount: i64,
}

/// Plain: from event to effects, no I/O. Testable by calling it.
fn order_paid(event: Event<Order>) -> Handled {
    let order = event.payload;
    if order.amount == 0 {
        return ignore("zero-amount order");
    }
    if order.amount < 0 {
        return refuse(format!("order {} has a negative amount", order.order));
    }
    Ok(Effects::new()
        .call("billing", json!({ "order": order.order, "amount": order.amount }))
        .message(Message::to("mail").path("/receipts").json(json!({ "order": order.order }))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paid_order_is_billed_and_a_receipt_is_mailed() {
        let event = |amount| {
            let mut event = hooklatch::testing::event::<Order>(&provider(), "order.paid").expect("a sample");
            event.payload.amount = amount;
            event
        };
        let effects = order_paid(event(1999)).expect("effects");
        let to: Vec<_> = effects.messages().iter().map(|message| message.destination.as_str()).collect();
        assert_eq!(to, ["billing", "mail"]);
        assert!(order_paid(event(0)).is_err());
    }
}
