//! Parses an expression, by recursive descent with a bounded depth.
//!
//! ```text
//! condition  = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" condition ")" | comparison
//! comparison = value [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value
//!                    | [ "not" ] "in" "[" literal { "," literal } "]"
//!                    | "is" [ "not" ] "defined" ]
//! value      = literal | place | "number" "(" place ")"
//! place      = ( "payload" | "envelope" | "headers" ) { "." name | "[" ( text | whole number ) "]" }
//! ```

use super::{Comparison, Condition, Decimal, Operand, Place, Root, Scalar};

/// Longest expression. Bytes.
const EXPRESSION_BYTES_MAX: usize = 1_000;
/// Most `not` and parentheses inside each other.
const DEPTH_MAX: usize = 16;
/// Most places that an expression reads: each may be looked for in the whole event.
const PLACES_N_MAX: usize = 16;
/// Words that are not the start of a place.
const WORDS: [&str; 10] = ["and", "or", "not", "in", "is", "defined", "true", "false", "null", "number"];

/// A condition, and every place that it reads.
pub(super) fn condition(text: &str) -> Result<(Condition, Vec<Place>), String> {
    let mut parser = Parser::new(text)?;
    let condition = parser.condition()?;
    parser.end("`and`, `or` or the end")?;
    Ok((condition, parser.places))
}

