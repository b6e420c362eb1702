//! The parameters of a statement, by position, and the cells of its rows, by column name.

use std::sync::Arc;

use super::error::{DbError, DbResult};

/// A value for a `$1` of a statement; `None` is NULL of that type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A 64-bit whole number.
    Int(Option<i64>),
    /// A text without the character NUL.
    Text(Option<String>),
    /// Bytes of any value.
    Bytes(Option<Vec<u8>>),
    /// A list of texts: an array on PostgreSQL, a JSON array on SQLite.
    Texts(Vec<String>),
    /// A list of whole numbers, likewise.
    Ints(Vec<i64>),
}

macro_rules! values {
    ($($given:ty => $kind:ident, $own:expr;)*) => {$(
        impl From<$given> for Value {
            fn from(given: $given) -> Self {
                Self::$kind(Some(($own)(given)))
            }
        }
        impl From<Option<$given>> for Value {
            fn from(given: Option<$given>) -> Self {
                Self::$kind(given.map($own))
            }
        }
    )*};
}

values! {
    i64 => Int, |number| number;
    i32 => Int, i64::from;
    u32 => Int, i64::from;
    &str => Text, str::to_owned;
    String => Text, |text| text;
    &String => Text, String::clone;
    Vec<u8> => Bytes, |bytes| bytes;
    &[u8] => Bytes, <[u8]>::to_vec;
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}
impl From<Vec<i64>> for Value {
    fn from(numbers: Vec<i64>) -> Self {
        Self::Ints(numbers)
    }
}

/// One cell of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    /// A value of a type that no statement reads, with the type's name.
    Other(String),
}

impl Cell {
    fn describe(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Int(number) => format!("the number {number}"),
            // The value may be secret, so it is not shown.
            Self::Text(text) => format!("a text of {} bytes", text.len()),
            Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Self::Other(kind) => format!("a value of type {kind}"),
        }
    }
}

/// A row that a statement gave back. Its cells are asked for by the name of their column; a caller that asks for one
/// that is not there, or is of another kind, gets an error that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    columns: Arc<[String]>,
    cells: Vec<Cell>,
}

impl Row {
    pub(crate) fn new(columns: Arc<[String]>, cells: Vec<Cell>) -> Self {
        Self { columns, cells }
    }

    fn cell(&self, column: &str) -> DbResult<&Cell> {
        let found = self.columns.iter().zip(&self.cells).find(|(name, _)| *name == column);
        found.map(|(_, cell)| cell).ok_or_else(|| DbError::no_column(column))
    }

    /// True when there is such a column.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.cell(column).is_ok()
    }

    /// The value in a column as a key is written, for logs and pages; one that cannot be read is a question mark.
    pub(crate) fn key_text(&self, column: &str) -> String {
        match self.cell(column) {
            Ok(Cell::Int(number)) => number.to_string(),
            Ok(Cell::Text(text)) => text.clone(),
            _ => "?".to_owned(),
        }
    }

    /// The whole number in the first column; `None` when it is NULL.
    pub(super) fn first_int(&self) -> DbResult<Option<i64>> {
        match self.columns.first() {
            Some(column) => self.int_or_null(column),
            None => Ok(None),
        }
    }

    /// A whole number of any width; a boolean is 0 or 1.
    pub fn int(&self, column: &str) -> DbResult<i64> {
        self.int_or_null(column)?.ok_or_else(|| null(column))
    }

    /// A whole number; `None` is NULL.
    pub fn int_or_null(&self, column: &str) -> DbResult<Option<i64>> {
        match self.cell(column)? {
            Cell::Null => Ok(None),
            Cell::Int(number) => Ok(Some(*number)),
            other => Err(wrong(column, other, "a whole number")),
        }
    }

    /// A whole number that is not negative and has 32 bits at most.
    pub(crate) fn count(&self, column: &str) -> DbResult<u32> {
        let number = self.int(column)?;
        u32::try_from(number)
            .map_err(|_| DbError::decode(column, format_args!("{number}, which counts nothing")))
    }

    /// True when a whole number, or a boolean, is not 0.
    pub(crate) fn is_true(&self, column: &str) -> DbResult<bool> {
        self.int(column).map(|number| number != 0)
    }

    /// Returns the text in a column.
    pub fn text(&self, column: &str) -> DbResult<String> {
        self.text_or_null(column)?.ok_or_else(|| null(column))
    }

    /// The text in a column; `None` is NULL.
    pub fn text_or_null(&self, column: &str) -> DbResult<Option<String>> {
        match self.cell(column)? {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(text.clone())),
            other => Err(wrong(column, other, "a text")),
        }
    }

    /// Returns the bytes in a column.
    pub(crate) fn bytes(&self, column: &str) -> DbResult<Vec<u8>> {
        self.bytes_or_null(column)?.ok_or_else(|| null(column))
    }

    /// The bytes in a column; `None` is NULL.
    pub(crate) fn bytes_or_null(&self, column: &str) -> DbResult<Option<Vec<u8>>> {
        match self.cell(column)? {
            Cell::Null => Ok(None),
            Cell::Bytes(bytes) => Ok(Some(bytes.clone())),
            other => Err(wrong(column, other, "bytes")),
        }
    }
}

