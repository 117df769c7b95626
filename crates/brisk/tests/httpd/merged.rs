//! How lines of several sections come together, beside Debian's Apache: what files of folders may say and know, which line about a path
//! counts, and which rules of access.

use crate::{BIN, HEAD, difference, start};
use brisk_testkit::apache::open_to_all;
use brisk_testkit::{Apache, Builder};

const MODULES: [&str; 13] = [
    "mpm_event",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "alias",
    "auth_basic",
    "headers",
    "mime",
    "proxy",
    "proxy_http",
    "rewrite",
];

/// Compares answers to these targets. `ROOT` in the site is the folder of its files, `BACK` the port of a back end that tells what it is
/// asked for, `PORT` the server's own.
fn compare(site: &str, files: &[(&str, &str)], targets: &[&str]) {
    let requests: Vec<(&str, &str)> = targets.iter().map(|target| (*target, "")).collect();
    compare_requests(site, files, &requests);
}

/// The same with fields of requests.
fn compare_requests(site: &str, files: &[(&str, &str)], requests: &[(&str, &str)]) {
    let back_end = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; location / { return 200 \"back end $request_uri\"; } }")
        .start();
    let mut builder = Builder::new(BIN).file("sites/mime.types", "text/plain txt cfg js\n");
    for (name, text) in files {
        builder = builder.file(&format!("sites/{name}"), *text);
    }
    let root = builder.dir().join("sites");
    open_to_all(builder.dir());
    let site = format!(
        "TypesConfig ROOT/mime.types\nServerName a.example\nDocumentRoot ROOT/www\n<Directory />\nAllowOverride None\nRequire all denied\n</Directory>\n<Directory ROOT>\nRequire all granted\n</Directory>\n{site}"
    );
    let site = site
        .replace("ROOT", &root.display().to_string())
        .replace("BACK", &format!("127.0.0.1:{}", back_end.port()));
    let loads: Vec<String> = MODULES.map(|m| format!("LoadModule {m}_module x/mod_{m}.so\n")).into();
    let brisk = start(builder, &format!("{HEAD}{}{site}", loads.concat()));
    let apache = Apache::start(&MODULES, &site);
    let differences: String = requests
        .iter()
        .map(|(target, fields)| difference(&brisk, &apache, ("a.example", target, fields), 2))
        .collect();
    assert!(differences.is_empty(), "{differences}\n{}\n{}", brisk.error_log(), apache.log());
}

/// Files of folders know what the server's own files have defined, at their end, and the server's environment.
#[test]
fn files_of_folders_know_what_is_defined() {
    let closed = "<IfDefine PRODUCTION>\nRequire all denied\n</IfDefine>\n";
    let open = "<IfDefine !PRODUCTION>\nRequire all denied\n</IfDefine>\n";
    compare(
        "<Directory ROOT/www>\nAllowOverride All\n</Directory>\nDefine PRODUCTION\nDefine NAME \"a \\\"name\\\"\"\nDefine LATE early\nDefine GONE x\nDefine LATE late\nUnDefine GONE\n",
        &[
            ("www/closed/.htaccess", closed),
            ("www/closed/a.txt", "closed"),
            ("www/open/.htaccess", open),
            ("www/open/a.txt", "open"),
            ("www/gone/.htaccess", "<IfDefine GONE>\nRequire all denied\n</IfDefine>\n"),
            ("www/gone/a.txt", "gone"),
            ("www/names/.htaccess", "Header set X-Late ${LATE}\nHeader set X-Gone \"${GONE}\"\n"),
            ("www/names/a.txt", "names"),
            // They define nothing themselves.
            ("www/own/.htaccess", "Define OWN\n"),
            ("www/own/a.txt", "own"),
            ("www/less/.htaccess", "UnDefine PRODUCTION\n"),
            ("www/less/a.txt", "less"),
            ("www/unread/.htaccess", "<IfDefine NONE>\nDefine OWN\n</IfDefine>\n"),
            ("www/unread/a.txt", "unread"),
        ],
        &[
            "/closed/a.txt",
            "/open/a.txt",
            "/gone/a.txt",
            "/names/a.txt",
            "/own/a.txt",
            "/less/a.txt",
            "/unread/a.txt",
        ],
    );
}

