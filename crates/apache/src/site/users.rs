//! `UserDir`: `/~NAME` leads to a folder of that user.

use crate::escape;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where the machine's users are, with their folders.
pub(super) const ACCOUNTS: &str = "/etc/passwd";

/// What lines of one host say.
#[derive(Default)]
pub(super) struct Users {
    /// The folder, with its line.
    folder: Option<(u32, String)>,
    /// `UserDir disabled`: only those that are named have a folder.
    is_closed: bool,
    /// `UserDir disabled NAME …`.
    closed: BTreeSet<String>,
    /// `UserDir enabled NAME …`.
    open: BTreeSet<String>,
}

/// Where paths of users lead: a pattern of the URI's path, and a target with its groups.
pub(super) type Lead = (String, String);

impl Users {
    /// Reads a line.
    pub fn read(&mut self, words: &[String], line: u32) -> Result<(), String> {
        let [first, names @ ..] = words else {
            return Err("takes a folder, or disabled, or enabled with names".into());
        };
        let names = names.iter().cloned();
        match first.to_ascii_lowercase().as_str() {
            "disabled" | "disable" if names.len() == 0 => self.is_closed = true,
            "disabled" | "disable" => self.closed.extend(names),
            "enabled" | "enable" if names.len() == 0 => return Err("\"enabled\" takes names of users".into()),
            "enabled" | "enable" => self.open.extend(names),
            _ if names.len() > 0 => return Err("Brisk looks for one folder only: remove the others".into()),
            _ if first.contains(':') => {
                return Err(
                    "Brisk does not lead users to other hosts: write RedirectMatch ^/~(.*)$ URL$1".into()
                );
            }
            _ if first.contains('$') => return Err("the folder has a dollar sign".into()),
            _ => self.folder = Some((line, first.clone())),
        }
        Ok(())
    }

    /// Whether a user's folder is shown, in a host inside of what `outer` holds for.
    fn shows(&self, outer: &Users, name: &str) -> bool {
        let has = |of: fn(&Users) -> &BTreeSet<String>| of(self).contains(name) || of(outer).contains(name);
        let is_closed = self.is_closed || outer.is_closed;
        !has(|users| &users.closed) && (!is_closed || has(|users| &users.open))
    }

    /// The names that a folder of all users is for, as a part of a pattern.
    fn names(&self, outer: &Users) -> Option<String> {
        let listed = |names: &mut dyn Iterator<Item = &String>| {
            let names: BTreeSet<String> = names.map(|name| escape::pattern(name)).collect();
            names.into_iter().collect::<Vec<_>>().join("|")
        };
        if self.is_closed || outer.is_closed {
            let mut open = self.open.iter().chain(&outer.open).filter(|name| self.shows(outer, name));
            let open = listed(&mut open);
            return (!open.is_empty()).then_some(open);
        }
        let closed = listed(&mut self.closed.iter().chain(&outer.closed));
        Some(if closed.is_empty() { "[^/]+".into() } else { format!("(?!(?:{closed})(?:/|$))[^/]+") })
    }

    /// The line of the folder that holds in a host; `outer` is what holds outside of hosts.
    pub fn line(&self, outer: &Users) -> Option<u32> {
        self.folder.as_ref().or(outer.folder.as_ref()).map(|(line, _)| *line)
    }

    /// Where the users' paths lead in a host. `accounts` reads the list of users, when the files are read.
    ///
    /// # Errors
    /// Why the list cannot be read.
    pub fn leads(
        &self,
        outer: &Users,
        accounts: &dyn Fn() -> Result<Arc<[u8]>, String>,
    ) -> Result<Vec<Lead>, String> {
        let Some((_, folder)) = self.folder.as_ref().or(outer.folder.as_ref()) else {
            return Ok(Vec::new());
        };
        let lead = |names: &str, to: String| (format!("^/~({names})(/.*)?$"), to);
        if folder.starts_with('/') {
            let to = match folder.split_once('*') {
                Some((before, behind)) => format!("{before}$1{behind}$2"),
                None => format!("{}/$1$2", folder.trim_end_matches('/')),
            };
            return Ok(self.names(outer).map(|names| lead(&names, to)).into_iter().collect());
        }
        let mut by_parent: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut others = Vec::new();
        for (name, home) in homes(&accounts()?).filter(|(name, _)| self.shows(outer, name)) {
            match home.strip_suffix(name.as_str()).and_then(|parent| parent.strip_suffix('/')) {
                Some(parent) => by_parent.entry(parent.into()).or_default().push(escape::pattern(&name)),
                None => others.push(lead(&escape::pattern(&name), format!("{home}/{folder}$2"))),
            }
        }
        let of_parent = |(parent, names): (String, Vec<String>)| {
            lead(&names.join("|"), format!("{parent}/$1/{folder}$2"))
        };
        Ok(by_parent.into_iter().map(of_parent).chain(others).collect())
    }
}

/// Users with their folders. Those with a dollar sign in either have none: it would begin a variable.
fn homes(text: &[u8]) -> impl Iterator<Item = (String, String)> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let fields: Vec<&str> = std::str::from_utf8(line).ok()?.split(':').collect();
        let (name, home) = (*fields.first()?, fields.get(5)?.trim_end_matches('/'));
        let is_plain = !name.is_empty() && home.starts_with('/') && !line.contains(&b'$');
        is_plain.then(|| (name.to_string(), home.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(lines: &[&str]) -> Users {
        let mut users = Users::default();
        for line in lines {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            users.read(&words, 1).unwrap();
        }
        users
    }

    #[test]
    fn some_users_have_no_folder() {
        let check = |outer: &[&str], own: &[&str], shown: &[&str], hidden: &[&str]| {
            let (outer, own) = (users(outer), users(own));
            for name in shown {
                assert!(own.shows(&outer, name), "{name}");
            }
            for name in hidden {
                assert!(!own.shows(&outer, name), "{name}");
            }
        };
        check(&["public_html", "disabled root"], &[], &["ann"], &["root"]);
        check(&["public_html", "disabled"], &["enabled ann root"], &["ann", "root"], &["bob"]);
        check(&["disabled root"], &["disabled bob", "enabled root"], &["ann"], &["root", "bob"]);
    }

    #[test]
    fn names_of_all_users_are_a_pattern() {
        let names = |lines: &[&str]| users(lines).names(&Users::default());
        assert_eq!(names(&["/home/*/www"]).as_deref(), Some("[^/]+"));
        assert_eq!(names(&["disabled root a.b"]).as_deref(), Some("(?!(?:a\\.b|root)(?:/|$))[^/]+"));
        assert_eq!(names(&["disabled", "enabled b a"]).as_deref(), Some("a|b"));
        assert_eq!(names(&["disabled"]), None);
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        for (line, wanted) in [
            ("enabled", "takes names"),
            ("public_html www", "one folder only"),
            ("http://example.org/*", "RedirectMatch"),
            ("/home/$x", "dollar sign"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            let got = Users::default().read(&words, 1).unwrap_err();
            assert!(got.contains(wanted), "{line}: {got}");
        }
    }

    #[test]
    fn accounts_are_read() {
        let text = b"root:x:0:0:root:/root:/bin/bash\nann:x:1:1:Ann,,,:/home/ann/:/bin/sh\nnone\nbad$:x:1:1::/home/x:\n";
        let got: Vec<_> = homes(text).collect();
        assert_eq!(got, [("root".into(), "/root".into()), ("ann".into(), "/home/ann".to_string())]);
    }
}
