//! `ngx_http_random_index_module`: any file of a directory as its index.

use crate::directory::{self, Failure};
use crate::hide_files;
use brisk_conf::Context;
use brisk_http::Method;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::path;
use brisk_server::plan::{Declared, Declaring, Plan};
use brisk_server::request::Request;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "random_index",
    rows: ROWS,
    conf: || Arc::new(Conf { on: false }),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[directive("random_index")
    .doc("Whether a file of the directory, picked anew for each request, stands for it. Files whose names begin with a dot are left out.")
    .in_(Context::LOCATION)
    .takes_flag()
    .default("off")
    .example("random_index on;")
    .sets(|cx, on| cx.conf::<Conf>().on = on)];

#[derive(Clone)]
struct Conf {
    on: bool,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    if cx.conf_of::<Conf>().on {
        let hidden = hide_files::filter(cx);
        // What it draws is awaited, and noted by that.
        let handler = Declaring(Declared::RECORDED, move |r: &mut Request| handle(r, hidden));
        plan.add_content(10, Arc::new(handler));
    }
}

fn handle(r: &mut Request, hidden: hide_files::Filter) -> Flow {
    // POST too, as in nginx: the redirect within the server keeps the method, and what it leads to decides.
    if !r.route.uri.ends_with(b"/") || !matches!(r.route.method, Method::Get | Method::Head | Method::Post) {
        return Flow::Next;
    }
    let Some(mapped) = path::map(r, 0) else { return Flow::Status(404) };
    let path = directory::named_by(mapped.path());
    let uri = r.route.uri.clone();
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            match directory::on_pool(path, move |path| files(path, |name| hidden.hides(&uri, name))).await {
                // An empty folder is left to whoever comes next, such as a list of it.
                Ok(names) => pick(&names).map_or(Flow::Next, |name| {
                    // Within the server: the file's own location serves it, with its rules.
                    let uri = [&*r.route.uri, name].concat();
                    Flow::Redirect { uri, args: None }
                }),
                Err(failure) => Flow::Status(failure.report(r)),
            }
        })
    }))
}

/// Names of the regular files in a directory, links to such included.
fn files(path: &Path, is_hidden: impl Fn(&[u8]) -> bool) -> Result<Vec<Vec<u8>>, Failure> {
    let mut names = Vec::new();
    directory::each(path, |entry| {
        // The entry itself says what it is, without another call for each; only links have to be followed.
        let is_file = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_file(),
            _ => directory::metadata(entry)?.is_file(),
        };
        if is_file && !is_hidden(entry.file_name().as_bytes()) {
            names.push(entry.file_name().as_bytes().to_vec());
        }
        Ok(())
    })?;
    Ok(names)
}

/// One of them, all equally likely. Nothing secret hangs on it: the standard hasher's random keys are enough.
fn pick(names: &[Vec<u8>]) -> Option<&[u8]> {
    let random = RandomState::new().build_hasher().finish();
    // By multiplication: a remainder would prefer the first ones.
    let index = (u128::from(random) * names.len() as u128) >> 64;
    names.get(index as usize).map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::messages_in_location;

    #[test]
    fn every_name_can_be_picked() {
        assert_eq!(pick(&[]), None);
        let names = [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
        for name in &names {
            assert!((0..1000).any(|_| pick(&names) == Some(name)));
        }
    }

    #[test]
    fn only_on_or_off() {
        messages_in_location("random_index on;", &[]);
        messages_in_location(
            "random_index yes;",
            &["invalid value \"yes\" in \"random_index\" directive, it must be \"on\" or \"off\""],
        );
    }
}
