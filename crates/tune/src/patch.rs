//! What was changed in a file, as a patch in the unified format: `patch -d / -p1` applies it, since names are whole paths, which `patch` takes from no other folder.

use std::fmt::Write as _;
use std::ops::Range;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Lines that are replaced by others; places count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Of the old text; empty where lines are added.
    pub old: Range<usize>,
    /// Of the new one; empty where lines are removed.
    pub new: Range<usize>,
}

/// The lines of a text, each with its end.
pub fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// What differs, in order: the fewest lines possible.
pub fn changes(old: &[&[u8]], new: &[&[u8]]) -> Vec<Change> {
    let head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let most = old.len().min(new.len()) - head;
    let tail = (0..most).take_while(|back| old[old.len() - 1 - back] == new[new.len() - 1 - back]).count();
    let (a, b) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    // The length of the longest common subsequence of what is left from each place on.
    let width = b.len() + 1;
    let mut common = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * width + j] = if a[i] == b[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let mut found: Vec<Change> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let removes = j == b.len() || i < a.len() && common[(i + 1) * width + j] >= common[i * width + j + 1];
        let (from, to) = (head + i, head + j);
        if removes {
            i += 1;
        } else {
            j += 1;
        }
        match found.last_mut() {
            Some(last) if last.old.end == from && last.new.end == to => {
                (last.old.end, last.new.end) = (head + i, head + j);
            }
            _ => found.push(Change { old: from..head + i, new: to..head + j }),
        }
    }
    found
}

/// The patch; empty where nothing differs. Bytes that are not UTF-8 are shown as such.
pub fn unified(name: &str, old: &[u8], new: &[u8]) -> String {
    let (old, new) = (lines(old), lines(new));
    let all = changes(&old, &new);
    let mut out = String::new();
    let mut rest = &all[..];
    while let Some(first) = rest.first() {
        // Changes whose surroundings touch are one hunk.
        let near = |pair: &[Change]| pair[1].old.start - pair[0].old.end <= 2 * CONTEXT;
        let count = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
        let (hunk, others) = rest.split_at(count);
        let last = &hunk[count - 1];
        if out.is_empty() {
            let _ = write!(out, "--- {name}\n+++ {name}\n");
        }
        let lead = first.old.start.min(CONTEXT);
        let trail = (old.len() - last.old.end).min(CONTEXT);
        let old_span = first.old.start - lead..last.old.end + trail;
        let new_span = first.new.start - lead..last.new.end + trail;
        let _ = writeln!(out, "@@ -{} +{} @@", span(&old_span), span(&new_span));
        let mut at = old_span.start;
        for change in hunk {
            old[at..change.old.start].iter().for_each(|line| put(&mut out, ' ', line));
            old[change.old.clone()].iter().for_each(|line| put(&mut out, '-', line));
            new[change.new.clone()].iter().for_each(|line| put(&mut out, '+', line));
            at = change.old.end;
        }
        old[at..old_span.end].iter().for_each(|line| put(&mut out, ' ', line));
        rest = others;
    }
    out
}

/// Lines count from 1; of none, the one before is named.
fn span(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn put(out: &mut String, mark: char, line: &[u8]) {
    out.push(mark);
    let text = String::from_utf8_lossy(line);
    out.push_str(&text);
    if !text.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changed_is_no_patch() {
        assert_eq!(unified("a", b"x\ny\n", b"x\ny\n"), "");
        assert_eq!(unified("a", b"", b""), "");
    }

    #[test]
    fn one_line_with_its_surroundings() {
        let old = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = b"1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        assert_eq!(
            unified("/etc/a.conf", old, new),
            "--- /etc/a.conf\n+++ /etc/a.conf\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        );
    }

    #[test]
    fn additions_removals_and_missing_ends_of_lines() {
        assert_eq!(unified("a", b"", b"x\n"), "--- a\n+++ a\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(
            unified("a", b"x\ny", b"x\n"),
            "--- a\n+++ a\n@@ -1,2 +1 @@\n x\n-y\n\\ No newline at end of file\n"
        );
        assert_eq!(unified("a", b"x\n", b"x\nz\n"), "--- a\n+++ a\n@@ -1 +1,2 @@\n x\n+z\n");
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old = (0..40).map(|line| line.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let new = old.replace("\n5\n", "\nfive\n").replace("\n30\n", "\n30\nmore\n");
        let patch = unified("a", old.as_bytes(), new.as_bytes());
        assert_eq!(patch.matches("@@ -").count(), 2, "{patch}");
        assert!(patch.contains("@@ -29,6 +29,7 @@\n 28\n 29\n 30\n+more\n 31\n 32\n 33\n"), "{patch}");
    }

    /// Random edits: putting the changes into the old text gives the new one.
    #[test]
    fn changes_lead_from_one_text_to_the_other() {
        let mut rng = brisk_statistics::rng::Rng::new(3);
        for _ in 0..300 {
            let mut text =
                || -> Vec<u8> { (0..rng.below(12)).flat_map(|_| [b"abc"[rng.below(3)], b'\n']).collect() };
            let (old, new) = (text(), text());
            let (old, new) = (lines(&old), lines(&new));
            let (mut made, mut at) = (Vec::new(), 0);
            for change in changes(&old, &new) {
                made.extend_from_slice(&old[at..change.old.start]);
                made.extend_from_slice(&new[change.new.clone()]);
                at = change.old.end;
            }
            made.extend_from_slice(&old[at..]);
            assert_eq!(made, new);
        }
    }
}
