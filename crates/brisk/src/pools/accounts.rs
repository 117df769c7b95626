//! Users and groups that pools name: whether this machine has them.

use brisk_conf::Diag;
use brisk_net::sys;
use brisk_php::Settings;
use brisk_server::conf::Snapshot;

/// What is wrong with them, over all pools of a configuration. A number is no name: the pool master looks at it.
pub fn unknown(snap: &Snapshot) -> Vec<Diag> {
    super::program::specs(snap).iter().flat_map(|pool| of_pool(&pool.settings)).collect()
}

fn of_pool(settings: &Settings) -> Vec<Diag> {
    let is_name = |text: &&str| !text.bytes().all(|byte| byte.is_ascii_digit());
    let user = settings.user().filter(is_name).filter(|name| sys::user(name).is_none());
    let group = settings.group().filter(is_name).filter(|name| sys::group(name).is_none());
    let pool = &settings.pool;
    let user = user.map(|name| {
        Diag::global(format!("there is no user \"{name}\", whom PHP pool \"{pool}\" names"))
            .help(format!("name another \"user\", or make it (useradd --system --no-create-home {name})"))
    });
    let group = group.map(|name| {
        Diag::global(format!("there is no group \"{name}\", which PHP pool \"{pool}\" names"))
            .help(format!("name another \"group\", or make it (groupadd --system {name})"))
    });
    user.into_iter().chain(group).collect()
}
