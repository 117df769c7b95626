//! `include_apache`: virtual hosts of Apache's beside servers of this language.

use super::own_files::{self, Arguments, exports};
use brisk_conf::{Diag, Directive};
use brisk_server::conf::Cx;

/// The files' hosts as a block of servers.
pub fn servers(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Directive, Diag> {
    let token = d.arg(0);
    let path = cx.global.loader.resolve(token.str());
    if path.contains(['"', '\n', '\\']) {
        return Err(Diag::emerg(token.span, format!("invalid path \"{path}\"")));
    }
    let mut arguments = Arguments { root: usual_root(&path), is_included: true, ..Arguments::default() };
    for arg in &d.args[1..] {
        match arg.str().split_once('=') {
            Some(("root", root)) => arguments.root = cx.global.loader.resolve(root),
            Some(("define", name)) => arguments.defines.push(name.to_string()),
            _ => {
                return Err(Diag::emerg(arg.span, format!("invalid parameter \"{}\"", arg.text()))
                    .help("root=DIR names Apache's ServerRoot, define=NAME what <IfDefine> asks for"));
            }
        }
    }
    let text = cx.global.loader.read(&format!("{}/envvars", arguments.root.trim_end_matches('/')));
    let text = text.map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
    arguments.env = exports(&text).into_iter().collect();
    arguments.exported = arguments.env.keys().cloned().collect();
    // As of `include`: a pattern without files is none.
    let optional = if path.contains(['*', '?', '[']) { "Optional" } else { "" };
    arguments.before = vec![format!("Include{optional} \"{path}\"")];
    let global = &mut *cx.global;
    let told = own_files::read(None, global.loader, global.sources, &arguments, global.diags);
    Ok(Directive { block: Some(told.tree), ..d.clone() })
}

/// `/etc/apache2` for `/etc/apache2/sites-enabled/*.conf`.
fn usual_root(path: &str) -> String {
    let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
    for name in ["/sites-enabled", "/sites-available", "/conf.d"] {
        if let Some(root) = folder.strip_suffix(name) {
            return root.to_string();
        }
    }
    folder.to_string()
}
