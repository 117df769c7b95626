//! Whole files, told in Brisk's language.

use super::*;
use crate::testing::Rust;
use brisk_conf::{Directive, Loader, SourceMap};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

#[test]
fn paths_are_made_plain() {
    for (path, wanted) in [
        ("/srv/a/../b", "/srv/b"),
        ("/srv//a/./b/", "/srv/a/b/"),
        ("/../..", "/"),
        ("//", "/"),
        ("/srv/a..b/.c", "/srv/a..b/.c"),
    ] {
        assert_eq!(plain(path), wanted, "{path}");
    }
}

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
        env: BTreeMap::from(["LOGS", "OTHER"].map(|name| (name.to_string(), "/var/log".to_string()))),
        exported: vec!["LOGS".into()],
        ..Arguments::default()
    };
    let mut sources = SourceMap::default();
    let files = Files::new(&loader, &mut sources, &arguments);
    let nodes = files.read(Some("/etc/apache2/apache2.conf"), &Rust).map_err(|mistake| vec![mistake.text])?;
    match translate(&files, nodes, &Rust) {
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
            "<VirtualHost *:80>\nServerName A.example:80\nServerAlias *.a.example a*.example\nDocumentRoot /srv/b/../a/\nAlias /i/ /srv//i/\nAlias /x /srv/x\nAlias /x/y /srv/y\n<Location /p>\nRequire ip 10\n</Location>\n<FilesMatch \\.php$>\nSetHandler \"proxy:unix:/run/p|fcgi://l\"\n</FilesMatch>\n</VirtualHost>\n<VirtualHost *:443>\nSSLEngine on\n</VirtualHost>",
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
    check("Listen 80\n<Proxy *>\nRequire ip 10\n</Proxy>", &["Proxy: Brisk does not support Require here"]);
    check(
        "Listen 80\n<Location /a>\nProxyPass ajp://x\n</Location>",
        &["ProxyPass: Brisk does not support 'ajp://x'"],
    );
    let proxy = "Listen 80\n<Proxy *>\nOrder allow,deny\n</Proxy>";
    check(proxy, &["Proxy: Brisk does not support Order here"]);
    check(
        "Listen 80\n<Proxy balancer://a>\nBalancerMember http://b\nOrder allow,deny\n</Proxy>",
        &["Order without Allow refuses everybody"],
    );
    check("Listen 80\nProxyPass /a balancer://none/", &["there is no <Proxy balancer://none>"]);
    check(
        "Listen 80\n<Proxy balancer://a>\nBalancerMember http://b\nProxySet stickysession=X\n</Proxy>",
        &["ProxySet stickysession"],
    );
    check("Listen 80\nCustomLog x short expr=1", &["env=NAME and env=!NAME only"]);
}

#[test]
fn back_ends_and_conditions_of_logs() {
    let text = "Listen 80\n<Proxy \"*\">\nOrder deny,allow\nAllow from all\n</Proxy>\n<Proxy balancer://Group>\nBalancerMember http://10.0.0.1:8080 loadfactor=3\nBalancerMember http://10.0.0.2 status=+H route=b\nProxySet lbmethod=bybusyness\n</Proxy>\nProxyPass /g balancer://group/in\n<Location /app/>\nProxyPass http://10.0.0.3/\nProxyPassReverse http://10.0.0.3/\nRequire all denied\n</Location>\nCustomLog a \"%{dont_log}e %h\" env=!dont_log\nCustomLog b %h env=Only";
    let (tree, _) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
    for wanted in [
        "  upstream apache_balancer_group\n    least_conn\n    server 10.0.0.1:8080 weight=3\n    server 10.0.0.2:80 backup\n",
        "    location ^~ /g/\n      proxy_pass http://apache_balancer_group/in/\n",
        "      proxy_set_header Host $http_host\n",
        "    location ^~ /app/\n      proxy_pass http://10.0.0.3/\n      proxy_http_version 1.1\n      proxy_set_header Host $proxy_host\n",
        "    Location /app/\n      Require all denied\n",
        "  log_format apache_0 $apache_env_dont_log $remote_addr\n",
        "  map $apache_env_dont_log $apache_without_dont_log\n     1\n    default 0\n",
        "  access_log /etc/apache2/a apache_0 if=$apache_without_dont_log\n",
        "  access_log /etc/apache2/b apache_1 if=$apache_env_only\n",
    ] {
        assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
    }
}

