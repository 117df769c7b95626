//! `ErrorDocument`.

use super::before::Before;
use super::carried::{Carried, FailedBy, Present};
use super::facts::{Looked, Seen};
use super::pattern;
use super::plan::Effective;
use crate::index::StandIn;
use brisk_apache::Facts as _;
use brisk_apache::expr::{Evaluation, Text};
use brisk_apache::overrides::Document;
use brisk_http::uri::resolved;
use brisk_server::plan::{Page, Pages};
use brisk_server::request::Request;
use std::rc::Rc;
use std::sync::Arc;

/// A page of this server: what clients send may be a part of its path, so it leads nowhere above the root.
fn path(target: Vec<u8>) -> Page {
    let mark = memchr::memchr(b'?', &target).unwrap_or(target.len());
    let (path, rest) = target.split_at(mark);
    resolved(path).map_or(Page::Builtin, |path| Page::Path([&path, rest].concat()))
}

/// Asked for the page of a status.
pub struct Documents {
    /// What holds in the host of Apache's own files.
    pub host: Option<Arc<Effective>>,
}

impl Pages for Documents {
    fn page(&self, r: &mut Request, status: u16) -> Option<Page> {
        let present = Present::or_of_host(r, self.host.as_ref())?;
        let carried = Carried::of(r);
        let page = {
            let carried = carried.borrow();
            // A rule that was too much for the request still has a page.
            carried.work.renew();
            pattern::take_owed();
            let looked = Looked::default();
            let seen = Seen {
                r,
                place: &present.place,
                carried: &carried,
                changes: &[],
                looked: &looked,
                group_file: None,
            };
            // What cannot be told is answered with the server's own page.
            let of = |text: &Text, page: fn(Vec<u8>) -> Page| {
                Evaluation::new(&seen).text(text).map_or(Page::Builtin, page)
            };
            let line = present.effective.settings.error_documents.get(&status)?;
            if seen.is_asked_why() {
                seen.tell(&line.origin, true, format_args!("has the page for {status}"));
            }
            match &line.document {
                Document::Default => Page::Builtin,
                Document::Text(text) => of(text, Page::Text),
                Document::Path(text) => of(text, path),
                Document::Url(text) => of(text, Page::Url),
            }
        };
        if let Page::Path(target) = &page {
            let before = Before::of(r);
            carried.borrow_mut().failed = Some(before);
            let asked = Carried::asked(r);
            let mut carried = carried.borrow_mut();
            // Not of one that was refused before its rules of access were asked: nobody has judged that.
            let judged_by = carried.judged_by.take();
            let is_judged = judged_by.is_some_and(|judged_by| Arc::ptr_eq(&judged_by, &present.effective));
            let said = carried.say();
            let (user, login) = (said.user.clone(), said.login);
            said.redirected(&asked, &r.route.args, status);
            let page = target.split(|&byte| byte == b'?').next().unwrap_or_default().to_vec();
            let failed_by = FailedBy { page, effective: present.effective, user, login };
            said.failed_by = is_judged.then(|| Rc::new(failed_by));
            StandIn::forget(r);
        }
        Some(page)
    }

    fn given_up(&self, r: &mut Request) {
        let failed = Carried::of(r).borrow_mut().failed.take();
        if let Some(before) = failed {
            before.restore(r);
        }
    }
}