/// `AllowOverride` and `AllowOverrideList` are handed down each by itself.
#[test]
fn what_files_of_folders_may_say_is_merged_line_by_line() {
    let denied = "Require all denied\n";
    let header = "Header set X-Here yes\n";
    let both = "Require all granted\nHeader set X-Here yes\n";
    compare(
        "<Directory ROOT/www/auth>\nAllowOverride AuthConfig\n</Directory>\n<Directory ROOT/www/auth/none>\nAllowOverrideList None\n</Directory>\n<Directory ROOT/www/auth/list>\nAllowOverrideList Header\n</Directory>\n<Directory ROOT/www/list>\nAllowOverrideList Require\n</Directory>\n<Directory ROOT/www/list/none>\nAllowOverride None\n</Directory>\n<Directory ROOT/www/list/info>\nAllowOverride FileInfo\n</Directory>\n<Directory ROOT/www/list/none/more>\nAllowOverrideList None\n</Directory>\n<Directory ROOT/www/options>\nAllowOverride Options=Indexes\n</Directory>\n<Directory ROOT/www/options/in>\nAllowOverrideList Header\n</Directory>\n",
        &[
            ("www/auth/a.txt", "a"),
            ("www/auth/none/.htaccess", denied),
            ("www/auth/none/a.txt", "closed"),
            ("www/auth/list/.htaccess", both),
            ("www/auth/list/a.txt", "a"),
            ("www/list/none/.htaccess", denied),
            ("www/list/none/a.txt", "closed"),
            ("www/list/none/more/.htaccess", "Require all granted\n"),
            ("www/list/none/more/a.txt", "a"),
            ("www/list/info/.htaccess", both),
            ("www/list/info/a.txt", "a"),
            ("www/options/in/.htaccess", "Options +Indexes\nHeader set X-Here yes\n"),
            ("www/options/in/a.txt", "a"),
            ("www/options/wrong/.htaccess", header),
            ("www/options/wrong/a.txt", "a"),
            ("www/options/more/.htaccess", "Options +FollowSymLinks\n"),
            ("www/options/more/a.txt", "a"),
        ],
        &[
            "/auth/a.txt",
            "/auth/none/a.txt",
            "/auth/list/a.txt",
            "/list/none/a.txt",
            "/list/none/more/a.txt",
            "/list/info/a.txt",
            "/options/in/a.txt",
            "/options/wrong/a.txt",
            "/options/more/a.txt",
        ],
    );
}

/// The sections `<Files>` that hold are merged with each other first, and then with the folder; so are those of `<Location>` and `<If>`.
#[test]
fn sections_of_one_kind_are_merged_with_each_other_first() {
    let query = |letter: &str| format!("Require expr \"%{{QUERY_STRING}} =~ /{letter}/\"\n");
    let (f, a, b) = (query("f"), query("a"), query("b"));
    let folder = |name: &str| format!("<Directory ROOT/www/{name}>\n{f}</Directory>\n");
    let files = |name: &str, merging: &str| {
        format!(
            "<Directory ROOT/www/{name}>\n{f}<Files *.txt>\n{a}</Files>\n<Files m*>\nAuthMerging {merging}\n{b}</Files>\n<Files mm*>\nAuthMerging {merging}\n</Files>\n<Files mo*>\n{b}</Files>\n</Directory>\n"
        )
    };
    let locations = |name: &str, merging: &str| {
        folder(name)
            + &format!(
                "<Location /{name}>\n{a}</Location>\n<Location /{name}/m>\nAuthMerging {merging}\n{b}</Location>\n<Location /{name}/a.txt>\nAuthMerging {merging}\n</Location>\n"
            )
    };
    let conditions = |name: &str, merging: &str| {
        format!(
            "<Directory ROOT/www/{name}>\n{f}<If \"%{{REQUEST_URI}} =~ /txt/\">\n{a}</If>\n<If \"%{{REQUEST_URI}} =~ m#/m#\">\nAuthMerging {merging}\n{b}<If \"%{{REQUEST_URI}} =~ /mm/\">\nAuthMerging {merging}\n{f}</If>\n</If>\n</Directory>\n"
        )
    };
    let site = files("and", "And")
        + &files("or", "Or")
        + &locations("land", "And")
        + &locations("lor", "Or")
        + &conditions("iand", "And")
        + &conditions("ior", "Or");
    let (mut all, mut targets) = (Vec::new(), Vec::new());
    for name in ["and", "or", "land", "lor", "iand", "ior"] {
        for file in ["a.txt", "m", "m.txt", "mm.txt", "mo.txt", "other"] {
            all.push((format!("www/{name}/{file}"), "text"));
            for query in ["", "f", "a", "b", "fa", "fb", "ab", "fab"] {
                targets.push(format!("/{name}/{file}?{query}"));
            }
        }
    }
    let all: Vec<(&str, &str)> = all.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    compare(&site, &all, &targets.iter().map(String::as_str).collect::<Vec<_>>());
}