#[test]
fn patterns_lead_to_back_ends() {
    let text = "Listen 80\nProxyPassMatch ^/a/(.*)$ http://10.0.0.1:81/b/$1 timeout=5\nProxyPassMatch \\.gif$ !\nProxyPass / http://10.0.0.2/\nProxyPassReverseCookieDomain inner outer\nProxyPassReverseCookiePath / /a/";
    let (tree, _) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
    for wanted in [
        "    location ~ ^/a/(.*)$\n      proxy_pass http://10.0.0.1:81/b/$1$is_args$args\n",
        "      proxy_read_timeout 5s\n    location @apache_match_4\n      proxy_pass http://10.0.0.1:81\n",
        "    location ~ \\.gif$\n    location /\n      proxy_pass http://10.0.0.2/\n",
        "  proxy_cookie_domain inner outer\n  proxy_cookie_path / /a/\n",
    ] {
        assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
    }
    let text = "Listen 80\nProxyPassMatch ^/(.*\\.php(/.*)?)$ fcgi://127.0.0.1:9000/srv/$1 timeout=5 enablereuse=on\nProxyPassMatch ^/p/ \"unix:/run/p|fcgi://localhost/srv/\"\nProxyPassMatch \\.gif$ !\nProxyPass / http://10.0.0.2/";
    let (tree, _) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
    for wanted in [
        "    location ~ ^/(.*\\.php(/.*)?)$\n      apache_site\n        BriskBackEnd\n      fastcgi_pass 127.0.0.1:9000\n",
        "      fastcgi_param SCRIPT_FILENAME /srv/$1\n      fastcgi_param SCRIPT_NAME $fastcgi_script_name\n",
        "      fastcgi_read_timeout 5s\n",
        "      fastcgi_pass unix:/run/p\n",
        "      fastcgi_param SCRIPT_FILENAME /srv$uri\n",
        "    location /\n      proxy_pass http://10.0.0.2/\n",
    ] {
        assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
    }
    let text = "Listen 80\nProxyPass /a.b/ fcgi://127.0.0.1/srv/ timeout=7\nProxyPass /c unix:/run/p|fcgi://localhost/c";
    let (tree, _) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
    for wanted in [
        "location ~ ^/a\\.b/(.*)$\n",
        "SCRIPT_FILENAME /srv/$1\n",
        "location ~ ^/c(/.*)?$\n",
        "SCRIPT_FILENAME /c$1\n",
    ] {
        assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
    }
    // Nothing but the exception stands above it.
    let text = "Listen 80\nProxyPassMatch \\.gif$ !\nProxyPass / http://10.0.0.2/";
    let (tree, _) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
    assert!(tree.contains("    location ~ \\.gif$\n    location /\n      proxy_pass"), "{tree}");
    for (url, wanted) in [
        ("fcgi://$1/", "the address of FastCGI must stand"),
        ("fcgi://a/$x", "$1 to $9 only"),
        ("http://$1/", "the host must stand"),
        ("http://a/", "without a path"),
        ("balancer://a/b", "without a path"),
        ("ajp://a/$1", "ajp"),
    ] {
        let text = format!("Listen 80\nProxyPassMatch ^/(.*)$ {url}");
        let got = told(&[("/etc/apache2/apache2.conf", text.leak())]).expect_err(url);
        assert!(got[0].contains(wanted), "{got:?}");
    }
}

