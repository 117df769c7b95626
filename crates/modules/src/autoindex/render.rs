//! A listing as text.
//!
//! Byte for byte what nginx writes, since scripts read these listings; `page` is the form that may change.

use brisk_http::date::{self, Civil};
use brisk_http::uri::{Escape, escape, escape_html};
use brisk_server::text::escape_json;
use std::cmp::Ordering;
use std::io::Write as _;

/// Characters of a name that an HTML listing shows.
/// (nginx: `NGX_HTTP_AUTOINDEX_NAME_LEN`.)
const NAME_CHARS: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Directory,
    File,
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: Vec<u8>,
    pub kind: Kind,
    /// Seconds since 1970.
    pub modified: i64,
    pub size: u64,
}

impl Entry {
    /// Directories first, then by the bytes of the name.
    pub fn order(&self, other: &Entry) -> Ordering {
        let is_not_directory = |entry: &Entry| entry.kind != Kind::Directory;
        is_not_directory(self).cmp(&is_not_directory(other)).then_with(|| self.name.cmp(&other.name))
    }

    fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Directory => "directory",
            Kind::File => "file",
            Kind::Other => "other",
        }
    }
}

/// How an HTML listing is written.
#[derive(Clone, Copy, Debug)]
pub struct Html {
    /// Names are counted and cut in characters, not in bytes.
    pub utf8: bool,
    pub exact_size: bool,
    /// Seconds east of UTC for the times.
    pub utc_offset: i64,
}

impl Html {
    pub fn render(&self, uri: &[u8], entries: &[Entry]) -> Vec<u8> {
        // An entry is a line of about that length, so that a large folder is not copied while it grows.
        let mut out = Vec::with_capacity(256 + entries.len() * 160);
        out.extend_from_slice(b"<html>\r\n<head><title>Index of ");
        escape_html(uri, &mut out);
        out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
        escape_html(uri, &mut out);
        out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
        for entry in entries {
            self.line(entry, &mut out);
        }
        out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
        out
    }

    fn line(&self, entry: &Entry, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<a href=\"");
        escape(Escape::UriComponent, &entry.name, out);
        if entry.kind == Kind::Directory {
            out.push(b'/');
        }
        out.extend_from_slice(b"\">");
        let padding = self.shown_name(entry, out);
        let t = Civil::from_unix(entry.modified + self.utc_offset);
        let (day, month, year, hour, minute) = (t.day, t.month_name(), t.year, t.hour, t.minute);
        let padding = padding + 1;
        let _ = write!(out, "{:padding$}{day:02}-{month}-{year} {hour:02}:{minute:02} ", "");
        let text = match (entry.kind, self.exact_size) {
            (Kind::Directory, _) => "-".to_string(),
            (_, true) => entry.size.to_string(),
            (_, false) => rounded(entry.size),
        };
        // The widths of nginx's columns: scripts cut these lines by position.
        let width = if self.exact_size { 19 } else { 7 };
        let _ = write!(out, "{text:>width$}\r\n");
    }

    /// Appends the name, cut if it is too long, with the end of its link; gives the spaces that fill its column.
    /// In the link itself the name is whole, whatever is shown of it.
    fn shown_name(&self, entry: &Entry, out: &mut Vec<u8>) -> usize {
        let text = std::str::from_utf8(&entry.name).ok().filter(|_| self.utf8);
        let length = text.map_or(entry.name.len(), |text| text.chars().count());
        if length > NAME_CHARS {
            // Room for the two dots and the arrow.
            let keep = NAME_CHARS - 3;
            let cut = match text {
                // Never within a character: the rest would not be UTF-8.
                Some(text) => text.char_indices().nth(keep).map_or(text.len(), |(at, _)| at),
                None => keep,
            };
            escape_html(&entry.name[..cut], out);
            out.extend_from_slice(b"..&gt;</a>");
            return 0;
        }
        escape_html(&entry.name, out);
        // A name that fills the column leaves no room for it, as in nginx.
        let has_slash = entry.kind == Kind::Directory && length < NAME_CHARS;
        out.extend_from_slice(if has_slash { b"/</a>" } else { b"</a>" });
        NAME_CHARS - length - usize::from(has_slash)
    }
}

