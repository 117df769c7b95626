//! `directory_overrides`: files in the folders that are served which change the settings of their folders.
//!
//! There are two languages for them. In nginx's (`own`), directives are compiled as if they stood in the location
//! ([`brisk_server::late`]). In Apache's (`.htaccess`, [`crate::htaccess`]), they become settings that handlers ask. Which files there
//! are and what stands in them is the same for both (`files`); that one has changed is told by the cache of files, as of any
//! other that is served.

pub mod files;
mod own;

use crate::htaccess::{self, Htaccess};
use brisk_conf::{Arity, Context, Diag, Directive, Risk};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::Plan;
use own::Overrides;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "directory_overrides",
    rows: ROWS,
    variables: htaccess::VARIABLES,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

/// Stands behind `try_files` in the list of modules: what that leads to is judged, too.
/// (By a module of its own, since a module has one place in the order.)
pub static AGAIN: Module =
    Module { name: "directory_overrides_again", install: Some(again), ..Module::EMPTY };

static ROWS: &[Row] = &[
    directive("apache_site")
    .doc("What Apache's own files say of requests, in Apache's language: <Directory>, <Location>, Require, Header and others, each with the rest of its line as one parameter. It stands in the place of directory_overrides: AllowOverride says where .htaccess files are read. brisk httpd makes it of httpd.conf; brisk convert apache prints it. In a location, its one line BriskBackEnd says that no files are judged for an application behind FastCGI.")
    .in_(Context::HTTP.or(Context::SERVER).or(Context::LOCATION))
    .arity(Arity::NONE.block())
    .risk(Risk::Security)
    .example("apache_site { Directory /srv/site { AllowOverride All; Require \"all granted\"; } }")
    .set(site),
    directive("include_apache")
        .doc("Serves the virtual hosts of Apache's files beside those of this language. A pattern may have wildcards; root= is Apache's ServerRoot, for relative paths and for envvars (without it the folder above sites-enabled, else the files' own), define= what <IfDefine> asks for. All modules that Brisk stands for count as loaded, and each host listens on the ports that its <VirtualHost> names.")
        .in_(Context::HTTP)
        .arity(Arity::SOME)
        .takes("FILES [root=DIR] [define=NAME ...]")
        .many()
        .definition()
        .risk(Risk::Security)
        .example("include_apache sites/*.conf define=LIVE;")
        .set_and_block(|_, _| Ok(()), include),
    directive("directory_overrides")
    .doc("Files in the folders that are served change the settings of their folders and those below. They take effect when they are saved, and cost prepared answers nothing. A file with a mistake answers 500 for its folder, one that cannot be read 403. on: .htaccess files in Apache's language; the classes are those of AllowOverride (AuthConfig, FileInfo, Indexes, Limit, Options; without one: all), php= names the location that runs PHP for files that the location has no PHP for. FILE: files of this name hold directives of this language as if they stood in the location: headers (add_header, add_trailer, expires, default_type), index (index, autoindex and its format), access (allow, deny, satisfy, auth_basic), errors (error_page), rewrite (rewrite but with the flag break, return, if, set).")
    .in_(Context::HSL)
    .arity(Arity::SOME)
    .takes("off | on [CLASS ...] [php=@NAME] | FILE CLASS ...")
    .default("off")
    .risk(Risk::Security)
    .example("directory_overrides .brisk headers index;")
    .set(set)];

/// The language of the files.
#[derive(Clone)]
enum Language {
    Own(Overrides),
    Apache(Htaccess),
}

#[derive(Clone, Default)]
struct Conf {
    language: Option<Language>,
    /// These are the settings of a file in this server's language, in a location extended by it.
    is_extended: bool,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, into: Context) -> bool {
        into == Context::LATE
    }

    /// What stands in the files is not extended again.
    fn enter(&mut self, _: Context) -> bool {
        self.is_extended |= matches!(self.language, Some(Language::Own(_)));
        self.language = None;
        true
    }
}

fn include(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // As if they stood here, so that what is written around them holds for them.
    let block = htaccess::include::servers(cx, d)?;
    cx.block_here(&block);
    Ok(())
}

fn site(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.is_unusual("Authorization");
    // What an outer block says of Apache's files holds on in an inner one.
    let outer = match &cx.conf_of::<Conf>().language {
        Some(Language::Apache(htaccess)) => htaccess.site.clone(),
        _ => None,
    };
    let site = if cx.block == Context::LOCATION {
        htaccess::Site::of_back_end(d, outer.as_deref())?
    } else {
        htaccess::Site::parse(d, outer.as_deref(), cx.global.sources)?
    };
    cx.conf::<Conf>().language = Some(Language::Apache(Htaccess::of_site(site)));
    Ok(())
}

fn set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let language = match d.arg(0).bytes() {
        b"off" if d.args.len() == 1 => None,
        b"on" => {
            // The rules of many programs read it in every request; hardly any request for a file has it.
            cx.is_unusual("Authorization");
            Some(Language::Apache(Htaccess::parse(d)?))
        }
        _ => Some(Language::Own(Overrides::parse(d)?)),
    };
    cx.conf::<Conf>().language = language;
    Ok(())
}

/// Whether `.htaccess` files may say what is listed.
pub fn is_apache(cx: &Cx<'_, '_>) -> bool {
    matches!(cx.conf_of::<Conf>().language, Some(Language::Apache(_)))
}

fn again(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    match &conf.language {
        Some(Language::Apache(htaccess)) => htaccess::install_again(cx, plan, htaccess),
        Some(Language::Own(_)) => plan.precontent.push(Arc::new(own::SameFolder)),
        // (An extended location has no language of its own any more.)
        None if conf.is_extended => plan.precontent.push(Arc::new(own::SameFolder)),
        None => {}
    }
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    match &cx.conf_of::<Conf>().language {
        None => {}
        Some(Language::Own(overrides)) => {
            plan.is_extended_later = true;
            plan.preaccess.push(Arc::new(overrides.clone()));
        }
        Some(Language::Apache(htaccess)) => htaccess::install(cx, plan, htaccess),
    }
}
