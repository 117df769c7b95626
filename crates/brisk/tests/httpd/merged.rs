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
    let differences: String =
        targets.iter().map(|target| difference(&brisk, &apache, ("a.example", target, ""), 2)).collect();
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
        ],
        &["/closed/a.txt", "/open/a.txt", "/gone/a.txt", "/names/a.txt"],
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
