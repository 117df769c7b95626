//! The terminal: keys in, pictures out, until somebody ends it.

use crate::draw::draw;
use crate::limits::{ANSWER_LOOK_TIME, ANSWER_TIME_USUAL};
use crate::model::{Model, Sample};
use crate::screen::{Act, Key, Screen};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Draws until `q` or Ctrl-C. `ask` gets the next answer, with what comes after a second of the history; an error of it is shown, and
/// the last figures stay. It has a thread of its own, so that keys are obeyed while a server does not answer. The terminal is as it was
/// afterwards, whatever happens.
///
/// # Errors
/// Of the terminal.
pub fn live(
    first: Sample,
    mut screen: Screen,
    every: Duration,
    has_colour: bool,
    ask: impl Fn(Option<i64>) -> Result<Sample, String> + Send + 'static,
) -> io::Result<()> {
    let mut model = Model::new(first);
    let mut asker = Asker::start(ask)?;
    let mut terminal = ratatui::try_init()?;
    let mut note = String::new();
    let done = loop {
        let note_now = asker.late(every).unwrap_or_else(|| note.clone());
        if let Err(error) = terminal.draw(|frame| draw(frame, &model, &screen, &note_now, has_colour)) {
            break Err(error);
        }
        let act = match wait(asker.wait(every, screen.is_paused)) {
            Ok(Some(key)) => screen.key(key),
            Ok(None) => Act::Draw,
            Err(error) => break Err(error),
        };
        if act == Act::Quit {
            break Ok(());
        }
        match asker.answer() {
            Some(Ok(sample)) => {
                model.next(sample);
                note.clear();
            }
            Some(Err(why)) => note = why,
            None => {}
        }
        if !screen.is_paused {
            asker.ask(every, model.since());
        }
    };
    ratatui::restore();
    done
}

/// Whoever asks the server, in a thread of its own. That ends with the process: a server that hangs holds nobody up.
struct Asker {
    questions: Sender<Option<i64>>,
    answers: Receiver<Result<Sample, String>>,
    asked: Instant,
    is_waiting: bool,
}

impl Asker {
    fn start(ask: impl Fn(Option<i64>) -> Result<Sample, String> + Send + 'static) -> io::Result<Asker> {
        let (questions, asked) = mpsc::channel();
        let (tell, answers) = mpsc::channel();
        std::thread::Builder::new().name("asker".into()).spawn(move || {
            asked.into_iter().map(ask).try_for_each(|answer| tell.send(answer)).ok();
        })?;
        Ok(Asker { questions, answers, asked: Instant::now(), is_waiting: false })
    }

    /// Asks, if the time has come and the last answer is there.
    fn ask(&mut self, every: Duration, since: Option<i64>) {
        if !self.is_waiting && self.asked.elapsed() >= every {
            self.asked = Instant::now();
            self.is_waiting = self.questions.send(since).is_ok();
        }
    }

    /// The answer, once.
    fn answer(&mut self) -> Option<Result<Sample, String>> {
        let answer = self.answers.try_recv().ok();
        self.is_waiting &= answer.is_none();
        answer
    }

    /// How long keys may be waited for alone.
    fn wait(&self, every: Duration, is_paused: bool) -> Duration {
        match (self.is_waiting, is_paused) {
            (true, _) => ANSWER_LOOK_TIME,
            // The next question has no time.
            (false, true) => every,
            (false, false) => every.saturating_sub(self.asked.elapsed()),
        }
    }

    /// What is to be said of an answer that has not come when the next one is due.
    fn late(&self, every: Duration) -> Option<String> {
        let time = self.asked.elapsed();
        let secs = time.as_secs();
        (self.is_waiting && time > every.max(ANSWER_TIME_USUAL))
            .then(|| format!("the server has not answered for {secs} s; what is shown is of its last answer"))
    }
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
