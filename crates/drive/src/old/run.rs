//! Carrying out a plan on behalf of an old tool: TLS as they have it, an end that always comes, Ctrl-C.

use brisk_load::engine::{self, Outcome, Progress};
use brisk_load::plan::{Plan, Tls};
use brisk_load::system;
use brisk_tls::{ClientContext, ClientOptions, Versions};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Any certificate is taken, as all of these tools do.
pub fn tls(name: &str, versions: Versions, resume: bool) -> Result<Tls, String> {
    let options = ClientOptions {
        versions,
        alpn: vec![b"http/1.1".to_vec()],
        no_resumption: !resume,
        ..ClientOptions::unverified()
    };
    Ok(Tls { context: Arc::new(ClientContext::new(&options)?), name: name.to_owned() })
}

/// Runs a plan. `look` sees its progress and ends it by giving `false`; so do the time limit and Ctrl-C.
pub fn run(
    plan: Plan,
    limit: Option<Duration>,
    mut look: impl FnMut(&Progress) -> bool,
) -> io::Result<(Outcome, bool)> {
    system::catch_interrupts()?;
    let run = engine::start(plan)?;
    loop {
        let over = run.is_over();
        let go_on = look(&run.progress());
        if over {
            return Ok((run.join()?, false));
        }
        let stopped = system::interrupted();
        if stopped || !go_on || limit.is_some_and(|limit| run.elapsed() >= limit) {
            run.stop();
            return Ok((run.join()?, stopped));
        }
        std::thread::sleep(LOOK);
    }
}
