//! The migrations of the program that runs us, as it hands them over: a name, and steps in their order.

use std::collections::BTreeSet;

use super::Store;
use super::db::{MigrationStep, ProgramMigrationError};
use crate::types::Name;

/// The steps of a program's own tables.
#[derive(Debug, Clone)]
pub struct ProgramMigrations {
    program: String,
    steps: Vec<MigrationStep>,
}

impl ProgramMigrations {
    /// Takes steps in the order in which they are applied.
    pub fn new(program: &str, steps: Vec<MigrationStep>) -> Self {
        Self { program: program.to_owned(), steps }
    }

    /// Name that the program gave them.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Everything that is wrong with the names in these lists, in words; empty where they can be applied.
    pub fn mistakes(all: &[Self]) -> Vec<String> {
        let mut mistakes: Vec<String> = all.iter().filter_map(Self::mistake).collect();
        let mut seen = BTreeSet::new();
        let again: BTreeSet<&str> =
            all.iter().map(Self::program).filter(|name| !seen.insert(*name)).collect();
        mistakes.extend(again.into_iter().map(|name| {
            format!("two lists of migrations are called `{name}`: give each its own name, or make one list of them")
        }));
        mistakes
    }

    /// The mistake in these names, if there is one.
    fn mistake(&self) -> Option<String> {
        if let Err(error) = Name::parse(&self.program) {
            return Some(format!("migrations cannot be called so: {error}"));
        }
        let twice = self.steps.iter().enumerate().find_map(|(n, step)| {
            self.steps.iter().take(n).any(|before| before.name() == step.name()).then_some(step.name())
        });
        if let Some(step) = twice {
            return Some(format!(
                "two migrations of `{}` are called `{step}`: give each its own name",
                self.program
            ));
        }
        if self.steps.iter().any(|step| step.name().is_empty()) {
            return Some(format!(
                "a migration of `{}` has no name: give it one, such as `0001_first`",
                self.program
            ));
        }
        let odd = self.steps.iter().find(|step| step.name().chars().any(char::is_control))?;
        Some(format!(
            "migration `{}` of `{}` has a control character in its name: leave it out",
            odd.name().escape_debug(),
            self.program
        ))
    }
}

impl Store {
    /// Applies the steps that are missing, each in a transaction; gives back the names of those that were applied now.
    /// One node does it; the others wait and find it done.
    pub async fn program_migrate(
        &self,
        all: &ProgramMigrations,
    ) -> Result<Vec<&'static str>, ProgramMigrationError> {
        self.parts.backend.program_migrate(&all.program, &all.steps).await
    }

    /// Changes nothing; an error when a step is missing or has another text than the one that was applied.
    pub async fn program_check(&self, all: &ProgramMigrations) -> Result<(), ProgramMigrationError> {
        self.parts.backend.program_check(&all.program, &all.steps).await
    }
}
