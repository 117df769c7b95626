//! CSV files (RFC 4180): the first line names the columns.

/// Rows by column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// As many values in each as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads a file's text. The error begins with the line's number.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text, None, false, ',')
    }

    /// The same of values that `delimiter` stands between; with names of columns the first line is a row, unless it is left out.
    pub fn read(
        text: &str,
        columns: Option<&[String]>,
        skips_first: bool,
        delimiter: char,
    ) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut records = records(text, delimiter)?.into_iter();
        let columns = match columns {
            Some(names) => {
                records.by_ref().take(usize::from(skips_first)).for_each(drop);
                names.to_vec()
            }
            None => records.next().ok_or("1: the file is empty: the first line names the columns")?.1,
        };
        let mut rows = Vec::new();
        for (line, row) in records {
            if row.len() != columns.len() {
                return Err(format!("{line}: {} values for {} columns", row.len(), columns.len()));
            }
            rows.push(row);
        }
        if rows.is_empty() {
            return Err("2: there are no rows behind the names of the columns".to_owned());
        }
        Ok(Self { columns: columns.iter().map(|name| name.trim().to_owned()).collect(), rows })
    }

    /// A value.
    pub fn value(&self, row: usize, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|have| have == column)?;
        self.rows.get(row % self.rows.len()).map(|row| row[at].as_str())
    }
}

/// Records with the lines that they begin on.
fn records(text: &str, delimiter: char) -> Result<Vec<(usize, Vec<String>)>, String> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut begun) = (1, 1);
    let mut chars = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            c if c == delimiter && !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                if !record.is_empty() || !field.is_empty() {
                    record.push(std::mem::take(&mut field));
                    records.push((begun, std::mem::take(&mut record)));
                }
                begun = line;
            }
            other => field.push(other),
        }
    }
    if quoted {
        return Err(format!("{begun}: a quote is not closed"));
    }
    if !record.is_empty() || !field.is_empty() {
        record.push(field);
        records.push((begun, record));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_of_the_rfc() {
        let table = Table::parse("\u{feff}user,pass\r\nann,\"a,\"\"b\"\"\nc\"\r\n\r\nbob,").unwrap();
        assert_eq!(table.rows.len(), 2);
        assert_eq!((table.value(0, "pass"), table.value(3, "user")), (Some("a,\"b\"\nc"), Some("bob")));
        assert_eq!(table.value(0, "x"), None);
        let names = ["a".to_owned(), "b".to_owned()];
        let plain = Table::read("1;2\n3;\"4;5\"\n", Some(&names), false, ';').unwrap();
        assert_eq!((plain.value(0, "a"), plain.value(1, "b")), (Some("1"), Some("4;5")));
        for (text, line) in [("", "1:"), ("a,b\n", "2:"), ("a,b\n1,2\n3\n", "3:"), ("a\n\"x", "2:")] {
            assert!(Table::parse(text).unwrap_err().starts_with(line), "{text:?}");
        }
    }
}