/// A size in bytes or, from 10,000 on, rounded to K, M or G.
fn rounded(size: u64) -> String {
    let (unit, letter) = match size {
        0..10_000 => return size.to_string(),
        10_000..0x10_0000 => (1 << 10, 'K'),
        0x10_0000..0x4000_0000 => (1 << 20, 'M'),
        _ => (1 << 30, 'G'),
    };
    // Half a unit counts as one, as in nginx: nothing is shown smaller than it is by more than that.
    let whole = size / unit + u64::from(size % unit >= unit / 2);
    format!("{whole}{letter}")
}

pub fn xml(entries: &[Entry]) -> Vec<u8> {
    let mut out = b"<?xml version=\"1.0\"?>\r\n<list>\r\n".to_vec();
    for entry in entries {
        let kind = entry.kind_name();
        let t = Civil::from_unix(entry.modified);
        let (year, month, day, hour, minute, second) = (t.year, t.month, t.day, t.hour, t.minute, t.second);
        let _ =
            write!(out, "<{kind} mtime=\"{year:4}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z\"");
        if entry.kind == Kind::File {
            // The size of a folder is its file system's affair.
            let _ = write!(out, " size=\"{}\"", entry.size);
        }
        out.push(b'>');
        escape_html(&entry.name, &mut out);
        let _ = write!(out, "</{kind}>\r\n");
    }
    out.extend_from_slice(b"</list>\r\n");
    out
}

