//! Finding and replacing strings in a text that comes in pieces. What comes out does not depend on how it is cut.
//!
//! Patterns are compared without regard to ASCII case. The match that begins first counts; of several that begin at
//! the same place the one that stands first in the configuration. Only what may be the beginning of a match is kept
//! back: less than the longest pattern.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, Input, MatchKind};
use std::sync::Arc;

/// The strings to look for.
pub struct Patterns {
    /// In lower case, none of them empty.
    list: Box<[Box<[u8]>]>,
    automaton: AhoCorasick,
    longest: usize,
    /// The first bytes of all, in both cases.
    first: [bool; 256],
}

impl Patterns {
    /// `None` if there are too many, or too long ones, for one automaton. What is `kept` for many texts may take more
    /// time and memory.
    pub fn new(list: Vec<Vec<u8>>, kept: bool) -> Option<Patterns> {
        let list: Box<[Box<[u8]>]> = list.into_iter().map(|p| p.to_ascii_lowercase().into()).collect();
        let automaton = AhoCorasickBuilder::new()
            // The order of the configuration decides among matches at one place, as in nginx.
            .match_kind(MatchKind::LeftmostFirst)
            .ascii_case_insensitive(true)
            // For one response a cheap automaton; a DFA pays only over many texts.
            .kind((!kept).then_some(AhoCorasickKind::ContiguousNFA))
            .build(&list)
            .ok()?;
        let longest = list.iter().map(|p| p.len()).max().unwrap_or(0);
        let mut first = [false; 256];
        for byte in list.iter().filter_map(|p| p.first()) {
            first[usize::from(*byte)] = true;
            // Most bytes begin no pattern: this table lets `find_open` pass them over.
            first[usize::from(byte.to_ascii_uppercase())] = true;
        }
        Some(Patterns { list, automaton, longest, first })
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }

    fn is_at(&self, pattern: usize, text: &[u8]) -> bool {
        let pattern = &self.list[pattern];
        text.get(..pattern.len()).is_some_and(|head| head.eq_ignore_ascii_case(pattern))
    }
}

/// Replaces strings in one text.
pub struct Replacer {
    patterns: Arc<Patterns>,
    /// What takes the place of each pattern.
    values: Box<[Vec<u8>]>,
    /// Each pattern is replaced once: these have been.
    used: Option<Box<[bool]>>,
    /// The end of the text so far that may be the beginning of a match.
    kept: Vec<u8>,
}

/// What becomes of a piece.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on as it is.
    Same,
    /// What was appended to the output takes its place.
    Changed,
}

/// A place in the text.
enum Found {
    /// A match of this pattern.
    Match {
        at: usize,
        pattern: usize,
    },
    /// From here on the end may be the beginning of a match.
    Open {
        at: usize,
    },
    Nothing,
}

impl Replacer {
    /// `values` has one for each pattern; with `once` each pattern is replaced at its first match only.
    pub fn new(patterns: Arc<Patterns>, values: Vec<Vec<u8>>, once: bool) -> Replacer {
        let used = once.then(|| vec![false; patterns.list.len()].into());
        Replacer { patterns, values: values.into(), used, kept: Vec::new() }
    }

    /// Whether nothing will be replaced any more.
    pub fn is_over(&self) -> bool {
        self.kept.is_empty() && self.used.as_ref().is_some_and(|used| used.iter().all(|used| *used))
    }

    /// Works on the next piece.
    pub fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Outcome {
        if self.kept.is_empty() {
            // The usual piece has no match: it goes on without a copy.
            if matches!(self.find(piece, 0, false), Found::Nothing) {
                return Outcome::Same;
            }
            let end = self.replace(piece, false, out);
            self.kept.extend_from_slice(&piece[end..]);
        } else {
            let mut text = std::mem::take(&mut self.kept);
            text.extend_from_slice(piece);
            let end = self.replace(&text, false, out);
            text.drain(..end);
            self.kept = text;
        }
        Outcome::Changed
    }

