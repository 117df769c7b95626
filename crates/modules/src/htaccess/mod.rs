//! `.htaccess`: Apache's files in the folders that are served (`directory_overrides on`).
//!
//! What the files on the way to a folder say is one [`DirPlan`], compiled on the pool and kept by their very texts; a folder without
//! a file has its parent's. The language is [`brisk_apache`]'s; this module gives it the request's facts and carries out what
//! comes of it. Four steps of a request ask the plan:
//!
//! - [`Access`](access::Access), before all else in the location: who may come in. `satisfy` of the location cannot overrule it.
//! - [`Fixups`](fixups::Fixups), before there is content: rewriting, redirects, variables, handlers, index files.
//! - [`Head`](head::Head): `Header`, `Expires…`, charsets, cookies of rules.
//! - [`Documents`](documents::Documents): `ErrorDocument`.
//!
//! Nothing fails open: what is not understood closes its folder, and a script's source is not served.

mod access;
mod before;
mod carried;
mod documents;
mod facts;
mod fixups;
mod handlers;
mod head;
pub mod include;
mod lead;
mod local;
mod login;
mod look_up;
mod negotiate;
pub mod own_files;
mod pages;
mod pattern;
mod place;
mod plan;
mod redirects;
mod secure;
mod site;
mod spelling;
mod trail;
mod variables;

use brisk_apache::directives::Places;
use brisk_apache::options::Options;
use brisk_conf::{Context, Diag, Directive, Span};
use brisk_server::conf::Cx;
use brisk_server::plan::{Needs, Plan, Stage};
pub use local::Htaccess;
use local::Local;
use plan::Ground;
pub use site::Site;
use std::sync::Arc;
pub use variables::VARIABLES;

impl Htaccess {
    /// With the arguments of the directive, of which the first is `on`.
    pub fn parse(d: &Directive) -> Result<Htaccess, Diag> {
        let (mut classes, mut php) = (None, None);
        for arg in &d.args[1..] {
            let text = arg.text();
            if let Some(name) = text.strip_prefix("php=") {
                // One: a second would be a second answer to the same question.
                if !name.starts_with('@') || name.len() == 1 || php.is_some() {
                    return Err(Diag::emerg(arg.span, format!("invalid parameter \"{text}\""))
                        .help("name one location that runs PHP: php=@php"));
                }
                php = Some((name.as_bytes().into(), arg.span));
                continue;
            }
            let class = Places::class(&text).ok_or_else(|| {
                Diag::emerg(arg.span, format!("invalid parameter \"{text}\"")).help(
                    "the classes are All, AuthConfig, FileInfo, Indexes, Limit and Options, and php=@NAME names a location",
                )
            })?;
            classes = Some(classes.unwrap_or(Places::NONE).or(class));
        }
        // Without classes all, as `AllowOverride All`: who switches it on has a site in mind.
        Ok(Htaccess { classes: classes.unwrap_or(Places::ALL), php, store: Arc::default(), site: None })
    }

    /// For a site of Apache's own files, which say themselves where others are read.
    pub fn of_site(site: Site) -> Htaccess {
        let site = Some(Arc::new(site));
        Htaccess { classes: Places::NONE, php: None, store: Arc::default(), site }
    }
}

/// Adds what comes behind `try_files`.
pub fn install_again(cx: &Cx<'_, '_>, plan: &mut Plan, htaccess: &Htaccess) {
    let local = local(cx, htaccess);
    plan.precontent.push(Arc::new(access::Again(access::Access(local.clone()))));
    plan.precontent.push(Arc::new(fixups::Again(fixups::Fixups(local))));
    plan.carried.push(carried::carry);
}

/// What becomes of each directive of Apache's in `.htaccess`.
pub fn coverage() -> Vec<(brisk_apache::directives::Row, brisk_apache::overrides::support::Support)> {
    brisk_apache::overrides::support::all(&pattern::Pcre::default())
}

/// What becomes in Apache's own files of a directive that cannot stand in `.htaccess`.
pub fn coverage_of_site(row: &brisk_apache::directives::Row) -> brisk_apache::overrides::support::Support {
    brisk_apache::site::support(row, &pattern::Pcre::default())
}

fn local(cx: &Cx<'_, '_>, htaccess: &Htaccess) -> Arc<Local> {
    // What the location's own directives come to is what a folder without files has.
    let mut options = Options::FOLLOW_SYM_LINKS;
    if crate::autoindex::is_on(cx) {
        options = options.or(Options::INDEXES);
    }
    let ground = Ground { classes: htaccess.classes, options, site: htaccess.site.clone() };
    // PHP that the location has already needs no other.
    let is_back_end = htaccess.site.as_ref().is_some_and(|site| site.is_back_end);
    let runs_scripts = crate::gateway::fastcgi::passes(cx) && !is_back_end;
    Arc::new(Local { htaccess: htaccess.clone(), ground, runs_scripts })
}

/// The files are judged in this location, too, before it runs a script.
struct Judges;

/// What is asked of the location that runs PHP: it begins anew with the request, and what the files have said of it is lost unless they are
/// read there, too.
fn needs(php: &[u8], span: Span) -> Needs {
    let name = String::from_utf8_lossy(php);
    let text = format!("location {name} runs PHP for .htaccess files, but does not read them");
    let help = format!(
        "write directory_overrides into the server's block, or into location {name}, too, and php_pass or fastcgi_pass into that: php_value, CGIPassAuth and Header would not hold there"
    );
    Needs {
        location: php.into(),
        holds: |plan| plan.data::<Judges>().is_some(),
        mistake: Diag::emerg(span, text).help(help),
    }
}

/// Adds the steps to a location's plan.
pub fn install(cx: &Cx<'_, '_>, plan: &mut Plan, htaccess: &Htaccess) {
    let local = local(cx, htaccess);
    // At the server: `Alias` and its kin decide before there is a location.
    if let Some(site) = htaccess.site.as_ref().filter(|site| cx.block == Context::SERVER && site.leads()) {
        plan.rewrite = Some(Arc::new(lead::Lead::of(site.clone())));
    }
    if let Some((name, span)) = &htaccess.php {
        plan.put(Arc::new(needs(name, *span)));
    }
    if local.runs_scripts {
        plan.put(Arc::new(Judges));
    }
    let host = htaccess.site.as_ref().map(|site| site.base().clone());
    plan.preaccess.push(Arc::new(access::Access(local.clone())));
    plan.precontent.push(Arc::new(fixups::Fixups(local.clone())));
    // (Behind `index` at 20, before listings at 30.)
    plan.add_content(25, Arc::new(fixups::Folder(local)));
    plan.add_content(55, Arc::new(handlers::File { answers_post: htaccess.site.is_some() }));
    let is_of_scripts = crate::gateway::fastcgi::passes_elsewhere(cx);
    plan.add_filter(Stage::Headers, Arc::new(head::Head { host: host.clone(), is_of_scripts }));
    plan.add_filter(Stage::Inclusion, Arc::new(pages::Pages));
    plan.add_filter(Stage::Coding, Arc::new(pages::Compression(crate::coding::Named::of(cx))));
    // The first stage in which parts of other answers pass, too.
    // Confirmed at last: what has been believed of a file must still be so.
    plan.add_filter(Stage::Decoding, Arc::new(trail::Confirm));
    plan.pages = Some(Arc::new(documents::Documents { host }));
}

#[cfg(test)]
mod tests;
