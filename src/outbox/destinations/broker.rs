//! Which destination a destination is that is not called by HTTP. What they have in common: `pooled.rs`.

use std::pin::Pin;
use std::time::Duration;

use super::DestinationError;
#[cfg(feature = "brokers")]
use super::pooled::line;
use crate::config::{DestinationConfig, Target};
use crate::outbox::policy::CallAnswer;
use crate::store::LeasedMessage;
use crate::types::Name;

/// Sends one message, once.
pub(super) trait Broker: Send + Sync {
    /// Never takes longer than the destination's timeout.
    fn send<'a>(
        &'a self,
        message: &'a LeasedMessage,
    ) -> Pin<Box<dyn Future<Output = CallAnswer> + Send + 'a>>;
}

/// The broker of a destination; `None` when it is called by HTTP. Connects to nothing yet.
#[cfg_attr(not(feature = "brokers"), expect(unused_variables, reason = "nothing here waits"))]
pub(super) fn broker(
    name: &Name,
    config: &DestinationConfig,
    timeout: Duration,
) -> Result<Option<Box<dyn Broker>>, DestinationError> {
    // An error says that one is installed already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let broker = match &config.target {
        Target::Http => return Ok(None),
        #[cfg(feature = "nats")]
        Target::Nats { url, subject } => {
            let key_valid_for = Duration::from_millis(config.key_valid_for_ms);
            line(super::nats::Nats::new(url, subject, timeout, key_valid_for), timeout, config)
        }
        #[cfg(feature = "rabbitmq")]
        Target::Rabbitmq { url, exchange, routing_key } => {
            line(super::rabbitmq::Rabbitmq::new(url, exchange, routing_key), timeout, config)
        }
        #[cfg(feature = "redis")]
        Target::Redis { url, stream, stream_len_max } => line(
            super::redis::Redis::new(url, stream, *stream_len_max, config.key_valid_for_ms),
            timeout,
            config,
        ),
        #[cfg(feature = "kafka")]
        Target::Kafka { url, topic } => line(super::kafka::Kafka::new(url, topic), timeout, config),
        #[cfg(feature = "postgres-table")]
        Target::PostgresTable { url, table } => {
            line(super::postgres_table::PostgresTable::new(url, table), timeout, config)
        }
        #[expect(clippy::allow_attributes, reason = "whether it can be reached depends on the features")]
        #[allow(unreachable_patterns, reason = "with every feature there is nothing left")]
        _ => Err("this program was built without the feature for it".to_owned()),
    };
    broker.map(Some).map_err(|why| DestinationError::Url { name: name.clone(), why })
}
