//! A thread's view of one configuration.

use crate::conf::ids::{LocationId, ServerId};
use crate::conf::snapshot::Snapshot;
use crate::core::http_conf::CoreConf;
use crate::metrics::places::Places;
use crate::serving::{Http, Served};
use brisk_host::log::LogFile;
use brisk_host::thread::Listener;
use brisk_http::HeadOptions;
use std::cell::{OnceCell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A thread's view of one configuration.
/// It has what must not be shared between threads: prepared answers, and cells in which requests are counted.
pub struct Live<S: Served = Http> {
    /// What it says.
    pub snap: Arc<Snapshot<S>>,
    pub(crate) base: brisk_host::thread::Live,
    pub(crate) prepared: RefCell<S::Prepared>,
    /// The same for HTTP/2: heads are blocks.
    pub(crate) prepared_h2: RefCell<S::Prepared>,
    pub(crate) prepared_h3: RefCell<S::Prepared>,
    /// Limits of request heads, by [`ListenId`](crate::conf::ids::ListenId).
    pub(crate) head_options: Vec<HeadOptions>,
    /// `None`: nobody asks for the numbers of requests.
    pub(crate) places: Option<Places>,
    /// What the present one is beside, with a location that was compiled late; `None`: it is none of these.
    pub(crate) root: Option<Rc<Live<S>>>,
    /// What was compiled late.
    pub(crate) late: OnceCell<S::Late>,
}

impl<S: Served> Deref for Live<S> {
    type Target = brisk_host::thread::Live;

    fn deref(&self) -> &brisk_host::thread::Live {
        &self.base
    }
}

impl<S: Served> Live<S> {
    /// For one thread. `logs` are open, by their number; `generation` counts reloads, from 1.
    pub fn new(snap: Arc<Snapshot<S>>, logs: Arc<Vec<Arc<LogFile>>>, generation: u64) -> Live<S> {
        let head_options = snap
            // Per socket: a head is parsed before its server is known, by the rules of the socket's default server, as in nginx.
            .listens
            .iter()
            .map(|listen| {
                let core = &snap.location(snap.server(listen.default_server).root).core;
                HeadOptions {
                    ignore_invalid_headers: core.ignore_invalid_headers,
                    underscores_in_headers: core.underscores_in_headers,
                    first_buffer: core.client_header_buffer_size as usize,
                    line_max: core.large_client_header_buffers.1 as usize,
                    // The number and the size of `large_client_header_buffers`; the limits of a head follow
                    // from both.
                    buffers_max: core.large_client_header_buffers.0 as usize,
                    headers_max: core.max_headers as usize,
                }
            })
            .collect();
        let places = snap.records_requests.then(Places::default);
        Live {
            base: brisk_host::thread::Live { snap: snap.base.clone(), logs, generation },
            snap,
            // Empty with each configuration: an answer of the old one may be wrong in the new one.
            prepared: RefCell::default(),
            prepared_h2: RefCell::default(),
            prepared_h3: RefCell::default(),
            head_options,
            places,
            root: None,
            late: OnceCell::new(),
        }
    }

    /// The configuration of the default server of a listening socket, if that is still there.
    /// A reload may have taken the socket away while its connections are still here.
    pub fn default_core(&self, listener: &Listener) -> Option<&Arc<CoreConf>> {
        let server = self.snap.server(self.snap.listen(listener.id.get()?).default_server);
        Some(&self.snap.location(server.root).core)
    }

    /// The time in which a connection's first request must be there.
    pub fn header_timeout(&self, listener: &Listener) -> Duration {
        self.default_core(listener).map_or(Duration::ZERO, |core| core.client_header_timeout)
    }

    /// See [`Snapshot::reduced`].
    pub(crate) fn reduced(&self, server: ServerId, location: LocationId) -> Live<S> {
        let snap = self.snap.reduced(server, location);
        Live {
            base: brisk_host::thread::Live { snap: snap.base.clone(), ..self.base.clone() },
            snap: Arc::new(snap),
            prepared: RefCell::default(),
            prepared_h2: RefCell::default(),
            prepared_h3: RefCell::default(),
            // It serves no further request, so it reads no heads.
            head_options: Vec::new(),
            // Requests go on being counted where they were.
            places: self.places.as_ref().map(|places| places.reduced(self.snap.place_of(location))),
            root: None,
            late: OnceCell::new(),
        }
    }

    /// For a request that goes on in a location that was compiled late.
    pub(crate) fn late(root: Rc<Live<S>>, snap: Arc<Snapshot<S>>) -> Live<S> {
        Live {
            base: root.base.clone(),
            snap,
            prepared: RefCell::default(),
            prepared_h2: RefCell::default(),
            prepared_h3: RefCell::default(),
            head_options: Vec::new(),
            // A late location has cells of its own, by its number within what was compiled.
            places: root.places.as_ref().map(|_| Places::default()),
            root: Some(root),
            late: OnceCell::new(),
        }
    }

    /// The configuration as it was started.
    pub(crate) fn root(&self) -> &Live<S> {
        self.root.as_deref().unwrap_or(self)
    }

    /// The same, to be kept.
    pub(crate) fn shared_root(self: &Rc<Self>) -> Rc<Live<S>> {
        self.root.as_ref().unwrap_or(self).clone()
    }
}
