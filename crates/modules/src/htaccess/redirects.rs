//! Answers that lead the client elsewhere.

use super::carried::Carried;
use super::facts::{Seen, settled};
use super::pattern::Compiled;
use super::place::Place;
use brisk_apache::redirect::{Answer, Redirect};
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use std::sync::Arc;

/// `Redirect` and its relatives.
pub fn redirect(r: &mut Request, redirects: &[Arc<Redirect<Compiled>>], place: &Place) -> Result<(), Flow> {
    if redirects.is_empty() {
        return Ok(());
    }
    let carried = Carried::of(r);
    let answer = settled(r, |r, looked| {
        let carried = carried.borrow();
        let seen = Seen { r, place, carried: &carried, changes: &[], looked, group_file: None };
        for line in redirects {
            if let Some(answer) = line.answer(&r.route.uri, &seen)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    })?;
    match answer {
        None => Ok(()),
        Some(Answer::Status(status)) => Err(Flow::Status(status)),
        Some(Answer::Redirect { status, mut location }) => {
            if !r.route.args.is_empty() && !location.contains(&b'?') {
                location.push(b'?');
                location.extend_from_slice(&r.route.args);
            }
            Err(lead_away(r, status, location))
        }
    }
}

/// Redirects the client.
pub fn lead_away(r: &mut Request, status: u16, location: Vec<u8>) -> Flow {
    r.resp.location = Some(location.into());
    Flow::Status(status)
}
