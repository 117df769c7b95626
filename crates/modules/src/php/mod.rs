//! PHP pools: processes that the server runs itself. `php_pool` defines one, `php_pass` has its scripts answer requests.
//!
//! The module reads settings and gives requests to the pool; the master process starts the pool's processes from what is left in the
//! snapshot ([`Pools`]). To requests a pool is a FastCGI application: everything that `fastcgi_…` directives say holds.

mod backend;
mod block;
pub(crate) mod watch;

use crate::gateway::fastcgi;
use backend::Pool;
use brisk_conf::{Arity, Context, Diag, Directive, Risk};
use brisk_php::Settings;
use brisk_server::conf::Cx;
use brisk_server::core::MainConf;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_upstream::backend::Backend;
use std::path::PathBuf;
use std::sync::Arc;

/// `php_pool` and `php_pass`.
pub static MODULE: Module = Module {
    name: "php",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    metrics: Some(watch::metrics),
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    directive("php_pool")
        .doc("A pool of PHP processes that Brisk runs. It takes FPM's settings, with or without \"pm.\", and queue, worker, watch, php, php_ini, php_retry, php_cgi; from= reads FPM's own pool file, whose pool of this name is taken, or its only one. The block goes before the file.")
        .in_(Context::HTTP)
        .arity(Arity::between(1, 2).or_block())
        .takes("NAME [from=FILE] [{ SETTING VALUE; ... }]")
        .many()
        .definition()
        .risk(Risk::Resource)
        .example("php_pool www { max_children 8; php_admin_value[memory_limit] 256M; queue 200 timeout=5s; }")
        .set(pool),
    directive("php_pass")
        .doc("Passes requests to a pool of PHP processes. fastcgi_… directives hold for it; without any fastcgi_param it sends what nginx's fastcgi.conf sends.")
        .in_(Context::LOCATION.or(Context::LOCATION_IF))
        .takes("POOL")
        .not_inherited()
        .example("php_pass www;")
        .set(pass),
];

/// The pools of a configuration, for the process that starts them ([`Snapshot::data`]).
///
/// [`Snapshot::data`]: brisk_host::snapshot::Snapshot::data
#[derive(Default)]
pub struct Pools(pub Vec<Arc<PoolSpec>>);

/// What is known of a pool from the configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its settings.
    pub settings: Settings,
    /// Where it takes requests.
    pub socket: PathBuf,
    /// Where it tells how it stands, and is told how many workers it is to have.
    pub control: PathBuf,
}

