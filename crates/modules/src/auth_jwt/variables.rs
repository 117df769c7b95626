//! Variables of an accepted token. Until it has been accepted they are not found.

use super::json::Json;
use super::token::Token;
use brisk_server::request::Request;
use brisk_server::vars::{Eval, Variable, VariableGet};
use std::cell::RefCell;
use std::rc::Rc;

/// The token of a request and its subrequests, once it has been accepted.
#[derive(Default)]
pub struct Accepted(pub RefCell<Option<Rc<Token>>>);

/// Reads from the accepted token.
// Not found rather than empty: a variable that an application believes must not look as if it had been set.
fn read(r: &Request, what: impl FnOnce(&Token) -> bool) -> bool {
    let accepted = r.state.shared.values.get::<Accepted>();
    accepted.is_some_and(|accepted| accepted.0.borrow().as_ref().is_some_and(|token| what(token)))
}

fn append(value: Option<&Json>, out: &mut Vec<u8>) -> bool {
    if let Some(value) = value {
        value.append(out);
    }
    value.is_some()
}

/// A member by its name; those who wrote the configuration could use small letters only.
fn named<'a>(object: &'a Json, name: &str) -> Option<&'a Json> {
    let Json::Object(members) = object else { return None };
    // As it is written first, so that `sub` and `Sub` can be told apart by those who have both.
    members
        .get(name)
        .or_else(|| members.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

pub static VARIABLES: &[Variable] = &[
    Variable {
        name: "jwt_claim_*",
        get: VariableGet::Family(|r, name, out| read(r, |token| append(named(&token.claims, name), out))),
        doc: "A claim of the token that auth_jwt has accepted; lists have commas between their elements.",
        ..Variable::SILENT
    },
    Variable {
        name: "jwt_header_*",
        get: VariableGet::Family(|r, name, out| read(r, |token| append(named(&token.header, name), out))),
        doc: "A member of the header of the token that auth_jwt has accepted, such as alg or kid.",
        ..Variable::SILENT
    },
    Variable {
        name: "jwt_payload",
        get: VariableGet::Fixed(|r, out| {
            read(r, |token| {
                out.extend_from_slice(&token.payload);
                true
            })
        }),
        doc: "All claims of the token that auth_jwt has accepted, as JSON.",
        ..Variable::SILENT
    },
];

/// `auth_jwt_claim_set`, `auth_jwt_header_set`: a member below other members.
pub struct Member {
    pub of_header: bool,
    /// Several names, since one may contain dots: a path as one text would be ambiguous.
    pub path: Box<[String]>,
}

impl Eval<Request> for Member {
    fn eval(&self, r: &Request, out: &mut Vec<u8>) -> bool {
        read(r, |token| {
            // A member of what is no object is not there.
            let start = if self.of_header { &token.header } else { &token.claims };
            append(self.path.iter().try_fold(start, |value, name| value.get(name)), out)
        })
    }
}
