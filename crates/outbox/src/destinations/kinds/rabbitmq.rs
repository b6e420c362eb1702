//! RabbitMQ: publishes persistent messages with publisher confirms and `mandatory`, so that what no queue takes
//! is returned instead of vanishing.
//!
//! RabbitMQ itself does not know copies: consumers do, by `message_id`, which is the idempotency key.

use super::{BROKER, DestinationKind, KeyRule};

/// An exchange of `RabbitMQ`, or of whatever speaks AMQP 0.9.1 with publisher confirms.
pub(crate) const RABBITMQ: DestinationKind = DestinationKind {
    name: "rabbitmq",
    schemes: &["amqp", "amqps"],
    keys: &[
        // The default exchange is ""; its routing key is the name of a queue.
        ("exchange", KeyRule::Text(Some(""), is_short, TOO_LONG)),
        ("routing_key", KeyRule::Text(None, is_short, TOO_LONG)),
    ],
    feature: Some("rabbitmq"),
    silent: &["amq_protocol", "lapin"],
    #[cfg(feature = "rabbitmq")]
    connect: Some(crate::destinations::broker::connect::<client::RabbitmqProtocol>),
    ..BROKER
};

/// The remedy for what [`is_short`] refuses.
const TOO_LONG: &str = "write at most 255 bytes";

/// A short string of AMQP.
fn is_short(text: &str) -> bool {
    text.len() <= 255
}

#[cfg(feature = "rabbitmq")]
mod client {
    use std::sync::Mutex;

    use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
    use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
    use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
    use lapin::{
        BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ErrorKind, ExchangeKind,
    };
    use tokio::time::{Instant, timeout_at};

    use crate::destinations::ClientSettings;
    use crate::destinations::broker::{BrokerProtocol, Published, error_line};
    use crate::destinations::envelope::{content_type, metadata};
    use crate::locked;
    use crate::policy::CallAnswer;
    use hooklatch_core::config::Secret;
    use hooklatch_store::LeasedMessage;

    /// Delivery mode 2: the broker keeps it on disk, in queues that are durable.
    const PERSISTENT: u8 = 2;

    /// An exchange, a routing key, and where the broker is.
    pub(crate) struct RabbitmqProtocol {
        url: Secret,
        exchange: ShortString,
        routing_key: ShortString,
    }

    /// A connection and its channels in confirm mode, none of which a publisher uses now.
    ///
    /// One message at a time on each: a returned message carries no id, and the client library gives it to whichever
    /// confirmation is next. With two under way, the one that was returned could pass for taken.
    pub(crate) struct Confirming {
        connection: Connection,
        idle: Mutex<Vec<Channel>>,
    }

    impl Confirming {
        async fn channel(&self) -> lapin::Result<Channel> {
            let idle = locked(&self.idle).pop();
            if let Some(channel) = idle.filter(|channel| channel.status().connected()) {
                return Ok(channel);
            }
            let channel = self.connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(channel)
        }
    }

    impl RabbitmqProtocol {
        fn properties(message: &LeasedMessage) -> Result<BasicProperties, String> {
            let mut headers = FieldTable::default();
            for (name, value) in metadata(message) {
                let value = AMQPValue::LongString(LongString::from(value));
                headers.insert(short("name of a header", &name)?, value);
            }
            let mut properties = BasicProperties::default()
                .with_delivery_mode(PERSISTENT)
                .with_message_id(short("idempotency key", &message.idempotency_key)?)
                .with_headers(headers);
            // What is too long for these is still in the headers.
            if let Ok(event_type) = ShortString::try_new(message.event_type.as_str()) {
                properties = properties.with_type(event_type);
            }
            if let Some(Ok(content_type)) = content_type(message).map(ShortString::try_new) {
                properties = properties.with_content_type(content_type);
            }
            Ok(properties)
        }
    }

    fn short(what: &str, text: &str) -> Result<ShortString, String> {
        ShortString::try_new(text).map_err(|_| format!("{what} is longer than 255 bytes"))
    }

    impl BrokerProtocol for RabbitmqProtocol {
        type Connection = Confirming;
        const KNOWS_ITS_END: bool = true;