/// `ProxyPass /static !` beside `Alias /static`, as for applications of Django and Rails.
#[test]
fn exceptions_of_back_ends_lead_to_aliases() {
    let check = |text: &str, wanted: &str| {
        let text = format!("Listen 80\n{text}").leak();
        let (tree, notices) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
        let locations = tree.find("    location").map(|at| &tree[at..]).unwrap_or_default();
        let proxied = ["proxy_http_version", "proxy_set_header"];
        let lines: Vec<&str> =
            locations.lines().filter(|line| !proxied.iter().any(|name| line.contains(name))).collect();
        assert_eq!(lines.join("\n"), wanted, "{text}");
        notices
    };
    let static_files = "    location = /static\n      alias /srv/static\n    location ^~ /static/\n      alias /srv/static/\n";
    let root = "    location ^~ /\n      proxy_pass http://10.0.0.1/";
    let notices = check(
        "ProxyPass /static !\nProxyPass / http://10.0.0.1/\nAlias /static /srv/static",
        &format!("{static_files}{root}"),
    );
    assert_eq!(notices, [""; 0]);
    let notices = check(
        "ProxyPass /static !\nProxyPass / http://10.0.0.1/\nAlias / /srv/\nAlias /static /srv/other",
        &format!("{static_files}{root}"),
    );
    assert_eq!(notices, ["never used: a line above it is for the same paths"]);
    check(
        "ProxyPass /a/b/ !\nProxyPass / http://10.0.0.1/\nAlias /a/b/c/ /srv/c/\nAlias /a /srv/a",
        &format!(
            "    location ^~ /a/b/\n      location ^~ /a/b/c/\n        alias /srv/c/\n      location ^~ /a/b/\n        alias /srv/a/b/\n{root}"
        ),
    );
    check(
        "ProxyPassMatch ^/static/ !\nProxyPass / http://10.0.0.1/\nAlias /static/ /srv/static/",
        "    location ~ ^/static/\n      location ^~ /static/\n        alias /srv/static/\n    location /\n      proxy_pass http://10.0.0.1/",
    );
    let notices = check("ProxyPass / http://10.0.0.1/\nProxyPass /static !\nAlias /static /srv/static", root);
    assert_eq!(notices, ["never used: a line above it is for the same paths"; 2]);
}

#[test]
fn patterns_and_paths_count_in_the_order_of_the_file() {
    let check = |text: &str, wanted: &[&str]| {
        let text = format!("Listen 80\n{text}").leak();
        let (tree, _) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
        for wanted in wanted {
            assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
        }
    };
    check(
        "AliasMatch ^/doc/(.*)\\.cfg$ /srv/cfg/$1\nAlias /doc /srv/doc",
        &[
            "    location ~ ^/doc/(.*)\\.cfg$\n      alias /srv/cfg/$1\n    location = /doc\n      alias /srv/doc\n    location /doc/\n      alias /srv/doc/\n    location /\n",
        ],
    );
    check(
        "Alias /doc/ /srv/doc/\nAliasMatch ^/doc/(.*)\\.cfg$ /srv/cfg/$1",
        &["    location ^~ /doc/\n      alias /srv/doc/\n    location ~ ^/doc/(.*)\\.cfg$\n"],
    );
    // Some patterns stand above the path, and some below it.
    check(
        "ProxyPassMatch \\.gif$ !\nProxyPass /app/ http://10.0.0.1/\nAliasMatch ^/app/(.*\\.js)$ /srv/js/$1",
        &[
            "    location ~ \\.gif$\n      location ~ ^/app/(.*\\.js)$\n        alias /srv/js/$1\n    location ^~ /app/\n      proxy_pass http://10.0.0.1/\n",
            "      location ~ \\.gif$\n        location ~ ^/app/(.*\\.js)$\n          alias /srv/js/$1\n    location ~ ^/app/(.*\\.js)$\n      alias /srv/js/$1\n    location /\n",
        ],
    );
    // A path's own location is that of the pattern above it.
    check(
        "AliasMatch ^/do(.)$ /srv/$1/x\nAlias /doc /srv/doc\nProxyPassMatch ^/a(.)$ http://10.0.0.1/$1\nProxyPass /ab http://10.0.0.2/",
        &[
            "    location = /doc\n      alias /srv/c/x\n    location /doc/\n",
            "    location = /ab\n      proxy_pass http://10.0.0.1/b\n",
        ],
    );
    check(
        "<LocationMatch ^/(?<name>d)oc$>\nAlias /srv/%{env:MATCH_NAME}\n</LocationMatch>\nAlias /doc /srv/doc",
        &["    location ~ ^/(?<name>d)oc$\n      alias /srv/${name}\n    location /doc/\n"],
    );
    // With a slash behind it, a line is not for the path without.
    check(
        "Alias /x/ /srv/x/\nAlias /x /srv/y",
        &[
            "    location ^~ /x/\n      alias /srv/x/\n    location = /x\n      alias /srv/y\n    location /\n",
        ],
    );
}

