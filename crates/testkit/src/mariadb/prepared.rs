//! Prepared statements as a client without a library has them: each message by itself, numbers as parameters, rows in binary form.

use super::{Connection, Refused, Row, number, refused};

/// A statement as the server has described it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its number.
    pub id: u32,
    /// How many parameters it has.
    pub parameters: u16,
}

/// What of an execution is not usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Parameters have their types.
    Typed,
    /// The types of the execution before hold.
    AsBefore,
    /// With types; rows are fetched later.
    Cursor,
}

/// A type of columns and parameters.
const LONG: u8 = 3;
const LONGLONG: u8 = 8;

impl Connection {
    /// Has a statement prepared.
    pub fn prepare(&mut self, text: &str) -> Result<Prepared, Refused> {
        self.send(0, &[b"\x16", text.as_bytes()].concat())?;
        self.prepared()
    }

    /// Takes the answer to a message that has a statement prepared.
    pub fn prepared(&mut self) -> Result<Prepared, Refused> {
        let head = self.receive()?;
        if head.len() < 9 {
            return Err(refused(&head));
        }
        let id = u32::from_le_bytes(head[1..5].try_into().expect("four bytes"));
        let two = |at: usize| u16::from_le_bytes(head[at..at + 2].try_into().expect("two bytes"));
        let (columns, parameters) = (two(5), two(7));
        for count in [parameters, columns] {
            // Behind descriptions is an EOF packet.
            for _ in 0..if count > 0 { count + 1 } else { 0 } {
                self.receive()?;
            }
        }
        Ok(Prepared { id, parameters })
    }

    /// The message that executes a statement with these numbers.
    pub fn execution(id: u32, values: &[i64], how: How) -> Vec<u8> {
        let mut message = vec![0x17];
        message.extend(id.to_le_bytes());
        message.extend([u8::from(how == How::Cursor), 1, 0, 0, 0]);
        if !values.is_empty() {
            message.resize(message.len() + values.len().div_ceil(8), 0);
            message.push(u8::from(how != How::AsBefore));
            if how != How::AsBefore {
                message.extend([LONGLONG, 0].repeat(values.len()));
            }
            message.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        message
    }

    /// Executes a statement with these numbers; rows as they are, none if they are fetched later.
    pub fn execute(&mut self, of: &Prepared, values: &[i64], how: How) -> Result<Vec<Row>, Refused> {
        assert_eq!(values.len(), usize::from(of.parameters), "values for all parameters");
        self.send(0, &Connection::execution(of.id, values, how))?;
        self.executed(how == How::Cursor)
    }

    /// The first value of the first row of an execution.
    ///
    /// # Panics
    /// If there is none.
    pub fn executed_value(&mut self, of: &Prepared, values: &[i64], how: How) -> String {
        let rows = self.execute(of, values, how);
        let rows = rows.unwrap_or_else(|why| panic!("{of:?} {values:?}: {why:?}"));
        rows[0][0].clone().expect("a value")
    }

    /// Takes the answer to a message that executes a statement.
    pub fn executed(&mut self, has_cursor: bool) -> Result<Vec<Row>, Refused> {
        let head = self.receive()?;
        if head.first() == Some(&0) {
            return Ok(Vec::new());
        }
        let count = number(&mut &*head).unwrap_or(0);
        let mut types = Vec::new();
        for _ in 0..count {
            types.push(type_of(&self.receive()?));
        }
        self.receive()?;
        self.columns = types;
        if has_cursor { Ok(Vec::new()) } else { self.binary_rows() }
    }

    /// So many rows of the statement that was executed last.
    pub fn fetch(&mut self, of: &Prepared, count: u32) -> Result<Vec<Row>, Refused> {
        self.send(0, &[&[0x1c][..], &of.id.to_le_bytes(), &count.to_le_bytes()].concat())?;
        self.binary_rows()
    }

    /// Sends a part of a parameter ahead.
    pub fn send_part(&mut self, of: &Prepared, parameter: u16, part: &[u8]) -> Result<(), Refused> {
        let head = [&[0x18][..], &of.id.to_le_bytes(), &parameter.to_le_bytes()].concat();
        Ok(self.send(0, &[&head[..], part].concat())?)
    }

    /// Has parts of parameters and rows forgotten.
    pub fn reset(&mut self, of: &Prepared) -> Result<(), Refused> {
        self.send(0, &[&[0x1a][..], &of.id.to_le_bytes()].concat())?;
        self.receive().map(drop)
    }

    /// Has a statement forgotten; nobody answers.
    pub fn close(&mut self, of: &Prepared) -> Result<(), Refused> {
        Ok(self.send(0, &[&[0x19][..], &of.id.to_le_bytes()].concat())?)
    }

    fn binary_rows(&mut self) -> Result<Vec<Row>, Refused> {
        let mut rows = Vec::new();
        loop {
            let row = self.receive()?;
            if row.first() == Some(&0xfe) && row.len() < 9 {
                return Ok(rows);
            }
            rows.push(binary_row(&row, &self.columns));
        }
    }
}

/// The type in a column's description: behind six texts, a length, the character set and the column's length.
fn type_of(column: &[u8]) -> u8 {
    let mut rest = column;
    for _ in 0..6 {
        let length = number(&mut rest).unwrap_or(0) as usize;
        rest = &rest[length..];
    }
    rest[7]
}

/// A row: a zero, bits for NULL of which the first two mean nothing, values.
fn binary_row(row: &[u8], types: &[u8]) -> Row {
    let nulls = &row[1..];
    let mut rest = &row[1 + (types.len() + 2).div_ceil(8)..];
    let mut take = |count: usize| {
        let (taken, after) = rest.split_at(count);
        rest = after;
        taken
    };
    let mut values = Vec::new();
    for (at, kind) in types.iter().enumerate() {
        let bit = at + 2;
        if nulls[bit / 8] & 1 << (bit % 8) != 0 {
            values.push(None);
            continue;
        }
        values.push(Some(match *kind {
            LONG => i32::from_le_bytes(take(4).try_into().expect("four bytes")).to_string(),
            LONGLONG => i64::from_le_bytes(take(8).try_into().expect("eight bytes")).to_string(),
            // Short texts only: their length is in one byte.
            _ => {
                let length = usize::from(take(1)[0]);
                String::from_utf8_lossy(take(length)).into_owned()
            }
        }));
    }
    values
}
