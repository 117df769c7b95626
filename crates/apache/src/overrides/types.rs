//! What the endings of a file's name say of it (mod_mime).

use super::settings::{Mime, Said};

/// What is known of a file by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileType {
    /// Its media type.
    pub content_type: Option<Vec<u8>>,
    /// Its charset.
    pub charset: Option<Vec<u8>>,
    /// Its content codings, with commas between.
    pub encoding: Option<Vec<u8>>,
    /// Its languages, with commas between.
    pub language: Option<Vec<u8>>,
    /// The handler that `AddHandler` gives it.
    pub handler: Option<Vec<u8>>,
    /// Filters, with semicolons between.
    pub output_filter: Option<Vec<u8>>,
}

impl Mime {
    /// Looks at all endings of `name`, from left to right: a later type takes the place of an earlier one, codings add up.
    /// `usual` gives the media type that an ending in small letters has without any line.
    pub fn of(&self, name: &[u8], usual: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> FileType {
        let mut found = FileType::default();
        for ending in name.split(|&byte| byte == b'.').skip(1).filter(|ending| !ending.is_empty()) {
            let ending = ending.to_ascii_lowercase();
            let said = self.endings.get(&ending);
            let own_type = said.map_or(&Said::Nothing, |said| &said.content_type);
            if let Some(content_type) = match own_type {
                Said::Value(value) => Some(value.clone()),
                Said::Nothing => usual(&ending),
                Said::Removed => None,
            } {
                found.content_type = Some(content_type);
            }
            let Some(said) = said else { continue };
            replace(&mut found.charset, &said.charset);
            replace(&mut found.handler, &said.handler);
            append(&mut found.encoding, &said.encoding, b", ");
            append(&mut found.language, &said.language, b", ");
            append(&mut found.output_filter, &said.output_filter, b";");
        }
        found
    }

    /// Whether no line was written.
    pub fn is_empty(&self) -> bool {
        self.endings.is_empty()
    }
}

fn replace(place: &mut Option<Vec<u8>>, said: &Said) {
    if let Said::Value(value) = said {
        *place = Some(value.clone());
    }
}

fn append(place: &mut Option<Vec<u8>>, said: &Said, separator: &[u8]) {
    let Said::Value(value) = said else { return };
    match place {
        Some(list) => {
            list.extend_from_slice(separator);
            list.extend_from_slice(value);
        }
        None => *place = Some(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_read_from_left_to_right() {
        let mut mime = Mime::default();
        let value = |text: &str| Said::Value(text.as_bytes().to_vec());
        mime.endings.entry(b"gz".to_vec()).or_default().encoding = value("gzip");
        mime.endings.entry(b"php".to_vec()).or_default().handler = value("application/x-httpd-php");
        mime.endings.entry(b"xyz".to_vec()).or_default().content_type = value("a/b");
        mime.endings.entry(b"txt".to_vec()).or_default().content_type = Said::Removed;
        mime.endings.entry(b"utf8".to_vec()).or_default().charset = value("utf-8");
        let usual = |ending: &[u8]| match ending {
            b"html" => Some(b"text/html".to_vec()),
            b"txt" => Some(b"text/plain".to_vec()),
            b"jpg" => Some(b"image/jpeg".to_vec()),
            _ => None,
        };
        let shown = |name: &str| {
            let found = mime.of(name.as_bytes(), &usual);
            let fields = [found.content_type, found.charset, found.encoding, found.handler];
            let text = |field: &Option<Vec<u8>>| {
                field.as_deref().map_or("-".into(), |text| String::from_utf8_lossy(text).into_owned())
            };
            fields.iter().map(text).collect::<Vec<_>>().join(" ")
        };
        for (name, wanted) in [
            ("html", "- - - -"),
            ("a.html", "text/html - - -"),
            ("a.HTML.utf8.gz", "text/html utf-8 gzip -"),
            ("a.xyz.html", "text/html - - -"),
            ("a.txt", "- - - -"),
            // A script's source must not be given out because its name ends otherwise.
            ("a.php.jpg", "image/jpeg - - application/x-httpd-php"),
            ("a.php.", "- - - application/x-httpd-php"),
            (".php", "- - - application/x-httpd-php"),
            ("a.gz.gz", "- - gzip, gzip -"),
        ] {
            assert_eq!(shown(name), wanted, "{name}");
        }
    }
}
