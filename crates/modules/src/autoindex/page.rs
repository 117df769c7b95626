//! `autoindex_format page`: a listing for people, in one page without anything from elsewhere.
//!
//! Sorting is done by links, so that it works without scripts; the script only searches. Both the style and the script
//! are constant, and the page's policy allows these two by their hashes and nothing else.

use super::render::{Entry, Kind};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use brisk_http::date::Civil;
use brisk_http::uri::{Escape, escape, escape_html};
use brisk_server::vars::builtin;
use std::cmp::Ordering;
use std::io::Write as _;
use std::sync::LazyLock;

// In the page itself: it needs no second request, and no location that would have to be served.
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page's `Content-Security-Policy`.
pub static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        // A file's name is written by anyone who may upload: should one get through the escaping, the browser
        // still runs nothing.
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
});

/// What entries are sorted by. Folders come first in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Name,
    Size,
    Date,
}

/// The columns: what they sort by, the word for it in the address, the title, the cell's class.
const COLUMNS: [(Key, &str, &str, &str); 3] = [
    (Key::Name, "name", "Name", "n"),
    (Key::Size, "size", "Size", "s"),
    (Key::Date, "date", "Modified", "d"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorting {
    key: Key,
    descending: bool,
}

impl Sorting {
    /// As the page's own links ask for it: `?sort=size&order=desc`.
    pub fn of(args: &[u8]) -> Sorting {
        // What is no word of ours sorts by name: arguments are a stranger's.
        let wanted = builtin::find_arg(args, b"sort").unwrap_or_default();
        let column = COLUMNS.iter().find(|(_, word, ..)| word.as_bytes() == wanted);
        Sorting {
            key: column.map_or(Key::Name, |(key, ..)| *key),
            descending: builtin::find_arg(args, b"order") == Some(b"desc"),
        }
    }

    fn compare(self, (a_name, a): &Named<'_>, (b_name, b): &Named<'_>) -> Ordering {
        let folders_first = (a.kind != Kind::Directory).cmp(&(b.kind != Kind::Directory));
        // Names that are equal but for case or zeros are told apart by their bytes, so that the order is total.
        let by_name = || a_name.cmp(b_name).then_with(|| a.name.cmp(&b.name));
        let by_key = match self.key {
            Key::Name => by_name(),
            // The size of a folder's own file says nothing.
            Key::Size if a.kind == Kind::Directory && b.kind == Kind::Directory => Ordering::Equal,
            Key::Size => a.size.cmp(&b.size),
            Key::Date => a.modified.cmp(&b.modified),
        };
        let by_key = if self.descending { by_key.reverse() } else { by_key };
        // Folders first in both directions, equal sizes and dates by name.
        folders_first.then(by_key).then_with(by_name)
    }
}

/// A name as people sort it: without regard to case, and `page-2` before `page-10`.
type Natural = Vec<(u128, String)>;

/// An entry with its name as it is sorted: made once for each, not for each comparison.
type Named<'a> = (Natural, &'a Entry);

fn natural(name: &[u8]) -> Natural {
    let text = String::from_utf8_lossy(name).to_lowercase();
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[word..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| word + end);
        // What comes first decides: a part is its words, then the number behind them.
        parts.push((0, rest[..word].to_string()));
        // More digits than fit are all equally large; the bytes decide then.
        // As pairs of number and words, since a list compares its elements in turn: words between numbers.
        parts.push((rest[word..digits].parse().unwrap_or(u128::MAX), String::new()));
        rest = &rest[digits..];
    }
    parts
}

/// How such a page is written.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub sorting: Sorting,
    /// Seconds east of UTC for the times.
    pub utc_offset: i64,
}

