//! What the master process has told its workers: reloads that were refused, and the programs that it supervises.

use super::scrape::Scrape;
use crate::news::ProgramState;

/// Workers are asked, since they are what listens; the master has no socket for clients.
pub(super) fn metrics(to: &mut Scrape) {
    let news = to.shared().news();
    let generation = to.generation;
    let help = "Reloads that were refused since the start of the master process.";
    to.counter("brisk_configuration_reloads_refused_total", help, &[], news.refused_reloads);
    // While the configuration that a refusal has left is live, nothing was reloaded since.
    let is_refused = news.last_refused.as_ref().is_some_and(|last| last.generation == generation);
    let help = "Whether the last reload was accepted; 1 if there was none.";
    let value = if is_refused { 0.0 } else { 1.0 };
    to.gauge("brisk_configuration_last_reload_successful", help, &[], value);
    // Only once there was one: a time of 0 would be 1970.
    if let Some(last) = &news.last_refused {
        let help = "When a reload was last refused, in Unix seconds, and why.";
        let labels = [("reason", last.reason.as_str())];
        to.gauge("brisk_configuration_reload_refused_seconds", help, &labels, last.unix_secs as f64);
    }
    for program in &news.programs {
        let labels = [("program", program.name.as_str())];
        // One series per state, as Prometheus has it for what is one of several.
        for state in ProgramState::ALL {
            let help = "Where a supervised program stands: 1 for its state, 0 for all others.";
            let labels = [labels[0], ("state", state.name())];
            let value = if state == program.state { 1.0 } else { 0.0 };
            to.gauge("brisk_program_state", help, &labels, value);
        }
        let help = "The process of a supervised program; 0 while there is none.";
        to.gauge("brisk_program_process", help, &labels, f64::from(program.pid));
        let help = "Since when a supervised program is in its state, in Unix seconds.";
        to.gauge("brisk_program_since_seconds", help, &labels, program.since_unix_secs as f64);
        let help = "How often a supervised program was started.";
        to.counter("brisk_program_starts_total", help, &labels, program.starts);
        let help =
            "How often a supervised program ended by itself, did not become ready, or was found unhealthy.";
        to.counter("brisk_program_failures_total", help, &labels, program.failures);
        let help = "Lines of a supervised program's output that were left out of the log, being too many.";
        to.counter("brisk_program_lost_lines_total", help, &labels, program.lost_lines);
    }
}
