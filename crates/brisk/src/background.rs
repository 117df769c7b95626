//! Going into the background. The process that was called stays until the server serves, and its exit code says whether it
//! does. The server lets go of everything that its caller may read to the end.

use brisk_net::sys;
use brisk_server::conf::LogTarget;
use brisk_server::core::CoreConf;
use brisk_server::log::LogFile;
use rustix::fd::{AsFd as _, BorrowedFd};
use std::cell::RefCell;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::rc::Rc;
use std::sync::Arc;

/// What the server writes when it serves; anything else is the reason why it does not.
const SERVING: &str = "serving";

/// Which of the two processes this is.
pub enum Detached {
    /// The one that was called.
    First(Waiting),
    /// The one that is to serve.
    Daemon(Caller),
}

/// The first process waits with it.
pub struct Waiting(PipeReader);

impl Waiting {
    /// Waits until the server serves. The error says why it does not.
    pub fn wait(mut self) -> Result<(), String> {
        let mut told = String::new();
        match self.0.read_to_string(&mut told) {
            Ok(_) if told == SERVING => Ok(()),
            Ok(_) if !told.is_empty() => Err(told),
            Ok(_) => Err("the server ended while starting; see the error log".into()),
            Err(error) => Err(format!("waiting for the server failed ({error})")),
        }
    }
}

/// The process that waits to be told, if there is one.
#[derive(Clone, Default)]
pub struct Caller(Rc<RefCell<Option<PipeWriter>>>);

impl Caller {
    /// False where there is none.
    fn tell(&self, text: &str) -> bool {
        // One that has been killed meanwhile needs no answer.
        self.0.take().map(|mut pipe| pipe.write_all(text.as_bytes())).is_some()
    }

    pub fn serving(&self) {
        self.tell(SERVING);
    }

    /// False where there is none, and the reason is still to be shown.
    pub fn failed(&self, message: &str) -> bool {
        self.tell(message)
    }

    /// A worker has nothing to tell: the caller must not wait for its end.
    pub fn forget(&self) {
        self.0.take();
    }
}

/// Becomes two processes.
pub fn detach() -> Result<Detached, String> {
    let fail = |error: io::Error| format!("going into the background failed ({error})");
    let (reader, writer) = io::pipe().map_err(fail)?;
    if let sys::Fork::Parent(_) = sys::fork().map_err(fail)? {
        return Ok(Detached::First(Waiting(reader)));
    }
    let caller = Caller(Rc::new(RefCell::new(Some(writer))));
    let alone = || -> io::Result<()> {
        sys::new_session()?;
        let null = null()?;
        [rustix::stdio::stdin(), rustix::stdio::stdout()]
            .into_iter()
            .try_for_each(|stream| lead(null.as_fd(), stream))
    };
    if let Err(error) = alone() {
        caller.failed(&fail(error));
        sys::exit_now(1);
    }
    Ok(Detached::Daemon(caller))
}

fn null() -> io::Result<std::fs::File> {
    std::fs::File::options().read(true).write(true).open("/dev/null")
}

fn lead(target: BorrowedFd<'_>, stream: BorrowedFd<'_>) -> io::Result<()> {
    sys::replace_fd(target, stream)?;
    sys::set_cloexec(stream, false)
}

/// Leads the error stream of a process in the background into its error log, as nginx does: what a library or a panic prints
/// is found there. A log that is to go to the terminal keeps the terminal.
pub fn lead_errors(core: &CoreConf, logs: &[Arc<LogFile>]) {
    if logs.iter().any(|log| log.target == LogTarget::Stderr) {
        return;
    }
    let mut files = core.error_log.iter().filter_map(|to| logs.get(to.log.0 as usize));
    let file = files.find(|log| matches!(log.target, LogTarget::File(_)));
    // If this fails stderr stays as it is. Only what is no log message, such as a panic's text, is then missing in the log.
    let _ = match file {
        Some(log) => lead(log.fd().as_fd(), rustix::stdio::stderr()),
        None => null().and_then(|null| lead(null.as_fd(), rustix::stdio::stderr())),
    };
}
