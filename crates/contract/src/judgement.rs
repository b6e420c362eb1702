//! The judgement of a message or an event, and the risk of each act on it: made once, shown everywhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an act on a message or an event risks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// No effect is repeated and none is lost.
    None,
    /// An effect that may have happened may happen a second time.
    MayRepeatEffect,
    /// An effect that was wanted will not happen.
    LosesEffect,
    /// What is needed to judge it is not known here; treat it as unsafe.
    CannotSay,
}

impl Risk {
    /// The risk, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::None => "No risk",
            Self::MayRepeatEffect => "May repeat an effect",
            Self::LosesEffect => "May lose an effect",
            Self::CannotSay => "Risk not known here",
        }
    }
}

/// An act that is possible now, with its risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Judged{A}")]
pub struct JudgedAct<A> {
    /// The act, as an order names it.
    pub act: A,
    /// What it risks.
    pub risk: Risk,
    /// One sentence: what the act does and what that risks.
    pub sentence: String,
}

/// One judgement: what happened and what it means, and what a person may do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JudgementBy{A}")]
pub struct Judgement<A> {
    /// What happened and what it means, in one or two sentences.
    pub headline: String,
    /// The acts that are possible, the safest first.
    pub acts: Vec<JudgedAct<A>>,
}
