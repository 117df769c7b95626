//! What is kept for a request on its way: until it is led elsewhere, and until it is answered.

use super::before::Before;
use super::place::Place;
use super::plan::Effective;
use super::site::Maps;
use brisk_apache::rewrite::{Cookie, Effects};
use brisk_apache::{EnvChange, Work};
use brisk_server::environment::Environment;
use brisk_server::plan;
use brisk_server::request::Request;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What holds for a request where it is now. It goes with an internal redirect.
#[derive(Clone)]
pub struct Present {
    /// Where it leads.
    pub place: Rc<Place>,
    /// What holds of the files on its way.
    pub effective: Arc<Effective>,
}

impl Present {
    /// That of a request; `None` where no file holds, or none was looked for yet.
    pub fn of(r: &Request) -> Option<Present> {
        r.state.visit.get::<Slot>()?.0.clone()
    }

    /// That of a request, or before any was found what holds in its host: the fields and pages of early refusals.
    pub fn or_of_host(r: &Request, host: Option<&Arc<Effective>>) -> Option<Present> {
        Present::of(r).or_else(|| {
            let effective = host?.clone();
            Some(Present { place: Rc::new(Place::nowhere(r)), effective })
        })
    }

    /// Forgets it: no file holds for what the request is for now.
    pub fn forget(r: &mut Request) {
        if Present::of(r).is_some() {
            r.state.visit.get_mut::<Slot>().0 = None;
        }
    }

    /// Keeps it.
    pub fn keep(self, r: &mut Request) {
        r.state.visit.get_mut::<Slot>().0 = Some(self);
    }
}

#[derive(Default)]
struct Slot(Option<Present>);

/// What was said of a request holds of its copies at the content handler, too: what an application gets to know, and what it must not.
pub fn carry(r: &Request) -> plan::Carried {
    let present = Present::of(r);
    let environment = r.state.visit.get::<Environment>().cloned();
    let kept = r.state.own.get::<RefCell<Carried>>().map(|carried| {
        let carried = carried.borrow();
        (carried.said.clone(), carried.maps.clone())
    });
    Box::new(move |copy| {
        if let Some(present) = &present {
            present.clone().keep(copy);
        }
        if let Some(environment) = &environment {
            copy.state.visit.get_mut::<Environment>().clone_from(environment);
        }
        if let Some((said, maps)) = &kept {
            copy.state.own.put(RefCell::new(Carried {
                said: said.clone(),
                maps: maps.clone(),
                ..Carried::default()
            }));
        }
    })
}

/// What a request carries through internal redirects.
#[derive(Default)]
pub struct Carried {
    /// What was said of it. Shared with the steps that may have to begin once more with it.
    pub said: Rc<Said>,
    /// Passwords that were found to be right. They are no part of what was said: they are as right for who asks again. Several, where the
    /// old and the new rules of a file that is being written have a file of passwords each.
    pub checked: Vec<Checked>,
    /// What rules may look up (`RewriteMap`).
    pub maps: Option<Arc<Maps>>,
    /// What the request was judged by in this visit, once its rules of access were asked.
    pub judged_by: Option<Arc<Effective>>,
    /// What rules have cost until there is a response: those of look-ups, too.
    pub work: Rc<Work>,
    /// The request that has failed, while its page is made (`ErrorDocument`).
    pub failed: Option<Before>,
    /// How often it was judged anew, because what it was judged by had changed.
    pub judged_anew: u8,
    /// How often it has waited for texts to be compiled.
    pub compiled: u8,
    /// What is asked, if the request is a look-up.
    pub look_up: Option<LookUp>,
}

