//! What has become of a request's body.

use crate::reader::BodyReader;
use brisk_host::temp_file::TempFile;
use std::cell::Cell;
use std::rc::Rc;

/// What has become of a request's body.
#[derive(Default)]
pub enum RequestBody {
    /// Nothing of it was asked for.
    #[default]
    Unread,
    /// The rest is with the client.
    Partial(BodyReader),
    /// All of it is here, or there is none.
    Whole {
        /// The bytes; shared with subrequests.
        content: Rc<Content>,
        /// How much of it [`Request::body_piece`] has given.
        given: u64,
    },
    /// Somebody takes it while the response is being sent; what is left comes back here.
    /// The cell is the way back: when the borrower is dropped, what it has not read is there.
    Lent(Rc<Cell<Option<BodyReader>>>),
    /// It is too large, or could not be read: handlers of an error page see none. What the client has of it is
    /// dropped after the response.
    Refused(Option<BodyReader>),
}

/// A body that was read.
pub enum Content {
    /// The request has no body.
    None,
    /// In memory.
    Memory(Vec<u8>),
    /// In a file below `client_body_temp_path`, which goes with it.
    File(TempFile),
}

impl Content {
    /// Its length in bytes, without framing.
    pub fn len(&self) -> u64 {
        match self {
            Content::None => 0,
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(file) => file.len(),
        }
    }

    /// There are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl RequestBody {
    /// One that was read to its end.
    pub fn whole(content: Content) -> RequestBody {
        RequestBody::Whole { content: Rc::new(content), given: 0 }
    }

    /// The body, if all of it was read.
    pub fn content(&self) -> Option<&Rc<Content>> {
        match self {
            RequestBody::Whole { content, .. } => Some(content),
            _ => None,
        }
    }

    /// True if it was begun and will not be finished: the connection is of no further use.
    /// A body that is announced and will not come leaves the connection without a next request.
    pub fn is_broken(&self) -> bool {
        match self {
            RequestBody::Partial(reader) | RequestBody::Refused(Some(reader)) => {
                // A client that waits for leave and never gets it sends nothing.
                reader.is_broken() || reader.expects()
            }
            RequestBody::Lent(home) => {
                let reader = home.take();
                // Who has it may not finish it.
                let broken = reader.as_ref().is_none_or(|reader| reader.is_broken() || reader.expects());
                home.set(reader);
                broken
            }
            _ => false,
        }
    }
}
