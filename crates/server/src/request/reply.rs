//! How a request is answered, whatever [`Response`](crate::response::Response) its handlers make: what outlives a response
//! that an error page takes the place of.

use crate::conf::ids::LocationId;
use crate::response::drop_held;
use crate::text::Text;
use std::rc::Rc;

/// What becomes of the connection after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Persistence {
    /// It ends, and the client is told so (`Connection: close`).
    /// Closing is the default: a request that fails before its framing is known has no next one behind it.
    #[default]
    Close,
    /// It waits for the next request.
    KeepAlive,
}

/// Why a filter refuses a request that could be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 412: the answer is not of the version that the request is about (RFC 9110 §13.2.2).
    PreconditionFailed,
    /// 416: there is nothing of the range that was asked for (RFC 9110 §14.4).
    RangeNotSatisfiable,
}

impl Reply {
    /// Makes it anew in its place.
    #[inline]
    pub(super) fn renew(&mut self) {
        let Reply {
            err_status,
            refused,
            error_page,
            has_no_more_pages,
            page_of,
            persistence,
            hinted,
            completed,
            limit_rate,
            interim,
        } = self;
        (*err_status, *refused) = (0, None);
        drop_held(page_of);
        *persistence = Persistence::default();
        for flag in [error_page, has_no_more_pages, hinted, completed] {
            *flag = false;
        }
        *limit_rate = None;
        drop_held(interim);
    }

    /// Whether the response is the server's own: an error's built-in page or a redirect, not what a handler has made.
    pub fn is_own(&self) -> bool {
        self.err_status != 0 && !self.error_page
    }
}

/// An error whose page is being made.
#[derive(Clone, Debug)]
pub struct PageOf {
    /// Its status.
    pub status: u16,
    /// The location that has named the page.
    pub loc: LocationId,
    /// The fields that belong to the error: a challenge, when to come again.
    pub fields: Vec<(Text, Text)>,
}

/// How a protocol sends an interim response.
pub trait Interim {
    /// Queues or writes it at once. It neither waits nor fails: what does not fit is dropped, for hints are only hints.
    fn send(&self, status: u16, fields: &[(Text, Text)]);
}

/// See the module's head.
#[derive(Default)]
pub struct Reply {
    /// The status the response will have whatever its handler says; 0: none.
    /// It outlives handlers: the page of a 404 is made by one that says 200.
    pub err_status: u16,
    /// A filter has refused the request. It is acted upon as soon as the filter has done.
    pub refused: Option<Refusal>,
    /// An error's page is being made.
    pub error_page: bool,
    /// A location without `recursive_error_pages` has failed: whatever fails behind it has no page.
    pub has_no_more_pages: bool,
    /// The page of this error is being made in the way of [`Pages`](crate::plan::Pages): a script may say another status, and one that
    /// fails in its turn is given up.
    pub page_of: Option<Box<PageOf>>,
    /// Whether the connection goes on behind the response.
    pub persistence: Persistence,
    /// Hints were sent, or it was found that there are none.
    pub(crate) hinted: bool,
    /// The whole response has been sent.
    pub completed: bool,
    /// `limit_rate` set by `set $limit_rate`.
    /// 0 is no limit, and stands above the location's.
    pub limit_rate: Option<u64>,
    /// How interim responses are sent; `None` where that cannot be.
    pub interim: Option<Rc<dyn Interim>>,
}