        fn new(settings: &ClientSettings<'_>) -> Result<Self, String> {
            let target = &settings.config.target;
            let url = target.url().clone();
            url.reveal()
                .parse::<lapin::uri::AMQPUri>()
                .map_err(|_| "it is not an AMQP url: amqp://USER:PASSWORD@HOST:PORT/VHOST".to_owned())?;
            let short_text = |key| short(key, target.text(key));
            Ok(Self { url, exchange: short_text("exchange")?, routing_key: short_text("routing_key")? })
        }

        async fn connect(&self) -> Result<Self::Connection, String> {
            let properties = ConnectionProperties::default().with_connection_name("hooklatch".into());
            let connection = Connection::connect(self.url.reveal(), properties)
                .await
                .map_err(|error| error_line(&error))?;
            let confirming = Confirming { connection, idle: Mutex::default() };
            let channel = confirming.channel().await.map_err(|error| error_line(&error))?;
            if !self.exchange.as_str().is_empty() {
                // Asked now, because publishing to an exchange that is not there closes the channel, and with it every
                // confirmation that is still pending.
                let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
                channel
                    .exchange_declare(
                        self.exchange.clone(),
                        ExchangeKind::default(),
                        passive,
                        FieldTable::default(),
                    )
                    .await
                    .map_err(|error| error_line(&error))?;
            }
            locked(&confirming.idle).push(channel);
            Ok(confirming)
        }

        fn is_alive(connection: &Self::Connection) -> bool {
            connection.connection.status().connected()
        }

        async fn publish(
            &self,
            connection: &Confirming,
            message: &LeasedMessage,
            deadline: Instant,
        ) -> Published {
            let properties = Self::properties(message).map_err(CallAnswer::Forbidden)?;
            if connection.connection.status().blocked() {
                let why = "it takes no messages for now: a memory or disk alarm is raised there";
                return Err(CallAnswer::NotNow(why.to_owned()));
            }
            let channel = timeout_at(deadline, connection.channel())
                .await
                .map_err(|_| CallAnswer::NotSent("no channel in time".to_owned()))?
                .map_err(|error| CallAnswer::NotSent(error_line(&error)))?;
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let (exchange, routing_key) = (self.exchange.clone(), self.routing_key.clone());
            let publish = channel.basic_publish(exchange, routing_key, options, &message.body, properties);
            let confirmation = publish.await.map_err(|error| failed(&error))?.await;
            if confirmation.is_ok() {
                locked(&connection.idle).push(channel);
            }
            Err(match confirmation {
                Ok(Confirmation::Ack(None)) => return Ok(()),
                Ok(Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned))) => {
                    let (code, text) = (returned.reply_code, error_line(&returned.reply_text));
                    let why = format!("returned with {code} {text}: no queue is bound for this routing key");
                    // No queue has it. One that is being declared again may take it later.
                    CallAnswer::NotNow(why)
                }
                Ok(Confirmation::Nack(None)) => {
                    // Other queues that are bound may have taken it.
                    CallAnswer::Unknown("the broker could not answer for it (nack)".to_owned())
                }
                Ok(Confirmation::NotRequested) => CallAnswer::Unknown("nothing was confirmed".to_owned()),
                Err(error) if is_refusal(&error) => CallAnswer::NotNow(error_line(&error)),
                Err(error) => CallAnswer::Unknown(error_line(&error)),
            })
        }
    }

    /// True for what closes a channel because of a publish that was not routed: no such exchange, or no permission to
    /// write to it. It is about this message, because a channel carries one at a time. Not 406, which the library says
    /// itself of a confirmation that it cannot place.
    fn is_refusal(error: &lapin::Error) -> bool {
        let ErrorKind::ProtocolError(error) = error.kind() else { return false };
        matches!(error.kind(), AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND | AMQPSoftError::ACCESSREFUSED))
    }

    /// A publish that could not even be handed over.
    fn failed(error: &lapin::Error) -> CallAnswer {
        let why = error_line(error);
        match error.kind() {
            ErrorKind::InvalidChannelState(..)
            | ErrorKind::InvalidConnectionState(_)
            | ErrorKind::InvalidChannel(_) => CallAnswer::NotSent(why),
            _ => CallAnswer::Unknown(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::check_rule;

    #[test]
    fn each_key_takes_what_the_destination_takes() {
        let (longest, longer) = ("a".repeat(255), "a".repeat(256));
        check_rule("routing_key", is_short, &["", "a", &longest], &[&longer]);
    }
}