/// What the host and the files of folders have said of a request: all that the request loses if that is judged anew.
#[derive(Clone, Default)]
pub struct Said {
    /// Variables, each name once.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Cookies of the flag CO.
    pub cookies: Vec<Cookie>,
    /// Fields of the request that rules have read.
    pub vary: Vec<Vec<u8>>,
    /// The flag END was met.
    pub rewriting_is_over: bool,
    /// It was met for a file that stands for the request. Apache asks for that by a subrequest: for its rules the request has not met the
    /// flag, nor has the request where the file leads on.
    pub is_over_for_stand_in: bool,
    /// What mod_ssl tells each request is known, which is so behind rules and lines.
    pub knows_tls: bool,
    /// Who has logged in.
    pub user: Option<Vec<u8>>,
    /// How.
    pub login: Login,
    /// The URI's path before rules of the server have put another file in its place; sections and conditions are about it.
    pub asked: Option<Vec<u8>>,
    /// What negotiation has led to behind such rules: the path, and the one that it counts as. Rules of the server are not for it.
    pub chosen: Option<(Vec<u8>, Vec<u8>)>,
    /// The request that has failed, until its page is judged.
    pub failed_by: Option<Rc<FailedBy>>,
    /// The type that rules have named (flag T), until the next internal redirect.
    pub content_type: Option<Vec<u8>>,
    /// The handler that rules have named (flag H), until then.
    pub handler: Option<Vec<u8>>,
    /// How many lines of `SetEnvIf`, the first, were carried out before there was a location.
    pub led: usize,
    /// The script that the request was handed on for.
    pub handed: Option<Handed>,
    /// The URL that a rule sends the request to (flag P).
    pub proxy_url: Option<Vec<u8>>,
}

/// A request that was judged and has failed.
#[derive(Clone)]
pub struct FailedBy {
    /// The path of its page.
    pub page: Vec<u8>,
    /// What it was judged by.
    pub effective: Arc<Effective>,
    /// Who had logged in.
    pub user: Option<Vec<u8>>,
    /// How.
    pub login: Login,
}

/// A script for whose handler a location has led the request to another one.
#[derive(Clone)]
pub struct Handed {
    /// The URI.
    pub uri: Vec<u8>,
    /// Where the script is, if the other location need not lead there, as an alias does.
    pub place: Option<Rc<Place>>,
    /// The request where it was handed on: whether it still is to be is for the files there to say.
    pub from: Option<Before>,
}

/// A password, and what it was compared with: any other text in its file may be another password.
#[derive(Clone, PartialEq, Eq)]
pub struct Checked {
    /// The file.
    pub file: Vec<u8>,
    /// The user.
    pub user: Vec<u8>,
    /// What the client has sent.
    pub password: Vec<u8>,
    /// What the file keeps of it.
    pub kept: Vec<u8>,
}

/// A request that is made to learn how it would be answered.
pub struct LookUp {
    /// The URI of the request whose rules ask.
    pub asker: Vec<u8>,
    /// Its own URI, and the file that this must lead to, if a file is asked for.
    pub file: Option<(Vec<u8>, Vec<u8>)>,
    /// Its rules have led to another URI. That is for the asker to do, so it ends there.
    pub is_led_on: bool,
}

/// How users log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Login {
    /// `AuthType Basic`.
    #[default]
    Basic,
    /// `AuthType Digest`.
    Digest,
}

impl Carried {
    /// That of a request.
    pub fn of(r: &Request) -> Rc<RefCell<Carried>> {
        r.state.own.get_or(RefCell::<Carried>::default)
    }

    /// To say something of the request.
    pub fn say(&mut self) -> &mut Said {
        Rc::make_mut(&mut self.said)
    }

    /// The path that index files, sections and redirects are about: what was asked for, also where rules of the server have put another
    /// file in its place.
    pub fn asked(r: &Request) -> Vec<u8> {
        let carried = Carried::of(r);
        let carried = carried.borrow();
        carried.said.asked.as_ref().unwrap_or(&r.route.uri).clone()
    }

    /// Whether a request with this path is for the page of one that was judged by the very same. It is so once, and who has logged in for that
    /// one has for this one, too.
    pub fn is_page_of_same(&mut self, uri: &[u8], effective: &Arc<Effective>) -> bool {
        if self.said.failed_by.is_none() {
            return false;
        }
        let said = self.say();
        let Some(failed) = said.failed_by.take() else { return false };
        let is_same = failed.page == uri && Arc::ptr_eq(&failed.effective, effective);
        if is_same {
            (said.user, said.login) = (failed.user.clone(), failed.login);
        }
        is_same
    }