/// The pools so far.
#[derive(Clone, Default)]
struct Conf {
    pools: Arc<Vec<Arc<Pool>>>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn pool(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let spec = Arc::new(block::read(cx, d)?);
    let name = &spec.settings.pool;
    if cx.conf::<Conf>().pools.iter().any(|have| have.name() == name) {
        return Err(Diag::emerg(d.span, format!("duplicate php_pool \"{name}\""))
            .help("each pool has a name of its own"));
    }
    let have = cx.global.data.iter().position(|data| data.is::<Pools>());
    let mut all = match have {
        Some(at) => {
            cx.global.data.remove(at).downcast::<Pools>().map(|pools| pools.0.clone()).unwrap_or_default()
        }
        None => Vec::new(),
    };
    if let Some(text) = takes_over(cx.conf_of::<MainConf>().user.as_ref().map(|user| &*user.0), &all, &spec) {
        cx.warn(Diag::notice(d.span, text).help("give each pool a \"user\" of its own"));
    }
    all.push(spec.clone());
    cx.global.data.push(Arc::new(Pools(all)));
    let pool = Arc::new(Pool::new(spec));
    cx.global.services.push(pool.clone());
    watch::register(cx, &pool);
    Arc::make_mut(&mut cx.conf::<Conf>().pools).push(pool);
    Ok(())
}

/// The sockets of all pools are the server's user's. What is to be told of a pool that runs as that user, or of one beside it, is told once.
fn takes_over(server: Option<&str>, before: &[Arc<PoolSpec>], spec: &PoolSpec) -> Option<String> {
    let server = server.unwrap_or("nobody");
    let has_other = |spec: &PoolSpec| spec.settings.user().is_some_and(|user| user != server);
    let both = |all: &[&PoolSpec]| {
        let mut others = all.iter().filter(|spec| has_other(spec));
        let own = all.iter().find(|spec| !has_other(spec))?;
        Some((own.settings.pool.clone(), others.next()?.settings.pool.clone()))
    };
    let mut all: Vec<&PoolSpec> = before.iter().map(Arc::as_ref).collect();
    if both(&all).is_some() {
        return None;
    }
    all.push(spec);
    let (own, other) = both(&all)?;
    Some(format!(
        "PHP pool \"{own}\" runs as the user of the server's workers (\"{server}\"), who may connect to the sockets of all pools: its scripts can have pool \"{other}\" run what they want"
    ))
}

fn pass(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let pools = &cx.conf::<Conf>().pools;
    let Some(pool) = pools.iter().find(|pool| pool.name() == token.str()).cloned() else {
        let known: Vec<&str> = pools.iter().map(|pool| pool.name()).collect();
        let help = match known.as_slice() {
            [] => format!("define it in the http block: php_pool {} {{ }}", token.text()),
            known => format!("there is {}", known.join(", ")),
        };
        return Err(Diag::emerg(token.span, format!("there is no php_pool \"{}\"", token.text())).help(help));
    };
    fastcgi::pass_to_pool(cx, d, pool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{config, http, refused};

    #[test]
    fn pools_are_left_for_the_master() {
        let snap =
            http("php_pool a { pm static; max_children 3; } php_pool b { pm.max_requests 5; }").unwrap();
        let pools = snap.data::<Pools>().unwrap();
        let names: Vec<&str> = pools.0.iter().map(|pool| pool.settings.pool.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(pools.0[0].settings.children_max(), 3);
        assert_ne!(pools.0[0].socket, pools.0[1].socket);
    }

    #[test]
    fn a_pool_of_the_servers_user_beside_one_of_another_user_is_told_once() {
        let told = |text: &str| {
            let (snap, messages) = config(text);
            assert!(snap.is_some(), "{messages:?}");
            messages
                .into_iter()
                .filter(|text| text.contains("may connect to the sockets"))
                .collect::<Vec<_>>()
        };
        for text in [
            "user web; events { } http { php_pool a { user other; } php_pool b { } php_pool c { } php_pool d { user d; } }",
            "user web; events { } http { php_pool b { user web; } php_pool a { user other; } }",
            // Where `user` stands decides nothing: what is simple is carried out before the blocks.
            "events { } http { php_pool b { user web; } php_pool a { user other; } } user web;",
        ] {
            let told = told(text);
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(
                told[0].starts_with("PHP pool \"b\" runs as the user of the server's workers (\"web\")")
                    && told[0].contains("can have pool \"a\" run"),
                "{told:?}"
            );
        }
        for text in [
            "user web; events { } http { php_pool a { } php_pool b { user web; } }",
            "events { } http { php_pool a { user one; } php_pool b { user other; } }",
        ] {
            assert_eq!(told(text), [""; 0]);
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        refused(&[
            ("php_pool a { } php_pool a { }", "duplicate php_pool \"a\""),
            ("php_pool a/b { }", "invalid name \"a/b\" of a PHP pool"),
            ("php_pool a;", "php_pool \"a\" has neither a block nor a file"),
            ("php_pool a to=b { }", "invalid parameter \"to=b\""),
            ("php_pool a { pm many; }", "invalid value \"many\" of \"pm\""),
            ("php_pool a { max_children; }", "invalid number of arguments in \"max_children\""),
            ("php_pool a { x { } }", "unexpected \"{\""),
            ("server { location / { php_pass www; } }", "there is no php_pool \"www\""),
            ("php_pool w { } server { location / { php_pass www; } }", "there is no php_pool \"www\""),
        ]);
    }
}