/// An exception of `ProxyPass` leads to what `Alias` says, as the static files of an application.
#[test]
fn exceptions_of_back_ends_lead_to_aliases() {
    compare(
        "ProxyPass /static !\nProxyPass /media/ !\nProxyPass /app/files !\nProxyPass /wide !\nProxyPassMatch ^/matched/ !\nProxyPassMatch \\.cfg$ !\nProxyPass / http://BACK/\nAlias /static ROOT/static\nAlias /media ROOT/media\nAlias /app ROOT/app\nAlias /wide/in ROOT/wide\nAlias /matched/in/ ROOT/matched/\nAlias /never ROOT/static\nAliasMatch ^/k/(.*)$ ROOT/static/$1\n<Location /static/closed>\nRequire all denied\n</Location>\n",
        &[
            ("static/a.txt", "static"),
            ("static/a.cfg", "cfg of static"),
            ("static/closed/a.txt", "closed"),
            ("media/a.txt", "media"),
            ("app/files/a.txt", "file of app"),
            ("app/a.cfg", "cfg of app"),
            ("wide/a.txt", "wide"),
            ("matched/a.txt", "matched"),
            ("www/wide/a.txt", "below the root"),
            ("www/matched/a.txt", "matched below the root"),
            ("www/a.cfg", "cfg below the root"),
        ],
        &[
            "/static/a.txt",
            "/static/a.cfg",
            "/static/none",
            "/static/closed/a.txt",
            "/staticx",
            "/media/a.txt",
            "/media",
            "/app/files/a.txt",
            "/app/a.txt",
            "/app/a.cfg",
            "/wide/a.txt",
            "/wide/in/a.txt",
            "/matched/a.txt",
            "/matched/in/a.txt",
            "/never/a.txt",
            "/k/a.txt",
            "/k/a.cfg",
            "/a.cfg",
            "/x",
            "/",
        ],
    );
}

/// Of patterns and paths the first line counts, those of back ends before those of aliases.
#[test]
fn patterns_and_paths_count_in_the_order_of_the_file() {
    compare(
        "AliasMatch ^/doc/(.*)\\.cfg$ ROOT/cfg/$1.cfg\nAliasMatch ^/exact$ ROOT/cfg/exact.txt\nAlias /exact ROOT/doc\nAlias /doc ROOT/doc\nAliasMatch ^/doc/(.*)\\.js$ ROOT/cfg/$1.js\nAlias /doc/late ROOT/cfg\nAlias /slash/ ROOT/doc/\nAlias /slash ROOT/cfg/exact.txt\n",
        &[
            ("www/a.txt", "a"),
            ("doc/a.txt", "a of doc"),
            ("doc/a.cfg", "cfg of doc"),
            ("doc/a.js", "js of doc"),
            ("doc/late/a.txt", "late of doc"),
            ("cfg/a.cfg", "cfg"),
            ("cfg/a.js", "js"),
            ("cfg/a.txt", "a of cfg"),
            ("cfg/exact.txt", "exact"),
        ],
        &[
            "/doc/a.txt",
            "/doc/a.cfg",
            "/doc/a.js",
            "/doc/late/a.txt",
            "/exact",
            "/exact/a.txt",
            "/slash",
            "/slash/a.txt",
        ],
    );
    compare(
        "ProxyPassMatch ^/app/own/ !\nProxyPassMatch ^/front$ !\nProxyPass /app http://BACK/inner\nProxyPass /front http://BACK/front\nProxyPassMatch ^/(.*\\.gif)$ http://BACK/gifs/$1\nAliasMatch ^/app/(.*\\.js)$ ROOT/js/$1\nAliasMatch ^/more/(.*\\.js)$ ROOT/js/$1\nAlias /more ROOT/more\nAliasMatch ^/more/(.*)$ ROOT/js/$1\n",
        &[
            ("js/a.js", "js"),
            ("js/own/a.js", "own js"),
            ("js/a.txt", "a of js"),
            ("more/a.txt", "more"),
            ("more/a.js", "js of more"),
            ("www/app/own/a.txt", "own"),
            ("www/front", "front"),
        ],
        &[
            "/app/a.js",
            "/app/own/a.js",
            "/app/own/a.txt",
            "/app/own/a.gif",
            "/app/a.gif",
            "/app",
            "/app/",
            "/front",
            "/front/x",
            "/more/a.js",
            "/more/a.txt",
            "/more/a.gif",
            "/x.gif",
        ],
    );
}

