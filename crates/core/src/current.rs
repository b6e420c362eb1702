//! A value that is replaced as a whole while others use it: a reader keeps the value that it has taken.

use std::sync::{Arc, PoisonError, RwLock};

/// The value that is in force. Cloning shares it.
#[derive(Debug, Default)]
pub struct Current<T>(Arc<RwLock<Arc<T>>>);

impl<T> Clone for Current<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Current<T> {
    pub fn new(value: impl Into<Arc<T>>) -> Self {
        Self(Arc::new(RwLock::new(value.into())))
    }

    /// The value as it is now.
    pub fn get(&self) -> Arc<T> {
        // An `Arc` is replaced whole: a panic elsewhere cannot leave it half-changed.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another value in its place.
    pub fn set(&self, value: impl Into<Arc<T>>) {
        let value = value.into();
        let old = std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), value);
        // Dropping the old value may take time: no caller waits for that.
        drop(old);
    }
}
