//! The terminal: keys in, pictures out, until somebody ends it.

use crate::draw::draw;
use crate::model::{Model, Sample};
use crate::screen::{Act, Key, Screen};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io;
use std::time::{Duration, Instant};

/// Draws until `q` or Ctrl-C. `ask` gets the next answer, with what comes after a second of the history; an error of it is shown, and
/// the last figures stay. The terminal is as it was afterwards, whatever happens.
///
/// # Errors
/// Of the terminal.
pub fn live(
    first: Sample,
    mut screen: Screen,
    every: Duration,
    has_colour: bool,
    ask: &mut dyn FnMut(Option<i64>) -> Result<Sample, String>,
) -> io::Result<()> {
    let mut model = Model::new(first);
    let mut terminal = ratatui::try_init()?;
    let mut note = String::new();
    let mut asked = Instant::now();
    let done = loop {
        if let Err(error) = terminal.draw(|frame| draw(frame, &model, &screen, &note, has_colour)) {
            break Err(error);
        }
        let act = match wait(every.saturating_sub(asked.elapsed())) {
            Ok(Some(key)) => screen.key(key),
            Ok(None) => Act::Draw,
            Err(error) => break Err(error),
        };
        if act == Act::Quit {
            break Ok(());
        }
        if asked.elapsed() >= every && !screen.is_paused {
            asked = Instant::now();
            match ask(model.since()) {
                Ok(sample) => {
                    model.next(sample);
                    note.clear();
                }
                Err(why) => note = why,
            }
        }
    };
    ratatui::restore();
    done
}

/// The next key within a time; what else happens to a terminal (another size) only ends the wait.
fn wait(time: Duration) -> io::Result<Option<Key>> {
    if !event::poll(time)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key),
        _ => None,
    })
}

fn key_of(key: KeyEvent) -> Option<Key> {
    Some(match key.code {
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Tab => Key::Char('\t'),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        _ => return None,
    })
}
