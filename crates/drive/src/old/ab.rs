//! `ab`: ApacheBench's flags and report.

mod options;
mod report;
#[cfg(test)]
mod tests;

use super::run;
use brisk_cli::{Call, Entry};
use brisk_load::engine::Outcome;
use brisk_load::output;
use brisk_load::plan::{Endpoint, Plan, Site, Stop, Target};
use brisk_load::stats::ErrorKind;
use options::{Options, Parsed};
use report::Report;
use std::net::ToSocketAddrs as _;
use std::time::Duration;

/// `ab`.
pub const AB: Entry =
    Entry { name: "ab", define: options::definition, run: main, inner: &[], usage_code: 22 };

fn main(call: &Call<'_>) -> i32 {
    let options = match options::parse(call.args) {
        Ok(Parsed::Run(options)) => options,
        Ok(Parsed::Text(text)) => {
            output::print(text);
            return 0;
        }
        Ok(Parsed::Usage) => return call.show_help(),
        Err(error) => {
            output::note(format_args!("ab: {error}"));
            call.hint_help();
            return 22;
        }
    };
    match carry_out(&options) {
        Ok(code) => code,
        Err(error) => {
            output::note(format_args!("ab: {error}"));
            1
        }
    }
}

fn carry_out(options: &Options) -> Result<i32, String> {
    let plan = plan(options)?;
    // A report that cannot be written is known before the load, not after it.
    let mut files = options.open_files()?;
    output::print(if options.html { report::html_banner() } else { options::banner() });
    let progress_every = options.progress_every();
    if !options.html && !options.quiet {
        let proxy =
            options.proxy.as_ref().map_or(String::new(), |(host, port)| format!("[through {host}:{port}] "));
        output::print(format_args!(
            "Benchmarking {} {proxy}(be patient){}",
            options.host,
            if progress_every > 0 { "\n" } else { "..." }
        ));
    }
    if options.verbosity >= 2 {
        output::line(format_args!(
            "INFO: {} header == \n---\n{}\n---",
            options.method,
            options.request_text()
        ));
    }
    let mut told = 0;
    let (outcome, interrupted) = run::run(plan, options.time_limit, |progress| {
        while progress_every > 0 && progress.responses >= told + progress_every {
            told += progress_every;
            output::note(format_args!("Completed {told} requests"));
        }
        // Without -r the first failed socket ends it.
        options.go_on || progress.errors == 0
    })
    .map_err(|error| error.to_string())?;
    if options.verbosity >= 3 {
        let head = outcome.heads.iter().find(|head| !head.is_empty());
        output::line(format_args!(
            "LOG: header received:\n{}",
            String::from_utf8_lossy(head.map_or(&[], Vec::as_slice))
        ));
    }
    if !options.go_on && !interrupted && outcome.stats.errors() > 0 {
        return Ok(broken_off(&outcome));
    }
    if !options.quiet {
        if progress_every > 0 {
            output::note(format_args!("Finished {} requests", outcome.stats.responses()));
        } else if !options.html {
            output::line("..done");
        }
    }
    if options.html {
        output::line(format_args!("..done\n"));
    }
    let report = Report::new(options, &outcome);
    output::print(if options.html { report.html() } else { report.text() });
    report.write_files(&mut files)?;
    Ok(0)
}

/// The words with which ab gives up, and its exit code: the error's number.
fn broken_off(outcome: &Outcome) -> i32 {
    let kind = outcome.stats.errors.seen().next().map_or(ErrorKind::Connect, |(kind, _)| kind);
    let (call, text, code) = match kind {
        ErrorKind::Dns => ("apr_sockaddr_info_get", "No address", 1),
        ErrorKind::Refused => ("apr_socket_recv", "Connection refused", 111),
        ErrorKind::Reset | ErrorKind::Stream => ("apr_socket_recv", "Connection reset by peer", 104),
        ErrorKind::Timeout | ErrorKind::ConnectTimeout => {
            ("apr_pollset_poll", "The timeout specified has expired", 70)
        }
        ErrorKind::Tls => ("SSL", "handshake failed", 1),
        ErrorKind::Protocol => ("response", "not HTTP/1.x", 1),
        ErrorKind::Closed | ErrorKind::Truncated => ("apr_socket_recv", "End of file found", 70),
        _ => ("apr_socket_connect()", kind.name(), 1),
    };
    output::note(format_args!("{call}: {text} ({code})"));
    let done = outcome.stats.responses();
    if done > 0 {
        output::line(format_args!("Total of {done} requests completed"));
    }
    code
}

fn plan(options: &Options) -> Result<Plan, String> {
    let (host, port) = options.proxy.clone().unwrap_or_else(|| (options.host.clone(), options.port));
    let address = (host.as_str(), port).to_socket_addrs();
    let address = address.map_err(|error| format!("{host}: {error}"))?.next();
    let address = address.ok_or_else(|| format!("{host} has no address"))?;
    let target = Target {
        request: options.request().into(),
        section: Box::default(),
        block: Box::default(),
        body: std::sync::Arc::new([]),
        url: None,
        is_head: options.method == "HEAD",
    };
    let site = Site { endpoint: Endpoint::Tcp(address), tunnel: None, targets: vec![target] };
    let mut plan = Plan::new(vec![site], options.concurrency, Stop::Requests(options.requests));
    plan.per_connection = (!options.keep_alive).then_some(1);
    plan.record = Some(options.requests as usize);
    plan.timeout = options.timeout;
    plan.opening_max = options.concurrency;
    plan.send_buffer = options.window;
    plan.recv_buffer = options.window;
    if options.secure {
        let name = if options.no_sni { "" } else { options.host.as_str() };
        plan.tls = Some(run::tls(name, options.versions, false)?);
    }
    if options.time_limit.is_some_and(|limit| limit < plan.timeout) {
        plan.timeout = plan.timeout.max(Duration::from_secs(1));
    }
    Ok(plan)
}
