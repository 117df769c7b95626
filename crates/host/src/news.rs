//! What the master process knows and workers tell those who watch: reloads that were refused, and the programs that it supervises, what the doctor
//! finds.
//!
//! The master gives it to each worker whenever it has changed, as lines of text; requests only read it.

use std::fmt::Write as _;

/// All of it, as it was when it last changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Reloads that were refused since the master's start.
    pub refused_reloads: u64,
    /// The last one of them.
    pub last_refused: Option<Refused>,
    /// What `supervise` has started, in the order of the configuration.
    pub programs: Vec<Program>,
    /// What the audit finds in the configuration, and the tuner's last report, as one line of JSON; empty where no page shows it.
    pub findings: String,
}

/// A reload that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// When, in seconds since 1970.
    pub unix_secs: i64,
    /// The configuration that stayed live. While it is, no reload has succeeded since.
    pub generation: u64,
    /// Why, in one line.
    pub reason: String,
}

/// A program that the master supervises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the configuration.
    pub name: String,
    /// Where it stands.
    pub state: ProgramState,
    /// Its process; 0 if there is none.
    pub pid: i32,
    /// When it came to be in this state, in seconds since 1970.
    pub since_unix_secs: i64,
    /// How often it was started.
    pub starts: u64,
    /// How often it ended, or was ended as unhealthy, without being wanted to.
    pub failures: u64,
    /// Lines of its output that were not logged, being too many.
    pub lost_lines: u64,
}

/// Where a program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramState {
    /// Started, and not known to be ready.
    Starting,
    /// Does its work.
    Ready,
    /// Was told to end.
    Ending,
    /// Has failed, and is started again after a pause.
    Waiting,
    /// Has ended, and is not to be started again.
    Ended,
}

impl ProgramState {
    /// All of them.
    pub const ALL: [ProgramState; 5] = [
        ProgramState::Starting,
        ProgramState::Ready,
        ProgramState::Ending,
        ProgramState::Waiting,
        ProgramState::Ended,
    ];

    /// As numbers and pages name it.
    pub fn name(self) -> &'static str {
        match self {
            ProgramState::Starting => "starting",
            ProgramState::Ready => "ready",
            ProgramState::Ending => "ending",
            ProgramState::Waiting => "waiting",
            ProgramState::Ended => "ended",
        }
    }
}

impl News {
    /// As it travels.
    pub fn encode(&self) -> String {
        let mut out = format!("refused {}\n", self.refused_reloads);
        if let Some(last) = &self.last_refused {
            let Refused { unix_secs, generation, reason } = last;
            let reason = reason.replace(['\n', '\r'], " ");
            let _ = writeln!(out, "last {unix_secs} {generation} {reason}");
        }
        if !self.findings.is_empty() {
            // JSON has no line breaks but between its parts.
            let _ = writeln!(out, "findings {}", self.findings.replace(['\n', '\r'], " "));
        }
        for program in &self.programs {
            let Program { name, state, pid, since_unix_secs, starts, failures, lost_lines } = program;
            let state = state.name();
            let _ = writeln!(
                out,
                "program {state} {pid} {since_unix_secs} {starts} {failures} {lost_lines} {name}"
            );
        }
        out
    }

    /// The reverse; `None` if it is none.
    pub fn decode(text: &str) -> Option<News> {
        let mut news = News::default();
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ')?;
            match kind {
                "refused" => news.refused_reloads = rest.parse().ok()?,
                "last" => {
                    let mut words = rest.splitn(3, ' ');
                    news.last_refused = Some(Refused {
                        unix_secs: words.next()?.parse().ok()?,
                        generation: words.next()?.parse().ok()?,
                        reason: words.next()?.to_string(),
                    });
                }
                "findings" => news.findings = rest.to_string(),
                "program" => news.programs.push(program(rest)?),
                _ => return None,
            }
        }
        Some(news)
    }
}

fn program(text: &str) -> Option<Program> {
    let mut words = text.splitn(7, ' ');
    let state = words.next()?;
    Some(Program {
        state: ProgramState::ALL.into_iter().find(|known| known.name() == state)?,
        pid: words.next()?.parse().ok()?,
        since_unix_secs: words.next()?.parse().ok()?,
        starts: words.next()?.parse().ok()?,
        failures: words.next()?.parse().ok()?,
        lost_lines: words.next()?.parse().ok()?,
        name: words.next()?.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_survive_their_way() {
        let check = |news: &News| assert_eq!(News::decode(&news.encode()).as_ref(), Some(news));
        check(&News::default());
        let reason = "unknown directive \"x y\" in /etc/a b.conf:3".to_string();
        check(&News {
            refused_reloads: 2,
            last_refused: Some(Refused { unix_secs: 1_790_000_000, generation: 7, reason }),
            programs: ProgramState::ALL
                .into_iter()
                .map(|state| Program {
                    name: "shop".into(),
                    state,
                    pid: 12,
                    since_unix_secs: 1_790_000_001,
                    starts: 3,
                    failures: 2,
                    lost_lines: 9,
                })
                .collect(),
            findings: r#"{"audit": [{"line": "a b;"}]}"#.to_string(),
        });
    }

    #[test]
    fn a_reason_is_one_line() {
        let last = Refused { unix_secs: 1, generation: 1, reason: "a\nb".into() };
        let news = News { last_refused: Some(last), ..News::default() };
        let read = News::decode(&news.encode()).unwrap();
        assert_eq!(read.last_refused.unwrap().reason, "a b");
    }

    #[test]
    fn what_is_no_news_is_refused() {
        for text in [
            "other 1\n",
            "refused\n",
            "refused x\n",
            "last 1\n",
            "program ready x 1 1 1 1 n\n",
            "program new 1 1 1 1 1 n\n",
        ] {
            assert_eq!(News::decode(text), None, "{text}");
        }
    }
}
