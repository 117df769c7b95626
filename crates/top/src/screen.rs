//! What a person has chosen: the table, its order, what it is filtered by.

use crate::tables::{Row, Table, View};

/// Rows that a page key moves by.
const PAGE: usize = 10;

/// A key, whatever terminal it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter, digit or sign.
    Char(char),
    /// Ends what is being typed.
    Enter,
    /// Gives up what is being typed; else ends the filter.
    Escape,
    /// Takes the last letter back.
    Backspace,
    /// To the next table.
    Right,
    /// To the table before.
    Left,
    /// A row up.
    Up,
    /// A row down.
    Down,
    /// Many rows up.
    PageUp,
    /// Many rows down.
    PageDown,
    /// Ctrl-C.
    Interrupt,
}

/// What follows from a key besides another picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Draw,
    /// The end.
    Quit,
}

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// The table.
    pub view: View,
    /// The column by which it is sorted, if another one than the table's own was chosen.
    pub sorted_by: Option<usize>,
    /// The other way round.
    pub is_reversed: bool,
    /// What names must contain, in any case of letters.
    pub filter: String,
    /// The filter is being typed.
    pub is_typing: bool,
    /// New answers are not shown.
    pub is_paused: bool,
    /// Rows that are above the picture.
    pub above: usize,
}

impl Screen {
    /// Another table.
    pub fn show(&mut self, view: View) {
        if self.view != view {
            (self.view, self.sorted_by, self.is_reversed, self.above) = (view, None, false, 0);
        }
    }

    /// Takes a key.
    pub fn key(&mut self, key: Key) -> Act {
        match key {
            Key::Interrupt => return Act::Quit,
            _ if self.is_typing => self.type_filter(key),
            Key::Char('q') => return Act::Quit,
            Key::Char('/') => self.is_typing = true,
            Key::Char('p' | ' ') => self.is_paused = !self.is_paused,
            Key::Char('r') => self.is_reversed = !self.is_reversed,
            Key::Char('s') => self.sort_by(1),
            Key::Char('S') => self.sort_by(self.view.columns().len() - 1),
            Key::Char(digit @ '1'..='9') => self.show(View::ALL[digit as usize - '1' as usize]),
            Key::Char('f') => self.show(View::Flights),
            Key::Char('\t') | Key::Right => self.turn(1),
            Key::Left => self.turn(View::ALL.len() - 1),
            Key::Up => self.above = self.above.saturating_sub(1),
            Key::Down => self.above += 1,
            Key::PageUp => self.above = self.above.saturating_sub(PAGE),
            Key::PageDown => self.above += PAGE,
            Key::Escape => self.filter.clear(),
            Key::Char(_) | Key::Enter | Key::Backspace => {}
        }
        Act::Draw
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(letter) if !letter.is_control() => self.filter.push(letter),
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
        self.above = 0;
    }

    fn turn(&mut self, by: usize) {
        let at = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
        self.show(View::ALL[(at + by) % View::ALL.len()]);
    }

    fn sort_by(&mut self, further: usize) {
        self.sorted_by = Some((self.column() + further) % self.view.columns().len());
        self.is_reversed = false;
    }

    /// The column by which the table is sorted.
    pub fn column(&self) -> usize {
        self.sorted_by.unwrap_or_else(|| self.view.sorted_by())
    }

    /// The rows in their order, without those that the filter leaves out.
    pub fn rows(&self, table: &Table) -> Vec<Row> {
        let wanted = self.filter.to_lowercase();
        let mut rows: Vec<Row> =
            table.rows.iter().filter(|row| row.name().to_lowercase().contains(&wanted)).cloned().collect();
        let at = self.column();
        let descends = table.columns.get(at).is_some_and(|column| column.smallest_first) == self.is_reversed;
        rows.sort_by(|a, b| {
            let (left, right) = (&a.0[at], &b.0[at]);
            let order = match (left.value, right.value) {
                (Some(left), Some(right)) => left.total_cmp(&right),
                _ => left.text.cmp(&right.text),
            };
            let order = if descends { order.reverse() } else { order };
            // Equal ones keep one order, so that rows do not jump.
            order.then_with(|| a.name().cmp(b.name()))
        });
        rows
    }
}