impl Page {
    /// The page of the directory at `uri`, whose listing leaves `left_out` entries out.
    pub fn render(&self, uri: &[u8], entries: &[Entry], left_out: usize) -> Vec<u8> {
        let mut sorted: Vec<Named<'_>> = entries.iter().map(|entry| (natural(&entry.name), entry)).collect();
        sorted.sort_by(|a, b| self.sorting.compare(a, b));
        // Style, script and symbols, and what a row comes to: the page is not copied while it grows.
        let mut out = Vec::with_capacity(8192 + entries.len() * 320);
        let title = shown(uri);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Index of {title}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<style>{STYLE}</style>\n</head>\n<body>\n{SYMBOLS}<header>\n"
        );
        crumbs(uri, &mut out);
        out.extend_from_slice(
            b"<input type=\"search\" hidden placeholder=\"Search this folder\" aria-label=\"Search this folder\" \
              autocomplete=\"off\">\n</header>\n<main>\n<table>\n<thead><tr>",
        );
        self.head(&mut out);
        out.extend_from_slice(b"</tr></thead>\n<tbody>\n");
        if uri != b"/" {
            let up = "<tr><td class=\"n\"><a href=\"../\"><svg class=\"f\" aria-hidden=\"true\"><use href=\"#up\"/></svg>\
                      Parent folder</a></td><td class=\"s\"></td><td class=\"d\"></td></tr>\n";
            out.extend_from_slice(up.as_bytes());
        }
        sorted.iter().for_each(|(_, entry)| self.row(entry, &mut out));
        out.extend_from_slice(
            b"</tbody>\n</table>\n<p class=\"none\" hidden>No name matches.</p>\n</main>\n",
        );
        let _ = write!(
            out,
            "<footer>{}</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
            summary(entries, left_out)
        );
        out
    }

    /// The titles, each a link that sorts by its column, the other way round if it already is.
    fn head(&self, out: &mut Vec<u8>) {
        for (key, word, title, class) in COLUMNS {
            let current = self.sorting.key == key;
            // The link of the column that sorts turns it round; of another it begins ascending.
            let turned = current && !self.sorting.descending;
            let (sort, arrow) = match (current, self.sorting.descending) {
                (false, _) => ("", ""),
                // The arrow is for eyes, `aria-sort` for those who are read to.
                (true, false) => (" aria-sort=\"ascending\"", " ↑"),
                (true, true) => (" aria-sort=\"descending\"", " ↓"),
            };
            let order = if turned { "&amp;order=desc" } else { "" };
            let _ = write!(
                out,
                "<th class=\"{class}\" scope=\"col\"{sort}><a href=\"?sort={word}{order}\">{title}{arrow}</a></th>"
            );
        }
    }

    fn row(&self, entry: &Entry, out: &mut Vec<u8>) {
        // Escaped once, for the attribute and for the text.
        let name = shown(&entry.name);
        let (slash, icon, class) = match entry.kind {
            Kind::Directory => ("/", "folder", " class=\"f\""),
            Kind::File => ("", icon(&entry.name), ""),
            Kind::Other => ("", "other", ""),
        };
        let _ = write!(out, "<tr data-name=\"{name}\"><td class=\"n\"><a href=\"");
        // The bytes of the name, not its shown form: the link must lead to the file whatever its encoding.
        escape(Escape::UriComponent, &entry.name, out);
        let size = if entry.kind == Kind::File { size(entry.size) } else { String::new() };
        let t = Civil::from_unix(entry.modified + self.utc_offset);
        let (year, month, day, hour, minute) = (t.year, t.month, t.day, t.hour, t.minute);
        let _ = writeln!(
            out,
            // `bdi`: a name in Arabic or Hebrew must not turn the rest of its line round.
            "{slash}\"><svg{class} aria-hidden=\"true\"><use href=\"#{icon}\"/></svg><bdi>{name}{slash}</bdi></a></td>\
             <td class=\"s\" title=\"{} bytes\">{size}</td>\
             <td class=\"d\">{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}</td></tr>",
            entry.size
        );
    }
}