    /// The text is at its end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let text = std::mem::take(&mut self.kept);
        self.replace(&text, true, out);
    }

    /// Appends what comes of `text`; gives how much of it is decided.
    fn replace(&mut self, text: &[u8], is_end: bool, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        loop {
            match self.find(text, at, is_end) {
                Found::Match { at: start, pattern } => {
                    out.extend_from_slice(&text[at..start]);
                    out.extend_from_slice(&self.values[pattern]);
                    // Behind the match: what was put in is not searched again, so no pair of patterns can feed itself.
                    at = start + self.patterns.list[pattern].len();
                    if let Some(used) = &mut self.used {
                        used[pattern] = true;
                    }
                }
                Found::Open { at: start } => {
                    out.extend_from_slice(&text[at..start]);
                    return start;
                }
                Found::Nothing => {
                    out.extend_from_slice(&text[at..]);
                    return text.len();
                }
            }
        }
    }

    fn is_active(&self, pattern: usize) -> bool {
        self.used.as_ref().is_none_or(|used| !used[pattern])
    }

    /// The first place from `from` on where something is to be done.
    fn find(&self, text: &[u8], from: usize, is_end: bool) -> Found {
        if self.used.as_ref().is_some_and(|used| used.iter().all(|used| *used)) {
            return Found::Nothing;
        }
        let found = self.find_match(text, from);
        if is_end {
            return found.map_or(Found::Nothing, |(at, pattern)| Found::Match { at, pattern });
        }
        // An earlier or better match may still be in the making.
        // Up to and with the match's own place: there a pattern that stands earlier in the configuration may still be incomplete.
        let until = found.map_or(text.len(), |(at, _)| at + 1);
        match self.find_open(text, from, until) {
            Some((at, pattern)) if found.is_none_or(|(start, have)| at < start || pattern < have) => {
                Found::Open { at }
            }
            _ => found.map_or(Found::Nothing, |(at, pattern)| Found::Match { at, pattern }),
        }
    }

    /// The first match of a pattern that may be replaced.
    fn find_match(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let mut from = from;
        loop {
            let found = self.patterns.automaton.find(Input::new(text).range(from..))?;
            let (at, pattern) = (found.start(), found.pattern().as_usize());
            if self.is_active(pattern) {
                return Some((at, pattern));
            }
            // One that was used up hides others that begin here, or within it.
            let others = pattern + 1..self.patterns.list.len();
            let mut others = others.filter(|other| self.is_active(*other));
            if let Some(other) = others.find(|other| self.patterns.is_at(*other, &text[at..])) {
                return Some((at, other));
            }
            from = at + 1;
        }
    }

    /// The first place before `until` from which on all of the text is the beginning of a pattern, and that pattern.
    fn find_open(&self, text: &[u8], from: usize, until: usize) -> Option<(usize, usize)> {
        let from = from.max((text.len() + 1).saturating_sub(self.patterns.longest));
        for at in from..until.min(text.len()) {
            if !self.patterns.first[usize::from(text[at])] {
                continue;
            }
            let tail = &text[at..];
            let begins = |pattern: &[u8]| {
                pattern.len() > tail.len() && pattern[..tail.len()].eq_ignore_ascii_case(tail)
            };
            let mut list = self.patterns.list.iter().enumerate();
            if let Some((pattern, _)) = list.find(|(index, p)| self.is_active(*index) && begins(p)) {
                return Some((at, pattern));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replacer(pairs: &[(&str, &str)], once: bool) -> Replacer {
        let patterns = pairs.iter().map(|(pattern, _)| pattern.as_bytes().to_vec()).collect();
        let values = pairs.iter().map(|(_, value)| value.as_bytes().to_vec()).collect();
        Replacer::new(Arc::new(Patterns::new(patterns, true).unwrap()), values, once)
    }

    fn run<'t>(mut replacer: Replacer, pieces: impl IntoIterator<Item = &'t [u8]>) -> String {
        let mut out = Vec::new();
        for piece in pieces {
            if replacer.feed(piece, &mut out) == Outcome::Same {
                out.extend_from_slice(piece);
            }
            assert!(replacer.kept.len() < replacer.patterns.longest);
        }
        replacer.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// The result must not depend on where the text is cut.
    #[track_caller]
    fn check(pairs: &[(&str, &str)], once: bool, text: &str, want: &str) {
        let text = text.as_bytes();
        assert_eq!(run(replacer(pairs, once), text.chunks(1)), want, "byte by byte");
        for cut in 0..=text.len() {
            let got = run(replacer(pairs, once), [&text[..cut], &text[cut..]]);
            assert_eq!(got, want, "cut at {cut}");
        }
    }

    #[test]
    fn the_first_match_counts() {
        check(&[("foo", "bar")], false, "FoOfo", "barfo");
        check(&[("abac", "!")], false, "abaabac ababac", "aba! ab!");
        check(&[("aab", "!")], false, "aaaab", "aa!");
        check(&[("aabb", "+"), ("aaabb", "-")], false, "aaabbaabb", "-+");
        check(&[("ab", "1"), ("abcd", "2")], false, "abcd", "1cd");
        check(&[("abcd", "2"), ("ab", "1")], false, "abcd abc", "2 1c");
        check(&[("bc", "1"), ("abd", "2")], false, "abc abd", "a1 2");
        check(&[("x", "")], false, "axbx", "ab");
        check(&[("a", "aa")], false, "aaa", "aaaaaa");
    }

    #[test]
    fn once_is_once_for_each_pattern() {
        check(&[("a", "1")], true, "aab", "1ab");
        check(&[("a", "1"), ("b", "2")], true, "abab", "12ab");
        check(&[("abc", "1"), ("b", "2")], true, "abcabcabc", "1a2cabc");
        check(&[("ab", "1"), ("ab", "2"), ("a", "3")], true, "abababab", "123bab");
    }

    #[test]
    fn only_beginnings_of_matches_are_kept() {
        let mut replacer = replacer(&[("ab", "AB")], false);
        let mut out = Vec::new();
        assert_eq!(replacer.feed(b"xyz", &mut out), Outcome::Same);
        assert_eq!(replacer.feed(b"xya", &mut out), Outcome::Changed);
        assert_eq!(out, b"xy");
        assert!(!replacer.is_over());
    }

    #[test]
    fn what_is_used_up_lets_the_text_pass() {
        let mut replacer = replacer(&[("ab", "1")], true);
        let mut out = Vec::new();
        replacer.feed(b"xaba", &mut out);
        assert!(replacer.is_over());
        assert_eq!(replacer.feed(b"b", &mut out), Outcome::Same);
    }
}
