//! What a command over the operators' API works at: the server that it asks, and the screen that it prints on.

use std::path::Path;

use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::api_client::{ApiAnswer, ApiClient, CommandKeys, keys_folder};
use super::ending::NotFound;
use super::output::{Column, Screen, Shown, plural, table, told, with_times};
use super::reach::ReachArgs;
use super::shared::{complain, is_reader_gone, say};
use crate::api::{PAGE_N_DEFAULT, PAGE_N_MAX, Page};
use crate::config::Environment;
use crate::load::Kinds;
use crate::mistakes::nearest;

/// Values of a query; those that are `None` were not given.
pub(super) type Query<'a> = [(&'static str, Option<&'a str>)];

/// A server and a screen.
pub(super) struct Desk {
    pub(super) api: ApiClient,
    pub(super) screen: Screen,
}

/// Arguments of every list.
#[derive(Args)]
pub(super) struct PagingArgs {
    /// At most this many rows, 1 to 500.
    #[arg(long, default_value_t = PAGE_N_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_N_MAX)))]
    limit: u32,
    /// Go on behind a page: the cursor that it told.
    #[arg(long)]
    cursor: Option<String>,
    /// All pages, one after the other, however many there are.
    #[arg(long)]
    all: bool,
}

impl Default for PagingArgs {
    fn default() -> Self {
        Self { limit: PAGE_N_DEFAULT, cursor: None, all: false }
    }
}

/// A row of a list.
pub(super) trait ListRow {
    /// The noun for one of them, such as `event`.
    const NOUN: &'static str;
    /// The columns of the table.
    const COLUMNS: &'static [Column];

    /// Its fields, in the order of the columns.
    fn cells(&self, screen: &Screen) -> Vec<Shown>;
}

impl Desk {
    /// Decides which server is asked, and how things are printed.
    pub(super) fn open(reach: &ReachArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<Self> {
        let env = Environment::of_process();
        let screen = Screen::of_process(&env, reach.color, reach.json);
        let keys = CommandKeys::new(keys_folder(&env), screen.now_ms);
        Ok(Self { api: ApiClient::new(reach.server(&env, file, kinds)?, keys)?, screen })
    }

    /// Prints an answer: for programs as it came, for people as `draw` has it.
    pub(super) fn show<T>(&self, answer: &ApiAnswer<T>, draw: impl FnOnce(&T) -> String) {
        if self.screen.is_json {
            say(with_times(answer.raw.clone()));
        } else {
            self.screen.print(&draw(&answer.view));
        }
    }

    /// Prints a list, a page or all of it, and says on stderr where it goes on and how far it looked.
    pub(super) fn list<T: ListRow + DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query<'_>,
        paging: &PagingArgs,
    ) -> anyhow::Result<()> {
        let limit = paging.limit.to_string();
        let mut cursor = paging.cursor.clone();
        let mut rows_n = 0;
        loop {
            let mut asked = query.to_vec();
            asked.extend([("limit", Some(limit.as_str())), ("cursor", cursor.as_deref())]);
            let answer: ApiAnswer<Page<T>> = self.api.get(path, &asked)?;
            if self.screen.is_json {
                say(with_times(answer.raw));
            } else if !answer.view.items.is_empty() {
                self.screen.print(&rows(&self.screen, &answer.view.items, rows_n == 0));
            }
            let page = answer.view;
            rows_n += page.items.len();
            if !paging.all || page.next.is_none() || is_reader_gone() {
                if rows_n == 0 {
                    self.check_names::<T>(query)?;
                }
                if !self.screen.is_json {
                    notes(&self.screen, &page, rows_n, query);
                }
                return Ok(());
            }
            cursor = page.next;
        }
    }

    /// Prints a list that is one page and has no cursor.
    pub(super) fn whole_list<T: ListRow + DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query<'_>,
    ) -> anyhow::Result<()> {
        let answer: ApiAnswer<Page<T>> = self.api.get(path, query)?;
        if answer.view.items.is_empty() {
            self.check_names::<T>(query)?;
        }
        if self.screen.is_json {
            say(with_times(answer.raw));
        } else {
            if !answer.view.items.is_empty() {
                self.screen.print(&rows(&self.screen, &answer.view.items, true));
            }
            notes(&self.screen, &answer.view, answer.view.items.len(), query);
        }
        Ok(())
    }

    /// Fails where nothing was found by a provider or a destination that the server does not have.
    fn check_names<T: ListRow>(&self, query: &Query<'_>) -> anyhow::Result<()> {
        for (noun, value) in query.iter().filter_map(|(name, value)| Some((*name, (*value)?))) {
            let path = match noun {
                "provider" => "providers",
                "destination" => "destinations",
                _ => continue,
            };
            // Whoever may not list them is told what was found, and no more.
            let Ok(all) = self.api.get::<Page<Named>>(&[path], &[]) else { continue };
            let names: Vec<&str> = all.view.items.iter().map(|one| one.name.as_str()).collect();
            if names.is_empty() || names.contains(&value) {
                continue;
            }
            let hint = match nearest(value, names) {
                Some(name) => format!("; did you mean `{}`?", Shown::text(name).as_str()),
                None => format!(
                    ", or it is out of the token's reach: `hooklatch {}` lists them",
                    match noun {
                        "provider" => "providers --live",
                        _ => "destinations list",
                    }
                ),
            };
            let (what, value) = (filter_in_words(query), Shown::text(value));
            let why = format!("no {}s with {what}: no {noun} is called `{}`{hint}", T::NOUN, value.as_str());
            return Err(NotFound(why).into());
        }
        Ok(())
    }
}

/// A provider or a destination of a list.
#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Rows of one kind as a table.
pub(super) fn rows<T: ListRow>(screen: &Screen, items: &[T], has_head: bool) -> String {
    let lines: Vec<Vec<Shown>> = items.iter().map(|item| item.cells(screen)).collect();
    table(screen, T::COLUMNS, &lines, has_head)
}

/// A filter in words, such as `state held, provider stripe`; empty for none.
pub(super) fn filter_in_words(query: &Query<'_>) -> String {
    let given =
        query.iter().filter_map(|(name, value)| Some(format!("{} {}", name.replace('_', " "), (*value)?)));
    given.collect::<Vec<_>>().join(", ")
}

fn notes<T: ListRow>(screen: &Screen, page: &Page<T>, rows_n: usize, query: &Query<'_>) {
    if rows_n == 0 {
        let filter = filter_in_words(query);
        let with = if filter.is_empty() { String::new() } else { format!(" with {filter}") };
        complain(format!("no {}s{with}", T::NOUN));
    }
    for row in &page.damaged {
        complain(Shown::text(row.sentence()).as_str().to_owned());
    }
    if let Some(back_ms) = page.looked_back_to_ms {
        let rows = plural(u64::try_from(rows_n).unwrap_or(u64::MAX), T::NOUN);
        let back = told(back_ms, screen.now_ms);
        complain(format!("{rows} so far: looked back to {back}, and no further"));
    }
    if let Some(next) = &page.next {
        complain(format!("there are more: --cursor {next}, or --all"));
    }
}