/// One place alone.
pub(super) fn place(text: &str) -> Result<Place, String> {
    let mut parser = Parser::new(text)?;
    let place = parser.place()?;
    parser.end("the end")?;
    Ok(place)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    places: Vec<Place>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, String> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(format!("is longer than {EXPRESSION_BYTES_MAX} bytes"));
        }
        Ok(Self { text, at: 0, depth: 0, places: Vec::new() })
    }

    /// The text from the next token on.
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    /// Steps over `symbol` if it is next.
    fn takes(&mut self, symbol: &str) -> bool {
        let is_next = self.rest().starts_with(symbol);
        self.at += if is_next { symbol.len() } else { 0 };
        is_next
    }

    /// The name that is next; empty when there is none. It is not stepped over.
    fn name(&mut self) -> &'a str {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let name = rest.get(..length).unwrap_or_default();
        if name.starts_with(|c: char| c.is_ascii_digit()) { "" } else { name }
    }

    /// Steps over this word if it is next.
    fn takes_word(&mut self, word: &str) -> bool {
        let is_next = self.name() == word;
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn wrong<T>(&mut self, why: &str) -> Result<T, String> {
        let rest = self.rest();
        let n = self.text.get(..self.at).unwrap_or_default().chars().count() + 1;
        let hint = match (rest.chars().next(), self.name()) {
            (Some('='), _) => "; `==` compares",
            (Some('&'), _) => "; write `and`",
            (Some('|'), _) => "; write `or`",
            (Some('!'), _) => "; write `not`",
            (_, "none" | "None" | "nil") => "; write `null`",
            (_, "True" | "False") => "; write `true` or `false`",
            _ => "",
        };
        Err(format!("at character {n}: {why}{hint}"))
    }

    fn end(&mut self, wanted: &str) -> Result<(), String> {
        if self.rest().is_empty() { Ok(()) } else { self.wrong(&format!("expected {wanted}")) }
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.wrong(&format!("`not` and parentheses are nested deeper than {DEPTH_MAX}"));
        }
        Ok(())
    }

    fn condition(&mut self) -> Result<Condition, String> {
        let mut any = vec![self.all()?];
        while self.takes_word("or") {
            any.push(self.all()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Condition::Any(any) })
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut all = vec![self.one()?];
        while self.takes_word("and") {
            all.push(self.one()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::All(all) })
    }

    fn one(&mut self) -> Result<Condition, String> {
        let condition = if self.takes_word("not") {
            self.deeper()?;
            Condition::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            self.deeper()?;
            let condition = self.condition()?;
            if !self.takes(")") {
                return self.wrong("expected `and`, `or` or `)`");
            }
            condition
        } else {
            return self.comparison();
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn comparison(&mut self) -> Result<Condition, String> {
        let left = self.value()?;
        if let Some(how) = self.operator() {
            let right = self.value()?;
            return self.compared(left, how, right);
        }
        if self.takes_word("is") {
            let is_not = self.takes_word("not");
            return match left {
                _ if !self.takes_word("defined") => self.wrong("expected `defined`"),
                Operand::Place(place) => {
                    let defined = Condition::Defined(place);
                    Ok(if is_not { Condition::Not(Box::new(defined)) } else { defined })
                }
                _ => self.wrong("only a place such as payload.NAME can be defined"),
            };
        }
        let is_not = self.takes_word("not");
        if self.takes_word("in") {
            let list = Condition::In(left, self.list()?);
            return Ok(if is_not { Condition::Not(Box::new(list)) } else { list });
        }
        match left {
            _ if is_not => self.wrong("expected `in`"),
            Operand::Place(_) => Ok(Condition::Is(left)),
            _ => self.wrong("expected a comparison"),
        }
    }

    fn operator(&mut self) -> Option<Comparison> {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Unequal};
        let all = [
            ("==", Equal),
            ("!=", Unequal),
            ("<=", LessOrEqual),
            (">=", GreaterOrEqual),
            ("<", Less),
            (">", Greater),
        ];
        all.into_iter().find(|(symbol, _)| self.takes(symbol)).map(|(_, how)| how)
    }

    /// Refuses what can never be decided by an event.
    fn compared(&mut self, left: Operand, how: Comparison, right: Operand) -> Result<Condition, String> {
        let is_number =
            |one: &Operand| !matches!(one, Operand::Literal(value) if !matches!(value, Scalar::Number(_)));
        if matches!((&left, &right), (Operand::Literal(_), Operand::Literal(_))) {
            return self.wrong("two values that are written here are compared; name one of the event");
        }
        if how.is_of_order() && !(is_number(&left) && is_number(&right)) {
            return self.wrong("only numbers have an order; compare with `==`, `!=` or `in`");
        }
        Ok(Condition::Compare(left, how, right))
    }

    fn value(&mut self) -> Result<Operand, String> {
        if let Some(value) = self.literal()? {
            return Ok(Operand::Literal(value));
        }
        if self.takes_word("number") {
            if !self.takes("(") {
                return self.wrong("expected `(` and a place, as in number(payload.amount)");
            }
            let place = self.place()?;
            if !self.takes(")") {
                return self.wrong("expected `)`");
            }
            return Ok(Operand::Number(place));
        }
        self.place().map(Operand::Place)
    }

    /// A literal, if one is next.
    fn literal(&mut self) -> Result<Option<Scalar>, String> {
        let rest = self.rest();
        let value = match rest.chars().next() {
            Some('"' | '\'') => Scalar::Text(self.quoted()?),
            Some('-' | '0'..='9') => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                match rest.get(..length).and_then(Decimal::parse) {
                    Some(number) => {
                        self.at += length;
                        Scalar::Number(number)
                    }
                    None => return self.wrong("expected a number as JSON has it"),
                }
            }
            _ if self.takes_word("null") => Scalar::Null,
            _ if self.takes_word("true") => Scalar::Bool(true),
            _ if self.takes_word("false") => Scalar::Bool(false),
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    /// A text in quotes of either sort, which ends at the next such quote.
    fn quoted(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let quote = rest.chars().next().unwrap_or('"');
        let Some((text, _)) = rest.get(1..).unwrap_or_default().split_once(quote) else {
            return self.wrong("a text has no end");
        };
        self.at += text.len() + 2;
        Ok(text.to_owned())
    }

    fn list(&mut self) -> Result<Vec<Scalar>, String> {
        if !self.takes("[") {
            return self.wrong("expected a list, as in [\"eur\", \"usd\"]");
        }
        let mut list = Vec::new();
        loop {
            match self.literal()? {
                Some(value) => list.push(value),
                None => return self.wrong("expected a text, a number, true, false or null"),
            }
            if self.takes("]") {
                return Ok(list);
            }
            if !self.takes(",") {
                return self.wrong("expected `,` or `]`");
            }
        }
    }

    fn place(&mut self) -> Result<Place, String> {
        const ROOTS: &str = "payload.NAME, envelope.NAME or headers[\"NAME\"]";
        self.rest();
        let from = self.at;
        let root = self.name();
        match root {
            "payload" | "envelope" | "headers" => self.at += root.len(),
            "" => return self.wrong("expected a value"),
            word if WORDS.contains(&word) => return self.wrong("expected a value"),
            other => return self.wrong(&format!("`{other}` is not known; write {ROOTS}")),
        }
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            steps.push(step);
        }
        let root = match (root, steps.as_slice()) {
            ("headers", [name]) => Root::Header(name.to_ascii_lowercase()),
            ("headers", _) | (_, []) => return self.wrong(&format!("expected {ROOTS}")),
            ("payload", _) => Root::Payload,
            _ => Root::Envelope,
        };
        let pointer = match &root {
            Root::Header(_) => String::new(),
            _ => steps
                .iter()
                .flat_map(|one| ["/".to_owned(), one.replace('~', "~0").replace('/', "~1")])
                .collect(),
        };
        let text = self.text.get(from..self.at).unwrap_or_default().trim_end();
        let place = Place::new(root, pointer, text.to_owned());
        self.places.push(place.clone());
        if self.places.len() > PLACES_N_MAX {
            return self.wrong(&format!("more than {PLACES_N_MAX} values of the event are read"));
        }
        Ok(place)
    }

    /// The next step of a place, if there is one.
    fn step(&mut self) -> Result<Option<String>, String> {
        let step = if self.takes(".") {
            let name = self.name();
            if name.is_empty() {
                return self.wrong("expected a name of letters, digits and `_`; write others as [\"NAME\"]");
            }
            self.at += name.len();
            name.to_owned()
        } else if self.takes("[") {
            let rest = self.rest();
            let step = if rest.starts_with(['"', '\'']) {
                self.quoted()?
            } else {
                let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                self.at += length;
                rest.get(..length).unwrap_or_default().to_owned()
            };
            if step.is_empty() || !self.takes("]") {
                return self.wrong("expected a name in quotes or a whole number, and `]`");
            }
            step
        } else {
            return Ok(None);
        };
        Ok(Some(step))
    }
}
