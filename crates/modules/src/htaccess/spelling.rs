//! `CheckSpelling`: a file that is not there, and those of its folder that may have been meant.

use super::carried::{Carried, Present};
use crate::directory;
use crate::limits::FOLDER_NAMES_MAX;
use brisk_apache::escape;
use brisk_apache::spelling::{Found, choose};
use brisk_http::Method;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::response::Body;
use brisk_server::text::Text;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Looks for names that are like the one that was asked for. Such names are told, so what must not be known must not be in such a folder.
pub fn look(r: &mut Request, present: &Present) -> Result<(), Flow> {
    let spelling = present.effective.settings.spelling;
    let place = &present.place;
    if spelling.is_on != Some(true)
        || r.route.depth > 0
        || !matches!(r.route.method, Method::Get | Method::Head)
    {
        return Ok(());
    }
    let wanted = place.name().to_vec();
    let ending = [wanted.as_slice(), &place.path_info].concat();
    let asked = Carried::asked(r);
    let Some(uri) = asked.strip_suffix(ending.as_slice()).filter(|_| !wanted.is_empty()) else {
        return Ok(());
    };
    let (uri, more) = (uri.to_vec(), place.path_info.clone());
    let folder = &place.file[..place.file.len() - wanted.len()];
    let folder = directory::named_by(Path::new(OsStr::from_bytes(folder)));
    Err(Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let names = directory::on_pool(folder, |path| {
                let mut names = Vec::new();
                directory::each(path, |entry| {
                    if names.len() < FOLDER_NAMES_MAX {
                        names.push(entry.file_name().as_bytes().to_vec());
                    }
                    Ok(())
                })?;
                Ok(names)
            });
            match names.await {
                Ok(names) => answer(r, choose(spelling, &wanted, names.into_iter()), &uri, &more),
                // There is no such folder, or it cannot be read: the file is not there.
                Err(_) => Flow::Next,
            }
        })
    })))
}

fn answer(r: &mut Request, found: Found, uri: &[u8], more: &[u8]) -> Flow {
    let whole = |name: &[u8]| escape::uri(&[uri, name, more].concat());
    match found {
        Found::Nothing => Flow::Next,
        Found::One(name) => {
            let mut location = whole(&name);
            if !r.route.args.is_empty() {
                location.push(b'?');
                location.extend_from_slice(&r.route.args);
            }
            let link = html(&location);
            r.resp.location = Some(location.into());
            page(
                r,
                301,
                &[b"<p>The document is <a href=\"", &link[..], b"\">", &link, b"</a>.</p>\n"].concat(),
            )
        }
        Found::Several(names) => {
            let mut list = b"<ul>\n".to_vec();
            for name in names {
                let link = html(&whole(&name));
                list.extend_from_slice(
                    &[b"<li><a href=\"", &link[..], b"\">", &link, b"</a></li>\n"].concat(),
                );
            }
            list.extend_from_slice(b"</ul>\n");
            page(r, 300, &list)
        }
    }
}

/// Answers with a page.
fn page(r: &mut Request, status: u16, content: &[u8]) -> Flow {
    let title = format!("<html><head><title>{status}</title></head><body>\n");
    let text = [title.as_bytes(), content, b"</body></html>\n"].concat();
    r.resp.status = status;
    r.resp.say_content_type(Text::Static(b"text/html"));
    r.resp.content_length = Some(text.len() as u64);
    r.resp.body = Body::bytes(text);
    Flow::Done
}

/// Text of a page. What is escaped for a URL has no other characters that mean something.
fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(byte),
        }
    }
    out
}
