//! The list of names, and the judgement of a URI by it.
//!
//! Case does not count. An extension is looked for behind what makes a copy of a file: `dump.sql.gz`, `dump.sql.2`,
//! `.bak2`, `x.db-wal`.

/// Why a name is not given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is as if it were not there.
    Private,
    /// It is there, and would run on another server: giving it out would show its source.
    Program,
}

/// Whole names of files and folders.
const NAMES: &[&str] = &[
    // Version control and what other systems leave in folders; those with a dot are hidden anyway.
    "CVS",
    "RCS",
    "SCCS",
    "_darcs",
    "__MACOSX",
    "Thumbs.db",
    "desktop.ini",
    // Keys and passwords.
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "htpasswd",
    "credentials",
    "credentials.json",
    "secrets.json",
    "secrets.yml",
    "secrets.yaml",
    "docker-compose.yml",
    "docker-compose.yaml",
    "compose.yml",
    "compose.yaml",
    "web.config",
];

/// Last extensions.
const PRIVATE: &[&str] = &[
    // Editors and cautious people.
    "bak", "bkp", "backup", "old", "orig", "save", "swp", "swo", "swn", "tmp", "rej",
    // Databases and dumps.
    "sql", "sqlite", "db", "mdb", "accdb", "dump", "pgdump", "rdb", // Keys and passwords.
    "env", "key", "pem", "p12", "pfx", "jks", "keystore", "kdbx", "ppk", "ovpn", "tfstate", "tfvars",
];

/// Last extensions of programs.
const PROGRAMS: &[&str] = &[
    "inc", "asp", "aspx", "asax", "ascx", "ashx", "asmx", "cshtml", "vbhtml", "jsp", "jspx", "jspf", "cfm",
    "cfc", "cgi", "fcgi", "pl", "psp", "rhtml", "erb",
];

/// PHP, also with a version (`php5`). It counts wherever it stands in a name: `config.php.txt`, `config.php_old`.
const PHP: &[&str] = &["php", "phps", "phtml", "phar", "pht"];

/// Folders of programs: nothing in them is given out.
const PROGRAM_FOLDERS: &[&str] = &["cgi-bin", "fcgi-bin"];

/// Extensions that say how the file before them was packed.
const PACKED: &[&str] =
    &["gz", "bz2", "xz", "zst", "br", "lz4", "zip", "7z", "rar", "tar", "tgz", "gpg", "asc", "enc"];

/// Why what a URI names is not given out; `None`: it may be. `uri` is decoded and begins with a slash.
pub fn judge(uri: &[u8]) -> Option<Why> {
    let mut segments = uri.split(|&b| b == b'/').filter(|segment| !segment.is_empty()).enumerate();
    segments.find_map(|(depth, segment)| {
        // RFC 8615 puts it at the root, and nowhere else.
        let is_well_known = depth == 0 && segment == b".well-known";
        if is_well_known { None } else { name(segment) }
    })
}

fn name(name: &[u8]) -> Option<Why> {
    let any = |list: &[&str], text: &[u8]| list.iter().any(|have| have.as_bytes().eq_ignore_ascii_case(text));
    let is_marked =
        // A file of an editor that is open, or that was open when it died.
        matches!(name, [b'.', ..] | [.., b'~']) || matches!(name, [b'#', .., b'#']) || any(NAMES, name);
    if is_marked {
        return Some(Why::Private);
    }
    if any(PROGRAM_FOLDERS, name) {
        return Some(Why::Program);
    }
    let mut extensions: Vec<&[u8]> = name.split(|&b| b == b'.').skip(1).collect();
    // A page that was saved from such a program is a page.
    let is_page = extensions.last().is_some_and(|last| any(&["html", "htm"], last));
    // With a version and with what people put behind it.
    let is_php = |extension: &&[u8]| any(PHP, without_number(stem(extension)));
    let has_php = !is_page && extensions.iter().any(is_php);
    while extensions.last().is_some_and(|last| any(PACKED, last) || is_number(last)) {
        extensions.pop();
    }
    let last = extensions.last().map_or(&b""[..], |last| stem(last));
    let is_one_of = |list: &[&str]| any(list, last) || any(list, without_number(last));
    // What is private is not even admitted to be there, be it a program as well.
    match () {
        () if is_one_of(PRIVATE) => Some(Why::Private),
        () if has_php || is_one_of(PROGRAMS) => Some(Why::Program),
        () => None,
    }
}