/// Each path has the patterns above it where others stand below.
#[test]
fn locations_of_a_host_have_a_limit() {
    let lines = |paths: usize| {
        let patterns = (0..300).map(|at| format!("AliasMatch ^/x/(.*)\\.t{at}$ /srv/{at}/$1\n"));
        let paths = (0..paths).map(|at| format!("Alias /p{at}/ /srv/p{at}/\n"));
        let lines: String = patterns.chain(paths).collect();
        format!("Listen 80\n{lines}AliasMatch ^/y/(.*)$ /srv/y/$1\n")
    };
    let (few, _) = told(&[("/etc/apache2/apache2.conf", lines(150).leak())]).unwrap();
    assert_eq!(few.matches("location ^~ /p").count(), 150);
    let mistakes = told(&[("/etc/apache2/apache2.conf", lines(5000).leak())]).map(|_| "all").unwrap_err();
    assert!(
        mistakes.len() == 1 && mistakes[0].contains("come to more than 50000 locations of this host"),
        "{mistakes:?}"
    );
}

#[test]
fn files_of_folders_are_told_what_is_defined() {
    let text = "Listen 80\nDefine A\nDefine B \"x \\\"y\\\"\"\nDefine C c\nUnDefine C\n<VirtualHost *:80>\nServerName a\nDefine D d\n</VirtualHost>";
    let (tree, _) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
    let lines: Vec<&str> = tree.lines().filter(|line| line.contains("BriskDefine")).collect();
    let wanted = [r#"    BriskDefine "A""#, r#"    BriskDefine "B" "x \"y\"""#, r#"    BriskDefine "D" "d""#];
    assert_eq!(lines, wanted, "{tree}");
    assert!(tree.contains("    BriskEnv \"LOGS\" \"/var/log\"\n") && !tree.contains("OTHER"), "{tree}");
}

#[test]
fn groups_of_scripts_and_patterns_of_sections() {
    // As mod_proxy_fcgi documents it, the group behind its first use.
    let text = "Listen 80\nProxyPass /myapp/ balancer://Cluster/\nProxyPass /c balancer://cluster timeout=9\nProxyPassMatch ^/(.*\\.php(/.*)?)$ balancer://cluster/srv/$1\nProxyPassMatch \\.fcgi$ balancer://cluster\nProxyPassMatch \\.gif$ balancer://web\nProxyPassMatch \\.png$ http://10.0.0.9:81\n<Proxy balancer://cluster/>\nBalancerMember fcgi://localhost:4000 loadfactor=2\nBalancerMember unix:/run/p|fcgi://any/\n</Proxy>\n<Proxy balancer://web>\nBalancerMember http://10.0.0.8\n</Proxy>";
    let (tree, _) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
    for wanted in [
        "  upstream apache_balancer_cluster\n    server localhost:4000 weight=2\n    server unix:/run/p\n",
        "    location ~ ^/myapp/(.*)$\n      apache_site\n        BriskBackEnd\n      fastcgi_pass apache_balancer_cluster\n",
        "      fastcgi_param SCRIPT_FILENAME /$1\n",
        "    location ~ ^/c(/.*)?$\n",
        "      fastcgi_param SCRIPT_FILENAME $1\n",
        "      fastcgi_read_timeout 9s\n",
        "      fastcgi_param SCRIPT_FILENAME /srv/$1\n",
        "      fastcgi_param SCRIPT_FILENAME $uri\n",
        "    location ~ \\.gif$\n      proxy_pass http://apache_balancer_web\n",
        "    location ~ \\.png$\n      proxy_pass http://10.0.0.9:81\n",
    ] {
        assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
    }
    let text = "Listen 80\n<LocationMatch ^/a/(.*\\.x)$>\nProxyPassMatch http://10.0.0.1/b/$1\nRequire all denied\n</LocationMatch>\n<Location ~ ^/p/(.*)>\nProxyPassMatch fcgi://127.0.0.1:9000/srv/$1\n</Location>\n<LocationMatch /plain.txt>\nProxyPass http://10.0.0.2/\n</LocationMatch>\n<LocationMatch ^/none>\nProxyPass http://10.0.0.3/\n</LocationMatch>\n<LocationMatch \"^(?!/.well-known/).*\">\nProxyPass http://10.0.0.4 Keepalive=On\n</LocationMatch>\nProxyPass /s/ unix:/run/s|http:\nProxyPass /t unix:/run/t|http://any/in\n<Proxy balancer://sockets>\nBalancerMember unix:/run/u|http://any\n</Proxy>";
    let (tree, notices) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
    for wanted in [
        "    location ~ ^/a/(.*\\.x)$\n      proxy_pass http://10.0.0.1/b/$1$is_args$args\n",
        "    LocationMatch ^/a/(.*\\.x)$\n      Require all denied\n",
        "    location ~ ^/p/(.*)\n      apache_site\n        BriskBackEnd\n      fastcgi_pass 127.0.0.1:9000\n",
        "    location = /plain.txt\n      proxy_pass http://10.0.0.2/\n",
        "    location ~ ^(?!/.well-known/).*\n      proxy_pass http://10.0.0.4",
        "/s/\n      proxy_pass http://unix:/run/s:/\n",
        "/t/\n      proxy_pass http://unix:/run/t:/in/\n",
        "  upstream apache_balancer_sockets\n    server unix:/run/u\n",
    ] {
        assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
    }
    assert!(!tree.contains("10.0.0.3"), "{tree}");
    assert!(
        notices.iter().any(|text| text.contains("takes the section's pattern for a path")),
        "{notices:?}"
    );
    for (members, wanted) in [
        ("BalancerMember fcgi://a:1\nBalancerMember http://a:2", "one protocol"),
        ("BalancerMember fcgi://a:1/srv", "without a path"),
        ("BalancerMember unix:p|fcgi://a", "with its whole path"),
        ("BalancerMember ajp://a", "http:// and fcgi:// only"),
    ] {
        let text = format!("Listen 80\n<Proxy balancer://g>\n{members}\n</Proxy>");
        let got = told(&[("/etc/apache2/apache2.conf", text.leak())]).expect_err(members);
        assert!(got[0].contains(wanted), "{got:?}");
    }
}

#[test]
fn a_pool_stands_for_php_inside_of_apache() {
    let text = "LoadModule php_module libphp8.2.so\nListen 80\n<FilesMatch \"\\.php$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n<FilesMatch \"\\.phps$\">\nSetHandler application/x-httpd-php-source\n</FilesMatch>";
    let (tree, notices) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
    assert!(!notices.iter().any(|text| text.contains("module php")), "{notices:?}");
    for wanted in [
        "  php_pool apache\n",
        "    BriskHandler @apache_php application/x-httpd-php\n",
        "    location @apache_php\n      php_pass apache\n",
    ] {
        assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
    }
    assert!(!tree.contains("BriskHandler @apache_php application/x-httpd-php-source"), "{tree}");
}

#[test]
fn folders_of_users() {
    let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1:1::/home/ann:/bin/sh\nbob:x:2:2::/home/bob:/bin/sh\nc.d:x:3:3::/srv/c/:/bin/sh\n";
    let check = |text: &'static str, wanted: &[&str], unwanted: &[&str]| {
        let (tree, _) = told(&[("/etc/apache2/apache2.conf", text), ("/etc/passwd", passwd)]).unwrap();
        for wanted in wanted {
            assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
        }
        for unwanted in unwanted {
            assert!(!tree.contains(unwanted), "{unwanted:?} is in\n{tree}");
        }
    };
    check(
        "Listen 80\nUserDir public_html\nUserDir disabled root",
        &[
            "    location ~ ^/~(ann|bob)(/.*)?$\n      alias /home/$1/public_html$2\n",
            "    location ~ ^/~(c\\.d)(/.*)?$\n      alias /srv/c/public_html$2\n",
        ],
        &["root/"],
    );
    check(
        "Listen 80\nUserDir disabled\n<VirtualHost *:80>\nUserDir /var/*/www\nUserDir enabled ann\n</VirtualHost>",
        &["    location ~ ^/~(ann)(/.*)?$\n      alias /var/$1/www$2\n"],
        &["bob"],
    );
    check("Listen 80\nUserDir disabled", &[], &["~"]);
    let got = told(&[("/etc/apache2/apache2.conf", "Listen 80\nUserDir www")]).unwrap_err();
    assert!(got[0].contains("UserDir: could not open /etc/passwd"), "{got:?}");
}

