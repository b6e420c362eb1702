//! Macros that run an operation of the store: on which connection, alone or as one transaction. Every module uses them.
//! The work is a function that takes the connection first, or a block with a name for the connection and for the
//! operation. What it uses must be its own.

/// One operation by itself, on a connection for a `Purpose`.
macro_rules! alone {
    ($store:expr, $purpose:ident, $op:expr, |$db:ident| $work:expr) => {
        $store.parts.backend.alone($op, purpose!($purpose), work!(|$db| $work)).await
    };
    ($store:ident . $purpose:ident . $op:ident ( $($arg:expr),* )) => {
        alone!($store, $purpose, stringify!($op), |db| $op(db, $($arg),*).await)
    };
}

/// Statements that belong together, in one transaction.
macro_rules! together {
    ($store:expr, $purpose:ident, $op:expr, |$db:ident| $work:expr) => {
        $store.parts.backend.together($op, purpose!($purpose), work!(|$db| $work)).await
    };
    ($store:ident . $op:ident ( $($arg:expr),* )) => { together!($store.writer.$op($($arg),*)) };
    ($store:ident . $purpose:ident . $op:ident ( $($arg:expr),* )) => {
        together!($store, $purpose, stringify!($op), |db| $op(db, $($arg),*).await)
    };
}

/// Statements that only read, and see the database at one moment.
macro_rules! snapshot {
    ($store:expr, $op:expr, |$db:ident| $work:expr) => {
        $store.parts.backend.snapshot($op, work!(|$db| $work)).await
    };
    ($store:ident . $op:ident ( $($arg:expr),* )) => {
        snapshot!($store, stringify!($op), |db| $op(db, $($arg),*).await)
    };
}

/// The work of an operation, as a function of its connection.
macro_rules! work {
    (|$db:ident| $work:expr) => {
        move |mut executor| {
            Box::pin(async move {
                let $db = &mut executor;
                $work
            })
        }
    };
}

/// Statements inside an open transaction.
macro_rules! in_tx {
    ($tx:expr, $op:ident ( $($arg:expr),* )) => {{
        let answer = match $tx.executor() {
            Ok(mut executor) => $op(&mut executor, $($arg),*).await,
            Err(error) => Err(error),
        };
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
    (operators) => {
        crate::db::Purpose::Operators
    };
    (deciding) => {
        crate::db::Purpose::Deciding
    };
}
