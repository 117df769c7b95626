//! What a client's request and its subrequests have in common. It also survives internal redirects.

use crate::connection::Peer;
use crate::purity::Dependencies;
use crate::request::Request;
use brisk_host::vars::emptied;
use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

/// Who sent a request, where a trusted proxy has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub peer: Peer,
    /// `$remote_addr` as text: it is in every log line.
    pub text: Box<[u8]>,
}

impl Client {
    pub fn new(peer: Peer) -> Client {
        Client { peer, text: peer.to_string().into_bytes().into() }
    }
}

/// See the module's head.
#[derive(Default)]
pub struct Common {
    client: OnceCell<Client>,
    /// `$request_id`.
    pub(crate) id: OnceCell<[u8; 32]>,
    values: RefCell<Vec<Rc<dyn Any>>>,
}

impl Common {
    /// A new one in the memory of this one.
    pub(crate) fn renewed(self) -> Common {
        Common { values: emptied(self.values.into_inner()).into(), ..Common::default() }
    }
}

impl Request {
    /// The address of the client: of the connection's other side, or what `real_ip_header` found.
    pub fn client_addr(&self) -> Peer {
        self.depends_on(Dependencies::CLIENT);
        self.common.client.get().map_or_else(|| self.conn().peer, |client| client.peer)
    }

    /// [`Request::client_addr`] as `$remote_addr` shows it.
    pub fn client_text(&self) -> &[u8] {
        self.depends_on(Dependencies::CLIENT);
        self.common.client.get().map_or_else(|| &*self.conn().peer_text, |client| &client.text)
    }

    /// Believes that the request comes from there; only once.
    pub fn set_client(&self, client: Client) {
        let _ = self.common.client.set(client);
    }

    /// A module's value that this request has in common with its subrequests, made on first use.
    pub fn common<T: Default + 'static>(&self) -> Rc<T> {
        self.common_ref().unwrap_or_else(|| {
            let value = Rc::new(T::default());
            self.common.values.borrow_mut().push(value.clone());
            value
        })
    }

    /// The value, if there is one.
    pub fn common_ref<T: 'static>(&self) -> Option<Rc<T>> {
        self.common.values.borrow().iter().find_map(|value| value.clone().downcast().ok())
    }
}
