//! `hide_files`: names that no visitor is meant to reach (`.git`, editor backups, dumps, keys, sources of programs).
//!
//! The list is in [`names`]; `autoindex` and `random_index` leave the same names out.

mod names;

use brisk_conf::{Context, Risk};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Declaring, Plan};
use brisk_server::request::Request;
use names::Why;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "hide_files",
    rows: ROWS,
    conf: || Arc::new(Conf { on: false }),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[directive("hide_files")
    .doc("Whether files that are not meant for visitors are refused and left out of listings: dot files (.well-known stays), editor backups, dumps, keys (404), and sources of programs that run elsewhere, such as PHP (403). The list is in docs/running.md.")
    .in_(Context::HSL)
    .takes_flag()
    .default("off")
    .risk(Risk::Security)
    .example("hide_files on;")
    .sets(|cx, on| cx.conf::<Conf>().on = on)];

#[derive(Clone)]
pub struct Conf {
    on: bool,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// Which names of a directory's entries are hidden in a location.
pub fn filter(cx: &Cx<'_, '_>) -> Filter {
    Filter { on: cx.conf_of::<Conf>().on }
}

/// Says which entries of directories a listing leaves out.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    on: bool,
}

impl Filter {
    /// Whether the entry `name` of the directory at `uri` is left out.
    pub fn hides(self, uri: &[u8], name: &[u8]) -> bool {
        // With its folder: what is in a hidden folder is hidden.
        self.on && names::judge(&[uri, name].concat()).is_some()
    }
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    if cx.conf_of::<Conf>().on {
        // In the phase before access: nobody is asked for a password for what nobody gets.
        plan.preaccess.push(Arc::new(Declaring(Declared::RECORDED, handle)));
        // `try_files` changes the URI after the access phase: the name is judged again before a file is opened.
        plan.add_content(0, Arc::new(Declaring(Declared::RECORDED, handle)));
    }
}

fn handle(r: &mut Request) -> Flow {
    match names::judge(&r.route.uri) {
        None => Flow::Next,
        Some(Why::Private) => {
            // Info: such names are asked for by scanners all day.
            brisk_server::rlog!(r, Info, "\"{}\" is hidden by \"hide_files\"", shown(&r.route.uri));
            Flow::Status(404)
        }
        Some(Why::Program) => {
            brisk_server::rlog!(
                r,
                Error,
                "\"{}\" is the source of a program, which \"hide_files\" does not give out",
                shown(&r.route.uri)
            );
            Flow::Status(403)
        }
    }
}

fn shown(uri: &[u8]) -> String {
    // In the log it is one line, whatever bytes it has.
    uri.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use crate::check::messages_in_location;

    #[test]
    fn only_on_or_off() {
        messages_in_location("hide_files on;", &[]);
        messages_in_location(
            "hide_files all;",
            &["invalid value \"all\" in \"hide_files\" directive, it must be \"on\" or \"off\""],
        );
    }
}