/// The letters and digits that an extension begins with: `php` of `php_old`.
fn stem(extension: &[u8]) -> &[u8] {
    let end = extension.iter().position(|b| !b.is_ascii_alphanumeric()).unwrap_or(extension.len());
    &extension[..end]
}

/// `php` of `php7`.
fn without_number(text: &[u8]) -> &[u8] {
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    &text[..text.len() - digits]
}

/// The number or the date of a copy.
fn is_number(text: &[u8]) -> bool {
    // Nothing at all, as behind a full stop at the end, is no number.
    text.iter().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'_')) && !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(want: Option<Why>, uris: &[&str]) {
        for uri in uris {
            assert_eq!(judge(uri.as_bytes()), want, "{uri}");
        }
    }

    #[test]
    fn private_names() {
        check(
            Some(Why::Private),
            &[
                "/.env",
                "/a/.env.local",
                "/.git/config",
                "/.GIT/",
                "/sub/.svn/entries",
                "/.htpasswd",
                "/.DS_Store",
                "/sub/.well-known/x",
                "/.well-known/.git/x",
                "/.well-knownx",
                "/x.bak",
                "/x.BAK2",
                "/app.js.orig",
                "/wp-config.php~",
                "/notes.txt~",
                "/x.~1~",
                "/#index.html#",
                "/.index.html.swp",
                "/index.html.swp",
                "/dump.sql",
                "/dump.sql.gz",
                "/dump.sql.2026-11-22.xz",
                "/site.sqlite3",
                "/x.db-wal",
                "/Thumbs.db",
                "/keys/server.key",
                "/id_ed25519",
                "/prod.env",
                "/CVS/Entries",
                "/wp-config.php.bak",
                "/a\n.sql",
                "/a.sql/",
            ],
        );
    }

    #[test]
    fn programs() {
        check(
            Some(Why::Program),
            &[
                "/index.php",
                "/INDEX.PHP",
                "/a.php/extra/path",
                "/a.php7",
                "/a.phtml",
                "/wp-config.php.txt",
                "/wp-config.php_old",
                "/wp-config.php.1",
                "/backup.php.tar.gz",
                "/lib/db.inc",
                "/x.aspx",
                "/x.jsp",
                "/cgi-bin/hello",
                "/x.pl",
            ],
        );
    }

    #[test]
    fn names_for_visitors() {
        check(
            None,
            &[
                "/",
                "/index.html",
                "/.well-known/acme-challenge/x",
                "/a.sql.html",
                "/saved.php.html",
                "/my.old.photo.jpg",
                "/datepicker.pl.js",
                "/main.py",
                "/id_ed25519.pub",
                "/php/manual.txt",
                "/a~b",
                "/#1.txt",
                "/x.tar.gz",
                "/1.2",
                "/a.",
                "/key",
                "/sql",
            ],
        );
    }

    #[test]
    fn the_documented_list_is_this_one() {
        let page = include_str!("../../../../docs/running.md");
        let text = page.split_once("### Files that are not given out").expect("the section").1;
        let all = [NAMES, PRIVATE, PROGRAMS, PHP, PROGRAM_FOLDERS].concat();
        for name in all {
            let words = [format!("`{name}`"), format!("`.{name}`")];
            assert!(words.iter().any(|word| text.contains(word)), "{name} is not in docs/running.md");
        }
    }
}
