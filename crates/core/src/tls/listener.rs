//! The TLS of one listener: what its files made when they were read last, and whether they have changed.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use tracing::{error, info};

use super::files::{FileStamp, MadeTls, TlsMistake, server_config, stamps};
use crate::config::ListenerTlsConfig;
use crate::stop::Stop;

/// Time between two looks at the files, which are not read unless they have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The TLS of one listener. Connections that stand keep what they began with.
pub struct ListenerTls {
    name: &'static str,
    files: ListenerTlsConfig,
    current: RwLock<Arc<ServerConfig>>,
}

impl std::fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenerTls")
            .field("name", &self.name)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ListenerTls {
    /// Reads the files of the listener called `name` in metrics.
    pub fn new(name: &'static str, files: ListenerTlsConfig) -> Result<Self, TlsMistake> {
        let made = server_config(&files)?;
        let tls = Self { name, files, current: RwLock::new(Arc::clone(&made.config)) };
        tls.note(&made);
        Ok(tls)
    }

    /// The configuration for a connection that is accepted now.
    pub fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again whenever they have changed, until `stop`. What cannot be used changes nothing but a
    /// gauge, and a line says so.
    pub async fn watch(&self, mut stop: Stop) {
        // Of before the first reading nothing is known: the first look reads once more.
        let mut seen = [None; 3];
        while !stop.pause(LOOK_EVERY).await {
            self.look(&mut seen);
        }
    }

    /// Looks once; true when the files were read and taken over.
    pub fn look(&self, seen: &mut [FileStamp; 3]) -> bool {
        let now = stamps(&self.files);
        if now == *seen {
            return false;
        }
        *seen = now;
        match server_config(&self.files) {
            Ok(made) => {
                // An operator who replaces several files one by one is in the middle of it.
                if stamps(&self.files) != now {
                    *seen = [None; 3];
                }
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&made.config);
                self.note(&made);
                info!(listener = self.name, not_after_s = made.not_after_s, "read the TLS files");
                true
            }
            Err(TlsMistake { key, why }) => {
                error!(
                    listener = self.name,
                    key, why, "the TLS files have changed and cannot be used: those of before count on"
                );
                metrics::gauge!("hooklatch_tls_files_broken", "listener" => self.name).set(1.0);
                false
            }
        }
    }

    fn note(&self, made: &MadeTls) {
        metrics::gauge!("hooklatch_tls_files_broken", "listener" => self.name).set(0.0);
        #[expect(clippy::cast_precision_loss, reason = "seconds of our time fit")]
        metrics::gauge!("hooklatch_tls_not_after_timestamp_seconds", "listener" => self.name)
            .set(made.not_after_s as f64);
    }
}