fn null(column: &str) -> DbError {
    DbError::decode(column, "NULL, which it must not")
}

fn wrong(column: &str, cell: &Cell, wanted: &str) -> DbError {
    DbError::decode(column, format_args!("{}, and {wanted} is wanted", cell.describe()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_missing_cell_or_one_of_another_type_names_the_column() {
        let columns = ["n", "t", "nothing"].map(String::from);
        let row =
            Row::new(Arc::new(columns), vec![Cell::Int(-1), Cell::Text("secret".to_owned()), Cell::Null]);
        assert_eq!(row.int("n").unwrap(), -1);
        assert_eq!(row.first_int().unwrap(), Some(-1));
        assert_eq!(row.text_or_null("nothing").unwrap(), None);
        let cases = [
            (row.int("missing").map(drop), "missing"),
            (row.int("t").map(drop), "`t`"),
            (row.text("nothing").map(drop), "`nothing`"),
            (row.count("n").map(drop), "`n`"),
            (row.bytes("t").map(drop), "`t`"),
        ];
        for (answer, wanted) in cases {
            let said = answer.unwrap_err().to_string();
            assert!(said.contains(wanted) && !said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn what_goes_into_a_statement_keeps_its_kind_when_it_is_none() {
        let all: [(Value, Value); 10] = [
            (7_i32.into(), Value::Int(Some(7))),
            (u32::MAX.into(), Value::Int(Some(4_294_967_295))),
            (None::<i64>.into(), Value::Int(None)),
            ("a".into(), Value::Text(Some("a".to_owned()))),
            (None::<&str>.into(), Value::Text(None)),
            (None::<String>.into(), Value::Text(None)),
            ((&[0_u8, 255][..]).into(), Value::Bytes(Some(vec![0, 255]))),
            (None::<Vec<u8>>.into(), Value::Bytes(None)),
            (vec!["a".to_owned()].into(), Value::Texts(vec!["a".to_owned()])),
            (Vec::<i64>::new().into(), Value::Ints(Vec::new())),
        ];
        for (value, wanted) in all {
            assert_eq!(value, wanted);
        }
    }

    #[test]
    fn a_count_is_no_negative_number_and_none_beyond_32_bits() {
        let row = |number: i64| Row::new(Arc::new(["n".to_owned()]), vec![Cell::Int(number)]);
        assert_eq!(row(4_294_967_295).count("n").unwrap(), u32::MAX);
        for number in [-1, 4_294_967_296, i64::MIN] {
            let said = row(number).count("n").unwrap_err().to_string();
            assert!(said.contains(&number.to_string()), "{said}");
        }
        assert_eq!([0, 1, -1].map(|n| row(n).is_true("n").unwrap()), [false, true, true]);
        let nothing = Row::new(Arc::new([]), Vec::new());
        assert_eq!(nothing.first_int().unwrap(), None);
        assert!(nothing.int("n").is_err());
    }
}