fn summary(entries: &[Entry], left_out: usize) -> String {
    let folders = entries.iter().filter(|entry| entry.kind == Kind::Directory).count();
    let files = entries.len() - folders;
    let bytes =
        // Saturating: sparse files may claim any size.
        entries.iter().filter(|e| e.kind == Kind::File).fold(0, |sum: u64, e| sum.saturating_add(e.size));
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let out = match entries.len() {
        0 => String::from("This folder is empty."),
        _ => {
            let folders = (folders > 0).then(|| counted(folders, "folder"));
            let files = (files > 0).then(|| counted(files, "file") + ", " + &size(bytes));
            folders.into_iter().chain(files).collect::<Vec<_>>().join(", ") + "."
        }
    };
    let left_out = match left_out {
        0 => return out,
        1 => String::from("1 entry is"),
        count => format!("{count} entries are"),
    };
    format!("{out} {left_out} not shown: backups, databases, keys and sources of programs are not given out.")
}

/// The way from the root to here; the last step is no link.
fn crumbs(uri: &[u8], out: &mut Vec<u8>) {
    let steps: Vec<&[u8]> = uri.split(|&b| b == b'/').filter(|step| !step.is_empty()).collect();
    out.extend_from_slice(b"<h1>");
    if steps.is_empty() {
        out.extend_from_slice(b"Home");
    } else {
        // Relative, so that the page works behind a prefix that a proxy has cut off.
        let _ = write!(out, "<a href=\"{}\">Home</a>", "../".repeat(steps.len()));
    }
    for (at, step) in steps.iter().enumerate() {
        out.extend_from_slice(b"<i>/</i>");
        let (name, above) = (shown(step), steps.len() - 1 - at);
        let _ = match above {
            0 => write!(out, "<bdi>{name}</bdi>"),
            _ => write!(out, "<a href=\"{}\"><bdi>{name}</bdi></a>", "../".repeat(above)),
        };
    }
    out.extend_from_slice(b"</h1>\n");
}

