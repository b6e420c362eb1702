//! Macros that run an operation of the store: on which connection, alone or as one transaction. Every module uses them.

/// One operation by itself, on a connection for a `Purpose`. What it is given must be its own.
macro_rules! alone {
    ($self:ident . $purpose:ident . $op:ident ( $($arg:expr),* )) => {{
        let answer = $self.parts.backend.alone(stringify!($op), purpose!($purpose), move |mut executor| {
            Box::pin(async move { $op(&mut executor, $($arg),*).await })
        })
        .await;
        crate::damaged::log_noted();
        answer
    }};
}

/// Statements that belong together, the same way: one transaction.
macro_rules! together {
    ($self:ident . $op:ident ( $($arg:expr),* )) => { together!($self.writer.$op($($arg),*)) };
    ($self:ident . $purpose:ident . $op:ident ( $($arg:expr),* )) => {{
        let answer = $self.parts.backend.together(stringify!($op), purpose!($purpose), move |mut executor| {
            Box::pin(async move { $op(&mut executor, $($arg),*).await })
        })
        .await;
        crate::damaged::log_noted();
        answer
    }};
}

/// Statements that only read, and see the database at one moment.
macro_rules! snapshot {
    ($self:ident . $op:ident ( $($arg:expr),* )) => {{
        let answer = $self.parts.backend.snapshot(stringify!($op), move |mut executor| {
            Box::pin(async move { $op(&mut executor, $($arg),*).await })
        })
        .await;
        crate::damaged::log_noted();
        answer
    }};
}

/// The same inside an open transaction.
macro_rules! in_tx {
    ($tx:expr, $op:ident ( $($arg:expr),* )) => {{
        let answer = match $tx.executor() {
            Ok(mut executor) => $op(&mut executor, $($arg),*).await,
            Err(error) => Err(error),
        };
        crate::damaged::log_noted();
        $tx.noted(stringify!($op), answer)
    }};
}

macro_rules! purpose {
    (reader) => {
        crate::db::Purpose::Reader
    };
    (writer) => {
        crate::db::Purpose::Writer
    };
    (worker) => {
        crate::db::Purpose::Worker
    };
    (people) => {
        crate::db::Purpose::People
    };
    (deciding) => {
        crate::db::Purpose::Deciding
    };
}
