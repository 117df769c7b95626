//! What rules ask of other requests: how a URI would be answered (`-U`), whether a file would be (`-F`), and what a variable would be there
//! (`LA-U`, `LA-F`). As in Apache a subrequest finds out, which is judged as if the client had sent it and ends before there is content.

use super::carried::{Carried, LookUp, Said};
use super::facts::{Looked, Seen};
use super::place::Place;
use super::trail::Trail;
use brisk_apache::{Facts as _, Value, Variable, escape};
use brisk_http::uri::resolved;
use brisk_net::file::Kind;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::subrequest::Parent;
use std::cell::RefCell;
use std::rc::Rc;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The path of a URI.
    pub uri: Vec<u8>,
    /// Its query.
    pub args: Vec<u8>,
    /// The file that it must lead to, if one is asked for.
    pub file: Option<Vec<u8>>,
    /// The variable whose value is wanted.
    pub variable: Option<Variable>,
}

/// What was found out.
pub struct Told {
    /// How the request would be answered.
    pub status: u16,
    /// The variable's value.
    pub value: Vec<u8>,
}

impl Question {
    /// About a URI as rules write it: escaped, with a query, relative to the request's own. `None`: it is no path of this server.
    pub fn of_uri(r: &Request, uri: &[u8]) -> Option<Question> {
        let mark = memchr::memchr(b'?', uri).unwrap_or(uri.len());
        let path = escape::decode_keeping_slashes(&uri[..mark])?;
        let path = if path.starts_with(b"/") { path } else { beside(&r.route.uri, &path) };
        let args = uri.get(mark + 1..).unwrap_or_default().to_vec();
        Some(Question { uri: resolved(&path).ok()?, args, file: None, variable: None })
    }
}

/// The path of a name in the folder of another path.
pub fn beside(path: &[u8], name: &[u8]) -> Vec<u8> {
    [folder(path), name].concat()
}

/// A path up to its last slash.
pub fn folder(path: &[u8]) -> &[u8] {
    &path[..memchr::memrchr(b'/', path).map_or(0, |at| at + 1)]
}

/// What is behind a folder in a path.
pub fn below<'p>(path: &'p [u8], folder: &[u8]) -> Option<&'p [u8]> {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    let rest = if folder.is_empty() { None } else { path.strip_prefix(folder) };
    rest?.strip_prefix(b"/").filter(|rest| !rest.is_empty())
}

/// Finds out, and has the handler begin anew that asks.
pub fn ask(question: Question, looked: Rc<RefCell<Looked>>) -> Flow {
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let told = tell(r, &question).await;
            looked.borrow_mut().keep(question, told);
            Flow::Again
        })
    }))
}

async fn tell(r: &Request, question: &Question) -> Told {
    let parent = Parent::without_body(r);
    let found = parent.look_up(&question.uri, &question.args, |look_up| prepare(r, look_up, question)).await;
    let Some(found) = found else { return Told { status: 500, value: Vec::new() } };
    let trail = Trail::of(&found).map(|trail| trail.place.clone());
    let place = trail.unwrap_or_else(|| Rc::new(Place::nowhere(&found)));
    let carried = Carried::of(&found);
    let carried = carried.borrow();
    let looked = Looked::default();
    let seen =
        Seen { r: &found, place: &place, carried: &carried, changes: &[], looked: &looked, group_file: None };
    let value = question.variable.as_ref().and_then(|variable| seen.variable(variable).ok());
    let is_led_on = carried.look_up.as_ref().is_some_and(|look_up| look_up.is_led_on);
    let status = match place.kind {
        // A file that another one would be served for is not served itself.
        _ if question.file.is_some() && is_led_on => 404,
        None if question.file.is_some() => found.resp.status.max(404),
        // The client would be told the folder's own path first.
        Some(Kind::Directory) if !found.route.uri.ends_with(b"/") => found.resp.status.max(301),
        _ => found.resp.status,
    };
    Told { status, value: value.map(Value::into_owned).unwrap_or_default() }
}

/// Gives a look-up what it has from its asker: variables, a password that was right, and the bound on what all rules may cost.
fn prepare(r: &Request, look_up: &Request, question: &Question) {
    let asker = Carried::of(r);
    let asker = asker.borrow();
    let file = question.file.as_ref().map(|file| (question.uri.clone(), file.clone()));
    *Carried::of(look_up).borrow_mut() = Carried {
        said: Rc::new(Said { env: asker.said.env.clone(), ..Said::default() }),
        checked: asker.checked.clone(),
        work: asker.work.clone(),
        look_up: Some(LookUp { asker: r.route.uri.clone(), file, is_led_on: false }),
        ..Carried::default()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_beside_and_below() {
        for (path, name, wanted) in [("/a/b", "c", "/a/c"), ("/a/", "c/d", "/a/c/d"), ("x", "c", "c")] {
            assert_eq!(beside(path.as_bytes(), name.as_bytes()), wanted.as_bytes(), "{path} {name}");
        }
        for (path, folder, wanted) in [
            ("/srv/a/b", "/srv", Some("a/b")),
            ("/srv/a/b", "/srv/a/", Some("b")),
            ("/srva/b", "/srv", None),
            ("/srv", "/srv", None),
            ("/srv/", "/srv", None),
            ("/srv/a", "", None),
            ("/srv/a", "/", None),
        ] {
            let wanted = wanted.map(str::as_bytes);
            assert_eq!(below(path.as_bytes(), folder.as_bytes()), wanted, "{path} {folder}");
        }
    }
}