    /// Nobody has logged in.
    pub fn log_out(&mut self) {
        if self.said.user.is_some() {
            let said = self.say();
            (said.user, said.login) = (None, Login::default());
        }
    }

    /// Whether the request is a look-up for a file, which rules of the server do not change.
    pub fn looks_for_file(&self) -> bool {
        self.look_up.as_ref().is_some_and(|look_up| look_up.file.is_some())
    }
}

impl Said {
    /// Sets and removes variables.
    pub fn change(&mut self, changes: impl IntoIterator<Item = EnvChange>) {
        for (name, value) in changes {
            self.env.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
            if let Some(value) = value {
                self.env.push((name, value));
            }
        }
    }

    /// Keeps what rules do besides, for the steps that follow.
    pub fn keep(&mut self, effects: Effects, is_stand_in: bool) {
        self.change(effects.env);
        for cookie in effects.cookies {
            self.cookies.retain(|known| known.name != cookie.name);
            self.cookies.push(cookie);
        }
        self.vary.extend(effects.vary);
        let is_over = if is_stand_in { &mut self.is_over_for_stand_in } else { &mut self.rewriting_is_over };
        *is_over |= effects.is_last_pass;
        self.content_type = effects.content_type.or(self.content_type.take());
        self.handler = effects.handler.or(self.handler.take());
    }

    /// The script that a request with this URI was handed on for.
    pub fn handed_for(&self, uri: &[u8]) -> Option<&Handed> {
        self.handed.as_ref().filter(|handed| handed.uri == uri)
    }

    /// As an internal redirect leaves it: all variables are called `REDIRECT_…`, and those that tell of it are added.
    pub fn redirected(&mut self, uri: &[u8], query: &[u8], status: u16) {
        let mut env: Vec<(Vec<u8>, Vec<u8>)> = std::mem::take(&mut self.env);
        env.iter_mut().for_each(|(name, _)| _ = name.splice(..0, *b"REDIRECT_"));
        self.env = env;
        (self.content_type, self.handler, self.handed) = (None, None, None);
        (self.is_over_for_stand_in, self.knows_tls, self.failed_by) = (false, false, None);
        let set = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), Some(value.to_vec()));
        let query = (b"REDIRECT_QUERY_STRING".to_vec(), (!query.is_empty()).then(|| query.to_vec()));
        self.change([set("REDIRECT_STATUS", status.to_string().as_bytes()), set("REDIRECT_URL", uri), query]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_rename_variables() {
        let mut carried = Said::default();
        carried.change([(b"A".to_vec(), Some(b"1".to_vec())), (b"B".to_vec(), Some(b"2".to_vec()))]);
        carried.change([(b"a".to_vec(), Some(b"3".to_vec())), (b"B".to_vec(), None)]);
        assert_eq!(carried.env, [(b"a".to_vec(), b"3".to_vec())]);
        carried.redirected(b"/x", b"", 200);
        carried.redirected(b"/y", b"q", 404);
        let names: Vec<_> = carried.env.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        assert_eq!(
            names,
            [
                "REDIRECT_REDIRECT_a",
                "REDIRECT_REDIRECT_STATUS",
                "REDIRECT_REDIRECT_URL",
                "REDIRECT_STATUS",
                "REDIRECT_URL",
                "REDIRECT_QUERY_STRING"
            ]
        );
    }

    #[test]
    fn the_flag_end_of_a_stand_in_is_its_own() {
        let end = || Effects { is_last_pass: true, ..Effects::default() };
        let mut said = Said::default();
        said.keep(end(), true);
        assert!(said.is_over_for_stand_in && !said.rewriting_is_over);
        said.redirected(b"/x", b"", 404);
        assert!(!said.is_over_for_stand_in && !said.rewriting_is_over);
        said.keep(end(), false);
        said.redirected(b"/y", b"", 404);
        assert!(said.rewriting_is_over);
    }
}
