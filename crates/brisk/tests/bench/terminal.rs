//! The picture of a run as a terminal has it: nothing is wider than the terminal, and nothing of it stays behind.

use super::*;
use std::collections::BTreeSet;

/// A terminal that knows what pictures use: lines, colours (SGR), cursor up (CUU) and erase below (ED).
struct Screen {
    columns: usize,
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// Lines that were longer than the screen is wide.
    wrapped: usize,
    colours: BTreeSet<String>,
    /// After each erasure: lines wrapped until then, and what the screen showed.
    erased: Vec<(usize, String)>,
}

impl Screen {
    fn new(columns: usize) -> Self {
        let (rows, colours, erased) = (vec![Vec::new()], BTreeSet::new(), Vec::new());
        Self { columns, rows, row: 0, column: 0, wrapped: 0, colours, erased }
    }

    fn text(&self) -> String {
        self.rows
            .iter()
            .map(|row| row.iter().collect::<String>() + "\n")
            .collect::<String>()
            .trim()
            .to_owned()
    }

    fn put(&mut self, c: char) {
        if self.column == self.columns {
            self.wrapped += 1;
            self.column = 0;
            self.row += 1;
        }
        self.rows.resize(self.rows.len().max(self.row + 1), Vec::new());
        let row = &mut self.rows[self.row];
        row.resize(row.len().max(self.column + 1), ' ');
        row[self.column] = c;
        self.column += 1;
    }

    fn control(&mut self, argument: &str, function: char) {
        match function {
            'm' => drop(self.colours.insert(argument.to_owned())),
            'A' => self.row -= argument.parse::<usize>().unwrap(),
            'J' => {
                self.rows.truncate(self.row + 1);
                if let Some(row) = self.rows.get_mut(self.row) {
                    row.truncate(self.column);
                }
                self.erased.push((self.wrapped, self.text()));
            }
            other => panic!("a terminal's function that is not known here: {argument}{other}"),
        }
    }

    fn feed(&mut self, text: &str) {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\n' => self.row += 1,
                '\r' => self.column = 0,
                '\x1b' => {
                    assert_eq!(chars.next(), Some('['));
                    let mut argument = String::new();
                    let function = loop {
                        match chars.next().unwrap() {
                            c if c.is_ascii_alphabetic() => break c,
                            c => argument.push(c),
                        }
                    };
                    self.control(&argument, function);
                }
                c => self.put(c),
            }
        }
    }
}

#[test]
fn a_picture_fits_its_terminal_and_leaves_nothing_behind() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/limited", server.port());
    let drawn = |columns: usize, no_color: &str| {
        let line = format!("stty cols {columns} rows 40 && {BIN} bench -d 1500ms -c 4 {url}");
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .envs([("TERM", "xterm"), ("NO_COLOR", no_color)])
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("script, of bsdutils: {error}"));
        let text = String::from_utf8(output.stdout).unwrap();
        let mut screen = Screen::new(columns);
        screen.feed(&text);
        let Some((wrapped, left)) = screen.erased.last() else { panic!("{columns}: no picture: {text:?}") };
        assert_eq!((*wrapped, left.as_str()), (0, ""), "{columns}: {text:?}");
        assert!(screen.erased.len() > 2 && screen.text().contains("responses in"), "{columns}: {text:?}");
        screen.colours
    };
    for columns in [80, 120, 200] {
        let colours = drawn(columns, "");
        assert!(
            ["1", "31", "32", "36"].iter().all(|colour| colours.contains(*colour)),
            "{columns}: {colours:?}"
        );
    }
    assert!(drawn(80, "1").is_empty(), "NO_COLOR");
}