/// A name for people: what is no text is replaced, and nothing in it is markup.
fn shown(name: &[u8]) -> String {
    let text: String =
        String::from_utf8_lossy(name).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let mut out = Vec::new();
    escape_html(text.as_bytes(), &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// A size in bytes, or with three digits in kB, MB …, as file managers show it.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    // What would be rounded to 1000 is one of the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 99.95);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// The symbol of a file, by its extension.
fn icon(name: &[u8]) -> &'static str {
    const KINDS: [(&str, &[&str]); 5] = [
        ("image", &["jpg", "jpeg", "png", "gif", "webp", "avif", "svg", "ico", "bmp", "tif", "tiff", "heic"]),
        (
            "media",
            &["mp3", "ogg", "oga", "opus", "flac", "wav", "m4a", "mp4", "webm", "mkv", "mov", "avi", "ogv"],
        ),
        (
            "archive",
            &["zip", "gz", "xz", "bz2", "zst", "tar", "tgz", "7z", "rar", "deb", "rpm", "jar", "iso"],
        ),
        (
            "text",
            &["txt", "md", "rst", "pdf", "html", "htm", "csv", "log", "doc", "docx", "odt", "epub", "tex"],
        ),
        (
            "code",
            &[
                "js", "mjs", "ts", "css", "json", "xml", "yml", "yaml", "toml", "py", "rs", "c", "h", "sh",
                "go",
            ],
        ),
    ];
    // Of the last dot: `a.tar.gz` is an archive by its `gz`.
    let extension = name.rsplit(|&b| b == b'.').next().unwrap_or_default();
    let is_it = |list: &[&str]| list.iter().any(|have| have.as_bytes().eq_ignore_ascii_case(extension));
    KINDS.iter().find(|(_, list)| is_it(list)).map_or("file", |(icon, _)| icon)
}

/// The symbols, each drawn once and used by reference.
const SYMBOLS: &str = r#"<svg hidden>
<symbol id="folder" viewBox="0 0 24 24"><path d="M3 6.5A1.5 1.5 0 0 1 4.5 5H9l2 2.5h8.5A1.5 1.5 0 0 1 21 9v8.5a1.5 1.5 0 0 1-1.5 1.5h-15A1.5 1.5 0 0 1 3 17.5z"/></symbol>
<symbol id="up" viewBox="0 0 24 24"><path d="M20 19h-8a4 4 0 0 1-4-4V5M4 9l4-4 4 4"/></symbol>
<symbol id="file" viewBox="0 0 24 24"><path d="M6 3h8l5 5v13H6zM14 3v5h5"/></symbol>
<symbol id="other" viewBox="0 0 24 24"><path d="M6 3h8l5 5v13H6zM10 12h5M10 16h5"/></symbol>
<symbol id="text" viewBox="0 0 24 24"><path d="M6 3h8l5 5v13H6zM14 3v5h5M9 12h6M9 15h6M9 18h4"/></symbol>
<symbol id="code" viewBox="0 0 24 24"><path d="M6 3h8l5 5v13H6zM14 3v5h5M10.5 12L8.5 14.5 10.5 17M14.5 12l2 2.5-2 2.5"/></symbol>
<symbol id="image" viewBox="0 0 24 24"><path d="M4 5h16v14H4zM4 16l5-5 4 4 2.5-2.5L20 17"/><circle cx="15.5" cy="9" r="1.5"/></symbol>
<symbol id="media" viewBox="0 0 24 24"><path d="M4 5h16v14H4zM10 9v6l5-3z"/></symbol>
<symbol id="archive" viewBox="0 0 24 24"><path d="M4 4h16v5H4zM5 9h14v11H5zM10 13h4"/></symbol>
</svg>
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: impl AsRef<[u8]>, kind: Kind, size: u64, modified: i64) -> Entry {
        Entry { name: name.as_ref().to_vec(), kind, modified, size }
    }

    fn page(uri: &str, args: &str, entries: &[Entry], left_out: usize) -> String {
        let page = Page { sorting: Sorting::of(args.as_bytes()), utc_offset: 0 };
        String::from_utf8(page.render(uri.as_bytes(), entries, left_out)).unwrap()
    }

    #[test]
    fn entries_are_sorted_as_asked_for() {
        let list = [
            entry("b.txt", Kind::File, 5, 30),
            entry("A.txt", Kind::File, 9, 10),
            entry("z", Kind::Directory, 4096, 20),
            entry("c", Kind::File, 5, 40),
        ];
        let check = |args: &str, want: &[&str]| {
            let html = page("/", args, &list, 0);
            let names: Vec<&str> =
                html.split("data-name=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
            assert_eq!(names, want, "{args}");
        };
        check("", &["z", "A.txt", "b.txt", "c"]);
        check("sort=name&order=desc", &["z", "c", "b.txt", "A.txt"]);
        check("sort=size", &["z", "b.txt", "c", "A.txt"]);
        check("sort=size&order=desc", &["z", "A.txt", "b.txt", "c"]);
        check("sort=date", &["z", "A.txt", "b.txt", "c"]);
        check("sort=date&order=desc", &["z", "c", "b.txt", "A.txt"]);
        check("sort=%22%3E&order=x", &["z", "A.txt", "b.txt", "c"]);
    }

    #[test]
    fn numbers_in_names_count() {
        let mut names = [
            "page-10",
            "Page-2",
            "page",
            "page-2b",
            "10",
            "9",
            "\u{e4}",
            "page-99999999999999999999999999999999999999999",
        ];
        names.sort_by_key(|name| natural(name.as_bytes()));
        let want = [
            "9",
            "10",
            "page",
            "Page-2",
            "page-2b",
            "page-10",
            "page-99999999999999999999999999999999999999999",
            "\u{e4}",
        ];
        assert_eq!(names, want);
    }

    #[test]
    fn a_second_click_turns_the_order() {
        let html = page("/", "sort=size", &[], 0);
        assert!(
            html.contains("aria-sort=\"ascending\"><a href=\"?sort=size&amp;order=desc\">Size ↑</a>"),
            "{html}"
        );
        let html = page("/", "sort=size&order=desc", &[], 0);
        assert!(html.contains("aria-sort=\"descending\"><a href=\"?sort=size\">Size ↓</a>"), "{html}");
    }

    /// No name is markup, leaves its attribute, or is a link to elsewhere.
    #[test]
    fn names_are_only_names() {
        let names = [
            "<script>alert(1)</script>",
            "\" onmouseover=\"alert(1)",
            "javascript:alert(1)",
            "'><img src=x onerror=alert(1)>",
            "a\u{202e}gpj.exe",
            "line\nbreak\u{1b}[31m",
            "</bdi></style>",
        ];
        let list: Vec<Entry> = names.iter().map(|name| entry(name, Kind::File, 1, 0)).collect();
        let html = page("/<b>\"x\"/", "", &list, 0);
        let body = html.replace(SCRIPT, "").replace(STYLE, "");
        assert_eq!(body.matches("<script>").count(), 1, "{body}");
        assert_eq!(body.matches("</style>").count(), 1, "{body}");
        for wrong in ["<img", "<b>", "\" onmouseover", "href=\"javascript:", "\u{1b}", "line\nbreak"] {
            assert!(!body.contains(wrong), "{wrong:?} in {body}");
        }
        assert!(body.contains("href=\"javascript%3Aalert%281%29\""), "{body}");
        assert!(body.contains("<bdi>a\u{202e}gpj.exe</bdi>"), "{body}");
        assert!(body.contains("<title>Index of /&lt;b&gt;&quot;x&quot;/</title>"), "{body}");
        let strange = page("/", "", &[entry([b'a', 0xff], Kind::File, 1, 0)], 0);
        assert!(strange.contains("href=\"a%FF\"") && strange.contains("a\u{fffd}"), "{strange}");
    }

    #[test]
    fn the_way_up_is_shown() {
        let html = page("/a/b c/", "", &[], 0);
        let crumbs = "<h1><a href=\"../../\">Home</a><i>/</i><a href=\"../\"><bdi>a</bdi></a><i>/</i><bdi>b c</bdi></h1>";
        assert!(html.contains(crumbs), "{html}");
        assert!(html.contains("Parent folder") && !page("/", "", &[], 0).contains("Parent folder"));
    }

    #[test]
    fn totals_and_what_is_left_out() {
        let list = [entry("d", Kind::Directory, 4096, 0), entry("f", Kind::File, 1500, 0)];
        assert!(page("/", "", &list, 0).contains("<footer>1 folder, 1 file, 1.5 kB.</footer>"));
        let html = page("/", "", &[], 1);
        assert!(html.contains("<footer>This folder is empty. 1 entry is not shown: "), "{html}");
        assert!(page("/", "", &list, 2).contains(" 2 entries are not shown: "));
    }

    #[test]
    fn sizes_have_three_digits() {
        let check = |bytes: u64, want: &str| assert_eq!(size(bytes), want, "{bytes}");
        check(0, "0 B");
        check(999, "999 B");
        check(1000, "1.0 kB");
        check(99_949, "99.9 kB");
        check(99_950, "100 kB");
        check(999_499, "999 kB");
        check(999_500, "1.0 MB");
        check(u64::MAX, "18.4 EB");
    }

    #[test]
    fn the_policy_names_what_the_page_holds() {
        let html = page("/", "", &[], 0);
        let between = |from: &str, to: &str| html.split_once(from).unwrap().1.split_once(to).unwrap().0;
        let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, text.as_bytes())));
        assert!(
            POLICY.contains(&format!("style-src {};", hash(between("<style>", "</style>")))),
            "{}",
            *POLICY
        );
        assert!(
            POLICY.contains(&format!("script-src {};", hash(between("<script>", "</script>")))),
            "{}",
            *POLICY
        );
        // What the policy would not allow is not written.
        assert!(
            !html.contains(" style=") && !html.contains("http://") && !html.contains("https://"),
            "{html}"
        );
    }
}