/// A JSON listing, or with a callback a script that calls it.
pub fn json(entries: &[Entry], callback: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + entries.len() * 120);
    if let Some(name) = callback {
        // The comment in front keeps the name from being read as something else by sniffers.
        out.extend_from_slice(b"/* callback */\r\n");
        out.extend_from_slice(name);
        out.push(b'(');
    }
    out.push(b'[');
    for (index, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if index > 0 { b",\r\n{ \"name\":\"" } else { b"\r\n{ \"name\":\"" });
        escape_json(&entry.name, &mut out);
        let _ = write!(out, "\", \"type\":\"{}\", \"mtime\":\"", entry.kind_name());
        out.extend_from_slice(&date::format_imf(entry.modified));
        out.push(b'"');
        if entry.kind == Kind::File {
            let _ = write!(out, ", \"size\":{}", entry.size);
        }
        out.extend_from_slice(b" }");
    }
    out.extend_from_slice(b"\r\n]");
    if callback.is_some() {
        out.extend_from_slice(b");");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: impl AsRef<[u8]>, kind: Kind, size: u64) -> Entry {
        Entry { name: name.as_ref().to_vec(), kind, modified: 784_111_777, size }
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    const HTML: Html = Html { utf8: true, exact_size: true, utc_offset: 0 };

    #[test]
    fn directories_come_first() {
        let mut list =
            [entry("b", Kind::File, 0), entry("A", Kind::Other, 0), entry("z", Kind::Directory, 0)];
        list.sort_by(Entry::order);
        let names: Vec<_> = list.iter().map(|e| e.name.clone()).collect();
        assert_eq!(names, [b"z", b"A", b"b"]);
    }

    #[test]
    fn html_is_escaped() {
        let page = text(HTML.render(b"/<a>/", &[entry("x?<y>", Kind::File, 12)]));
        assert_eq!(
            page,
            format!(
                "<html>\r\n<head><title>Index of /&lt;a&gt;/</title></head>\r\n<body>\r\n\
                 <h1>Index of /&lt;a&gt;/</h1><hr><pre><a href=\"../\">../</a>\r\n\
                 <a href=\"x%3F%3Cy%3E\">x?&lt;y&gt;</a>{} 06-Nov-1994 08:49 {:>19}\r\n\
                 </pre><hr></body>\r\n</html>\r\n",
                " ".repeat(45),
                12
            )
        );
    }

    #[test]
    fn names_are_cut_to_their_column() {
        let check = |html: Html, name: &[u8], kind: Kind, want: &[u8], want_padding: usize| {
            let mut out = Vec::new();
            let padding = html.shown_name(&entry(name, kind, 0), &mut out);
            assert_eq!(out, want, "{}", String::from_utf8_lossy(&out));
            assert_eq!(padding, want_padding);
        };
        let a = |n| "a".repeat(n);
        let bytes = Html { utf8: false, ..HTML };
        check(HTML, b"a", Kind::File, b"a</a>", 49);
        check(HTML, b"a", Kind::Directory, b"a/</a>", 48);
        check(HTML, a(49).as_bytes(), Kind::Directory, format!("{}/</a>", a(49)).as_bytes(), 0);
        check(HTML, a(50).as_bytes(), Kind::Directory, format!("{}</a>", a(50)).as_bytes(), 0);
        check(HTML, a(51).as_bytes(), Kind::Directory, format!("{}..&gt;</a>", a(47)).as_bytes(), 0);
        let f = |n| "\u{444}".repeat(n);
        check(HTML, f(3).as_bytes(), Kind::File, format!("{}</a>", f(3)).as_bytes(), 47);
        check(bytes, f(3).as_bytes(), Kind::File, format!("{}</a>", f(3)).as_bytes(), 44);
        check(HTML, f(51).as_bytes(), Kind::File, format!("{}..&gt;</a>", f(47)).as_bytes(), 0);
        check(
            bytes,
            f(26).as_bytes(),
            Kind::File,
            &[&f(26).as_bytes()[..47], &b"..&gt;</a>"[..]].concat(),
            0,
        );
        check(HTML, &[0xff; 60], Kind::File, &[&[0xff; 47][..], &b"..&gt;</a>"[..]].concat(), 0);
    }

    #[test]
    fn sizes_are_rounded() {
        let check = |size: u64, want: &str| assert_eq!(rounded(size), want, "{size}");
        check(0, "0");
        check(9999, "9999");
        check(10_000, "10K");
        check(10_240 + 511, "10K");
        check(10_240 + 512, "11K");
        check((1 << 20) - 1, "1024K");
        check(1 << 20, "1M");
        check((1 << 30) - 1, "1024M");
        check(3 << 29, "2G");
        let page = |size| {
            let html = Html { exact_size: false, ..HTML };
            text(html.render(b"/", &[entry("a", Kind::File, size)]))
        };
        assert!(page(123).contains("08:49     123\r\n"), "{}", page(123));
        assert!(page(20_480).contains("08:49     20K\r\n"), "{}", page(20_480));
    }

    #[test]
    fn xml_and_json() {
        let list = [entry("d", Kind::Directory, 1), entry("f\"<", Kind::File, 2), entry("o", Kind::Other, 3)];
        assert_eq!(
            text(xml(&list)),
            "<?xml version=\"1.0\"?>\r\n<list>\r\n\
             <directory mtime=\"1994-11-06T08:49:37Z\">d</directory>\r\n\
             <file mtime=\"1994-11-06T08:49:37Z\" size=\"2\">f&quot;&lt;</file>\r\n\
             <other mtime=\"1994-11-06T08:49:37Z\">o</other>\r\n</list>\r\n"
        );
        assert_eq!(
            text(json(&list[..2], Some(b"show"))),
            "/* callback */\r\nshow([\r\n\
             { \"name\":\"d\", \"type\":\"directory\", \"mtime\":\"Sun, 06 Nov 1994 08:49:37 GMT\" },\r\n\
             { \"name\":\"f\\\"<\", \"type\":\"file\", \"mtime\":\"Sun, 06 Nov 1994 08:49:37 GMT\", \"size\":2 }\r\n]);"
        );
        assert_eq!(text(json(&[], None)), "[\r\n]");
    }
}