#[test]
fn a_certificate_on_the_port_of_https_needs_no_engine() {
    let check = |text: &'static str, wanted: &str| {
        let (tree, _) = told(&[("/etc/apache2/apache2.conf", text)]).unwrap();
        assert!(tree.contains(wanted), "{wanted:?} is not in\n{tree}");
    };
    let host = "Listen 443\nListen 80\nListen 8443 https\n<VirtualHost *:443>\nSSLCertificateFile /a\n</VirtualHost>\n<VirtualHost *:80>\nSSLCertificateFile /b\n</VirtualHost>\n<VirtualHost *:8443>\nSSLCertificateFile /c\n</VirtualHost>";
    check(host, "    listen 443 ssl\n");
    check(host, "    ssl_certificate /a\n");
    check(host, "    listen 80\n");
    check(host, "    listen 8443 ssl\n");
    let chain = "Listen 443\n<VirtualHost *:443>\nSSLCertificateFile /a\nSSLCertificateChainFile chain.pem\n</VirtualHost>";
    check(chain, "    ssl_certificate_key /a\n    ssl_certificate_chain /etc/apache2/chain.pem\n");
    check("Listen 443 http\n<VirtualHost *:443>\nSSLCertificateFile /a\n</VirtualHost>", "    listen 443\n");
    check(
        "Listen 443\n<VirtualHost *:443>\nSSLEngine off\nSSLCertificateFile /a\n</VirtualHost>",
        "    listen 443\n",
    );
    check("Listen 443\n<VirtualHost *:443>\nServerName a\n</VirtualHost>", "    listen 443\n");
}

#[test]
fn what_becomes_of_directives() {
    use crate::overrides::support::Support;
    for (name, wanted) in [
        ("Alias", Support::Works),
        ("ProxyPass", Support::Works),
        ("BalancerMember", Support::Works),
        ("RemoteIPInternalProxy", Support::Works),
        ("DocumentRoot", Support::Works),
        ("TraceEnable", Support::Works),
        ("MaxRanges", Support::Works),
        ("AllowMethods", Support::Works),
        ("StartServers", Support::NoEffect),
        ("ScriptAlias", Support::Refused),
        ("CacheEnable", Support::Refused),
        // Of sections alone.
        ("DAV", Support::Refused),
        ("BufferSize", Support::Refused),
    ] {
        let row = crate::directives::all().find(|row| row.name == name).unwrap();
        assert_eq!(support(&row, &Rust), wanted, "{name}");
    }
}
