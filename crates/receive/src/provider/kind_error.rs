//! The reasons why a kind that a program names or brings along cannot be used.

use hooklatch_verify::spec::SpecError;

/// The reason why a kind cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    /// Its `provider.toml` cannot be used.
    #[error(transparent)]
    Spec(SpecError),
    /// No built-in kind has the name that the program asked for.
    #[error("no built-in kind is called `{name}`; {}", remedy(*.nearest))]
    NoSuchKind {
        /// Name that was asked for.
        name: String,
        /// Built-in kind that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The program brings two kinds of one name along: the handlers of one of them would never run.
    #[error(
        "two kinds are called `{name}`, and the handlers of one of them would never run; put all handlers on one: \
         `kind(\"{name}\").on(…).on(…)`"
    )]
    Twice {
        /// Name that both of them have.
        name: String,
    },
}

impl KindError {
    /// Name of the kind; `?` when its spec does not say.
    pub fn kind(&self) -> &str {
        match self {
            Self::Spec(error) => &error.kind,
            Self::NoSuchKind { name, .. } | Self::Twice { name } => name,
        }
    }
}

fn remedy(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "`hooklatch providers` lists those that there are".to_owned(),
        |near| format!("did you mean `{near}`?"),
    )
}
