//! What the command line says.

use super::goal::Goal;
use super::relay::External;
use super::store;
use super::traffic::target_of;
use crate::endpoint::Address;
use brisk_load::arrivals::Rate;
use brisk_load::cli::args;
use brisk_load::url::Url;
use brisk_tune::knob::Risk;
use clap::{Parser, ValueHint};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Finds what limits a site, changes it on a copy of the site, and says what is proved to be better
#[derive(Debug, Parser)]
#[command(
    after_help = "The copy runs the site's own programs on the site's own files, in namespaces of its own: it has no network but loopback, and \
    what it writes goes to memory and disappears with it. The site itself is neither asked nor changed. Needs root, util-linux and \
    iproute2.\n\n\
    Goals: \"max rate\", \"min p95\" (any percentile), \"min mean\", \"min cpu\", \"min memory\", each with promises behind \"where\".\n\n\
    Exit code: 0 the search is complete, with a gain or without, 1 wrong usage, or the copy does not run, 2 nothing could be found out, \
    3 the promises do not hold even with the best settings."
)]
pub struct Wishes {
    /// The page to ask the copy for
    #[arg(value_name = "URL", value_parser = given, required_unless_present_any = ["scenario", "live"], conflicts_with_all = ["scenario", "live"])]
    pub url: Option<Url>,
    /// Users of this scenario in place of a page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub scenario: Option<String>,
    /// One figure to improve, and promises that must hold
    #[arg(long, value_name = "GOAL", value_parser = Goal::parse, default_value = "max rate")]
    pub goal: Goal,
    /// How long it may take, confirmation included
    #[arg(long, value_name = "TIME", value_parser = args::some_time, default_value = "10m")]
    pub budget: Duration,
    /// How many users ask at a time [default: 10, or the scenario's]
    #[arg(short, long, value_name = "N", value_parser = args::connections)]
    pub users: Option<usize>,
    /// Requests per second, however slow the answers are
    #[arg(short, long, value_name = "RATE", value_parser = args::rate, conflicts_with = "scenario")]
    pub rate: Option<Rate>,
    /// The web server's configuration [default: that of the server at the URL's port, else Brisk's own, else /etc/nginx/nginx.conf]
    #[arg(long = "site", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub server: Option<String>,
    /// Apache's configuration, if that is the web server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "server")]
    pub apache: Option<String>,
    /// Its program [default: brisk for its own configuration, else nginx or apache2]
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub program: Option<String>,
    /// php.ini, and files of its conf.d [default: that of the PHP that is asked, else PHP-FPM's of the newest version in /etc/php]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub php_ini: Vec<String>,
    /// Files with PHP-FPM's pools [default: those of the PHP-FPM that is asked, else pool.d of the same version]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub fpm: Vec<String>,
    /// The pool whose settings are tried, where there are several
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// Try these settings only, whatever the limit is
    #[arg(long, value_name = "NAME,NAME...", value_delimiter = ',')]
    pub knobs: Vec<String>,
    /// Try settings with this risk, too: durability, security, correctness
    #[arg(long, value_name = "RISK,RISK...", value_delimiter = ',', value_parser = risk)]
    pub allow: Vec<Risk>,
    /// The copy gets a copy of the database that has read this option file, made by mariadb-backup
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "share_database")]
    pub mysql: Option<String>,
    /// An option file with the user and the password of somebody who may make backups [default: root, at the database's socket]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "mysql")]
    pub mysql_login: Option<String>,
    /// The copy asks the real database, at its unix socket: what it writes there stays
    #[arg(long)]
    pub share_database: bool,
    /// The copy may reach this service outside, and no other: what it does there is real
    #[arg(long, value_name = "HOST:PORT", value_parser = External::parse)]
    pub allow_external: Vec<External>,
    /// Write the patches into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub patches: Option<PathBuf>,
    /// Write what was found into the site, prove it there again, and take it back if the gain is not there
    #[arg(long)]
    pub apply: bool,
    /// Change Brisk's own settings in small steps under real traffic, as the dashboard at this address sees it: unix:/path/of/socket:/location or
    /// http://host:port/location
    #[arg(long, value_name = "ADDRESS", value_parser = dashboard, conflicts_with_all = ["scenario", "apply", "mysql", "share_database", "apache", "users", "rate"])]
    pub live: Option<Address>,
    /// Search nothing: apply what an earlier run has found and printed with --json
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "apply")]
    pub found: Option<PathBuf>,
    /// Watch the site for this time after the proof, under the load, and take the change back if it gets worse; 0: do not
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "1m")]
    pub observe: Duration,
    /// The folder of the journal by which "brisk tune undo" takes it back
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = store::FOLDER)]
    pub state: PathBuf,
    /// Write the report as an HTML page
    #[arg(long, value_name = "FILE", value_parser = args::report_file, value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print no lines about single pairs
    #[arg(short, long)]
    pub quiet: bool,
    /// Work in the enclosure that this process has made
    #[arg(long, value_name = "PID", hide = true)]
    pub inside: Option<u32>,
    /// Where the URL's name is
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pub address: Option<IpAddr>,
    /// Where the services of the outside are
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pub external_address: Vec<SocketAddr>,
    /// Where the database's copy is
    #[arg(long, value_name = "DIR", hide = true)]
    pub database_copy: Option<PathBuf>,
}

impl Wishes {
    /// The URL of the load: the page's, or the scenario's target.
    pub fn target(&self) -> Result<Url, String> {
        match (&self.url, &self.scenario) {
            (Some(url), None) => Ok(url.clone()),
            (None, Some(file)) => target_of(file),
            _ => Err("a URL, or --scenario: one of both says what is asked for".to_owned()),
        }
    }
}

fn given(text: &str) -> Result<Url, String> {
    Url::given(text).map_err(|error| error.to_string())
}

fn dashboard(text: &str) -> Result<Address, String> {
    Address::parse(text, "/dashboard").ok_or_else(|| format!("\"{text}\" is no address of a dashboard"))
}

fn risk(text: &str) -> Result<Risk, String> {
    let all = [Risk::Durability, Risk::Security, Risk::Correctness];
    let known = all.into_iter().find(|risk| risk.name() == text);
    known.ok_or_else(|| format!("\"{text}\" is no risk: write durability, security or correctness"))
}