/// What a back end answers is no file: sections of files and folders are not for it, those of paths and conditions are.
#[test]
fn sections_of_files_are_not_for_back_ends() {
    compare(
        "ProxyPass /app http://BACK/inner\n<Files *.bak>\nRequire all denied\n</Files>\n<FilesMatch \\.js$>\nHeader set X-Script yes\n</FilesMatch>\n<DirectoryMatch /closed>\nRequire all denied\n</DirectoryMatch>\n<Location /app/shut>\nRequire all denied\n</Location>\n<If \"%{QUERY_STRING} == 'no'\">\nRequire all denied\n</If>\nRewriteEngine On\nRewriteRule ^/ruled/(.*)$ http://BACK/$1 [P]\n<Directory ROOT/www/folder>\nRewriteEngine On\nRewriteRule ^(.*\\.bak)$ http://BACK/$1 [P]\nRewriteRule ^(.*\\.led)$ http://BACK/$1 [P]\n</Directory>\n",
        &[("www/a.bak", "a"), ("www/folder/a.bak", "a"), ("www/folder/a.led", "a")],
        &[
            "/a.bak",
            "/app/a.bak",
            "/app/a.js",
            "/app/closed/x",
            "/app/shut/x",
            "/app/x?no",
            "/ruled/a.bak",
            "/ruled/a.js",
            "/ruled/x?no",
            "/folder/a.bak",
            "/folder/a.led",
        ],
    );
}

/// A rule with the flag P has the request go on that has logged in; what another rule leads to has to be logged in for anew.
#[test]
fn logins_are_for_the_request_that_was_asked_for_them() {
    let users = |name: &str| format!("{name}:{{SHA}}0nofEXcSAJSXFLGvmfBIpBb11vQ=\n");
    let (members, admins) = (users("ann"), users("eve"));
    let login =
        |name: &str| format!("AuthType Basic\nAuthName a\nAuthUserFile ROOT/{name}\nRequire valid-user\n");
    let site = format!(
        "<Location />\nHeader set X-Seen expr=%{{REMOTE_USER}}\n</Location>\n<Directory ROOT/www/kept>\n{0}RewriteEngine On\nRewriteRule ^(.*)$ http://BACK/$1 [P]\n</Directory>\n<Location /kept/located>\nRequire user ann\n</Location>\n<Directory ROOT/www/members>\n{0}RewriteEngine On\nRewriteRule ^to/(.*)$ /led/$1\n</Directory>\n<Location /led/admins>\n{1}</Location>\nRewriteEngine On\nRewriteRule ^/led/(.*)$ http://BACK/$1 [P]\n",
        login("members"),
        login("admins")
    );
    let files = [
        ("members", members.as_str()),
        ("admins", &admins),
        ("www/kept/a.txt", "a"),
        ("www/members/a.txt", "a"),
    ];
    let mut requests = Vec::new();
    for fields in ["", "Authorization: Basic YW5uOnJpZ2h0\r\n", "Authorization: Basic ZXZlOnJpZ2h0\r\n"] {
        for target in [
            "/kept/a.txt",
            "/kept/located",
            "/members/a.txt",
            "/members/to/a.txt",
            "/members/to/admins",
            "/led/admins",
            "/led/other",
        ] {
            requests.push((target, fields));
        }
    }
    compare_requests(&site, &files, &requests);
}
