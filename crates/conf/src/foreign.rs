//! Files of other programs, recognised by how they begin, so that one message says it instead of many that do not.

/// What a text that is no configuration of nginx looks like; `None`: it may well be one.
pub fn recognize(text: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(text);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines().next()?;
    let word = |line: &str| line.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let begins = word(first);
    if ["<!doctype", "<html", "<?xml"].iter().any(|tag| begins.starts_with(tag)) {
        return Some(
            "this is a web page, not a configuration: was it downloaded instead of the file itself?",
        );
    }
    if begins.starts_with("```") {
        return Some("the lines with ``` belong to the page that this was copied from: remove them");
    }
    if begins.starts_with('<') && first.ends_with('>') || APACHE.iter().any(|(name, _)| *name == begins) {
        return Some(
            "this is a configuration of Apache; Brisk reads nginx's language: server { } in place of <VirtualHost>, \
             root in place of DocumentRoot, try_files or rewrite in place of RewriteRule",
        );
    }
    let has_semicolon = lines().any(|line| line.split('#').next().unwrap_or_default().contains(';'));
    let any = |names: &[&str]| lines().any(|line| names.contains(&word(line).as_str()));
    if !has_semicolon && any(&["reverse_proxy", "file_server", "php_fastcgi", "encode", "handle", "respond"])
    {
        return Some(
            "this looks like a Caddyfile; Brisk reads nginx's language: proxy_pass in place of reverse_proxy, root in \
             place of file_server",
        );
    }
    if !has_semicolon && ["global", "defaults", "frontend", "backend", "listen"].contains(&begins.as_str()) {
        return Some("this looks like a configuration of HAProxy; Brisk reads nginx's language");
    }
    None
}

/// Directives of other servers in lower case, and what does the same here.
const APACHE: &[(&str, &str)] = &[
    ("allowoverride", ""),
    ("customlog", "access_log"),
    ("directoryindex", "index"),
    ("documentroot", "root"),
    ("errordocument", "error_page"),
    ("errorlog", "error_log"),
    ("expiresactive", "expires"),
    ("expiresbytype", "expires"),
    ("loadmodule", ""),
    ("proxypass", "proxy_pass"),
    ("proxypassreverse", "proxy_redirect"),
    ("proxypreservehost", "proxy_set_header"),
    ("redirectmatch", "rewrite"),
    ("redirectpermanent", "return"),
    ("rewritebase", ""),
    ("rewritecond", "if"),
    ("rewriteengine", "rewrite"),
    ("rewriterule", "rewrite"),
    ("serveradmin", ""),
    ("serveralias", "server_name"),
    ("servername", "server_name"),
    ("setenvif", "map"),
    ("sslcertificatefile", "ssl_certificate"),
    ("sslcertificatekeyfile", "ssl_certificate_key"),
    ("sslengine", "listen"),
];

const CADDY: &[(&str, &str)] = &[
    ("encode", "gzip"),
    ("file_server", "root"),
    ("php_fastcgi", "fastcgi_pass"),
    ("redir", "return"),
    ("respond", "return"),
    ("reverse_proxy", "proxy_pass"),
];

/// Whose directive a name is that nginx does not have, and what does the same here (empty: nothing).
pub fn directive(name: &str) -> Option<(&'static str, &'static str)> {
    let find = |list: &[(&str, &'static str)]| {
        list.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(name)).map(|(_, own)| *own)
    };
    find(APACHE).map(|own| ("Apache", own)).or_else(|| find(CADDY).map(|own| ("Caddy", own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_recognised_and_own_ones_are_not() {
        let check = |text: &str, want: &str| {
            let found = recognize(text.as_bytes()).unwrap_or_default();
            assert!(if want.is_empty() { found.is_empty() } else { found.contains(want) }, "{text}: {found}");
        };
        check("# site\n<VirtualHost *:80>\n", "Apache");
        check("RewriteEngine On\nRewriteRule ^ x [L]\n", "Apache");
        check("example.com {\n  reverse_proxy localhost:3000\n}\n", "Caddyfile");
        check("<!DOCTYPE html>\n<html>", "web page");
        check("```nginx\nserver {}\n```", "```");
        check("global\n  daemon\nfrontend x\n  bind :80\n", "HAProxy");
        check("server {\n listen 80;\n}\n", "");
        check("listen 80;\n", "");
        check("", "");
        check("server {\n root /x\n}\n", "");
    }
}
