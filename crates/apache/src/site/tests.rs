//! Whole files, told in Brisk's language.

use super::*;
use crate::testing::Rust;
use brisk_conf::{Directive, Loader, SourceMap};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

struct Memory(BTreeMap<&'static str, &'static str>);

impl Loader for Memory {
    fn resolve(&self, path: &str) -> String {
        path.to_string()
    }

    fn read(&self, path: &str) -> io::Result<Arc<[u8]>> {
        let text = self.0.get(path);
        text.map(|text| text.as_bytes().into()).ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<String>> {
        let options = crate::glob::Options { is_path: true, ignores_case: false };
        let matches = |name: &&&str| crate::glob::matches(pattern.as_bytes(), name.as_bytes(), options);
        Ok(self.0.keys().filter(matches).map(ToString::to_string).collect())
    }

    fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::from_raw_os_error(2))
    }
}

fn shown(tree: &[Directive], depth: usize, out: &mut String) {
    for directive in tree {
        out.push_str(&"  ".repeat(depth));
        out.push_str(directive.name());
        for arg in &directive.args {
            out.extend([" ", &*arg.text()]);
        }
        out.push('\n');
        if let Some(inner) = &directive.block {
            shown(inner, depth + 1, out);
        }
    }
}

fn told(files: &[(&'static str, &'static str)]) -> Result<(String, Vec<String>), Vec<String>> {
    let loader = Memory(files.iter().copied().collect());
    let arguments = Arguments {
        root: "/etc/apache2".into(),
        env: BTreeMap::from([("LOGS".to_string(), "/var/log".to_string())]),
        ..Arguments::default()
    };
    let mut sources = SourceMap::default();
    let files = Files::new(&loader, &mut sources, &arguments);
    let nodes = files.read(Some("/etc/apache2/apache2.conf"), &Rust).map_err(|mistake| vec![mistake.text])?;
    match translate(&files, nodes) {
        Ok(translated) => {
            let mut out = String::new();
            shown(&translated.tree, 0, &mut out);
            Ok((out, translated.notices.into_iter().map(|(_, text)| text).collect()))
        }
        Err(mistakes) => Err(mistakes
            .into_iter()
            .map(|mistake| {
                let line = files.span(mistake.line).map_or(0, |span| span.start);
                format!("{line}: {}", mistake.text)
            })
            .collect()),
    }
}

#[test]
fn hosts_become_servers_and_what_is_about_requests_stays() {
    let (tree, notices) = told(&[
        (
            "/etc/apache2/apache2.conf",
            "LoadModule alias_module x.so\nLoadModule lua_module y.so\nErrorLog ${LOGS}/error.log\nKeepAliveTimeout 5\nIncludeOptional none/*.conf\nInclude ports.conf\n<Directory />\nRequire all denied\n</Directory>\nLogFormat \"%h %s\" short\nCustomLog ${LOGS}/access.log short\n<IfModule mod_lua.c>\nLuaScope x\n</IfModule>\nInclude sites/*.conf",
        ),
        ("/etc/apache2/ports.conf", "Listen 80\n<IfModule mod_ssl.c>\nListen 443\n</IfModule>"),
        (
            "/etc/apache2/sites/a.conf",
            "<VirtualHost *:80>\nServerName A.example:80\nServerAlias *.a.example a*.example\nDocumentRoot /srv/a/\nAlias /i/ /srv/i/\nAlias /x /srv/x\nAlias /x/y /srv/y\n<Location /p>\nRequire ip 10\n</Location>\n<FilesMatch \\.php$>\nSetHandler \"proxy:unix:/run/p|fcgi://l\"\n</FilesMatch>\n</VirtualHost>\n<VirtualHost *:443>\nSSLEngine on\n</VirtualHost>",
        ),
    ])
    .unwrap();
    for wanted in [
        "error_log /var/log/error.log warn\n",
        "http\n  log_format apache_0 $remote_addr $status\n",
        "  keepalive_timeout 5s\n",
        "  access_log /var/log/access.log apache_0\n",
        "  apache_site\n    Directory /\n      Require all denied\n",
        "    listen 80\n    server_name a.example *.a.example ~^a.*\\.example$\n    root /srv/a\n",
        "      Location /p\n        Require ip 10\n",
        "      BriskHandler @apache_handler_",
        "    location ^~ /i/\n      alias /srv/i/\n    location = /x\n      alias /srv/x\n    location ^~ /x/\n      alias /srv/x/\n    location /\n",
        "      fastcgi_pass unix:/run/p\n",
    ] {
        assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
    }
    assert!(!tree.contains("443") && !tree.contains("/srv/y"), "{tree}");
    for wanted in ["Brisk does not have the module lua", "never used: no Listen", "never used: a line above"]
    {
        assert!(notices.iter().any(|text| text.contains(wanted)), "{wanted}: {notices:?}");
    }
}

#[test]
fn mistakes_are_all_told_with_their_places() {
    let check = |text: &'static str, wanted: &[&str]| {
        let got = told(&[("/etc/apache2/apache2.conf", text)]).expect_err(text);
        assert_eq!(got.len(), wanted.len(), "{got:?}");
        for (got, wanted) in got.iter().zip(wanted) {
            assert!(got.contains(wanted), "{got:?} has no {wanted:?}");
        }
    };
    check(
        "Listen 80\nNonsense x\nScriptAlias /c /d",
        &["10: Nonsense: Invalid", "21: ScriptAlias: Brisk runs no CGI"],
    );
    check("Listen 80\nErrorLog ${NONE}/x", &["nothing defines the variable"]);
    check("Listen 80\nCustomLog \"|rotatelogs\" common", &["name a file"]);
    check("Include none.conf", &["there is no file /etc/apache2/none.conf"]);
    check("Include apache2.conf", &["more than 64 files"]);
    check("ServerName a", &["no listening sockets available"]);
    check("Listen 80\n<Proxy *>\n</Proxy>", &["does not support"]);
}
