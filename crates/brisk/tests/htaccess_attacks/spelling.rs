//! A closed path in other words: encoded slashes and dots, doubled slashes, case, what some systems drop at the end of a name. Beside
//! Debian's Apache: nothing is readable that it denies.

use super::super::{BIN, ask, httpd};
use brisk_testkit::apache::open_to_all;
use brisk_testkit::{Apache, Backend, Builder};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

/// What may stand between two parts of a path.
const SLASHES: &str = "/ // /// /./ /x/../ %2f %2F /%2f %2f/ /.%2f /%2e/ \\ %5c /%2e%2e%2fx/../ /;/ /.;/ /..;/ %c0%af %252f /x/%2e%2e/ /%00/ /%20/ /%0a/";
/// What may stand before or behind a part.
const ENDS: &str = ". .. ... %2e %20 + %00 %0a %0d %09 ::$DATA :a ~1 ~ ;x %3b %3f ? %23 # * %2a %80 %c2%a0 %e2%80%8b %ff /. /.. / // /%2e";

/// Other ways to write one path.
fn spellings(path: &str) -> Vec<String> {
    let mut out: BTreeSet<String> = BTreeSet::new();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let last = parts.len() - 1;
    for slash in SLASHES.split(' ') {
        out.insert(format!("{slash}{}", parts.join(slash)));
        out.insert(format!("/{}", parts.join(slash)));
        out.insert(format!("/{}{slash}{}", parts[..last].join("/"), parts[last]));
        out.insert(format!("{slash}{}", parts.join("/")));
    }
    for at in 0..parts.len() {
        out.extend(of_part(&parts, at));
    }
    out.extend(around(path, parts[last]));
    out.retain(|target| target.starts_with('/') || target.starts_with("http"));
    out.into_iter().filter(|target| !target.contains([' ', '\n'])).collect()
}

/// The path with one part written otherwise.
fn of_part(parts: &[&str], at: usize) -> Vec<String> {
    let part = parts[at];
    let mut title = part.to_string();
    title[..1].make_ascii_uppercase();
    let each = |spell: fn(u8) -> String| part.bytes().map(spell).collect::<Vec<_>>().concat();
    let mut changed = vec![
        part.to_uppercase(),
        title,
        each(|byte| format!("%{byte:02x}")),
        each(|byte| format!("%{byte:02X}")),
        each(|byte| format!("%25{byte:02x}")),
        format!("%{:02x}{}", part.as_bytes()[0], &part[1..]),
        format!("%u00{:02x}{}", part.as_bytes()[0], &part[1..]),
    ];
    changed.extend(ENDS.split(' ').flat_map(|end| [format!("{part}{end}"), format!("{end}{part}")]));
    let with = |changed: String| {
        let mut all: Vec<String> = parts.iter().map(|part| (*part).to_string()).collect();
        all[at] = changed;
        format!("/{}", all.join("/"))
    };
    changed.into_iter().map(with).collect()
}

/// The path with something before or behind it.
fn around(path: &str, last: &str) -> [String; 11] {
    [
        format!("http://a{path}"),
        format!("http://a/x/..{path}"),
        format!("http://a//{path}"),
        format!("{path}/more"),
        format!("{path}/../{last}"),
        format!("/a.txt/..{path}"),
        format!("/a.txt/../..{path}"),
        format!("{path}?/../../a.txt"),
        format!("{path}#/../a.txt"),
        format!("/..{path}"),
        format!("/x/../..{path}"),
    ]
}

/// `ROOT` is the folder of the site; its parent has more.
const RULES: &str = "DocumentRoot ROOT
AllowEncodedSlashes SLASHES
MergeSlashes MERGED
AccessFileName .htaccess
<Directory />
Options FollowSymLinks
AllowOverride None
</Directory>
<Directory ROOT>
Require all granted
AllowOverride All
</Directory>
<Directory ROOT/directory>
Require all denied
</Directory>
<Directory ~ \"^ROOT/(directory_pattern|other)(/|$)\">
Require all denied
</Directory>
<DirectoryMatch \"^ROOT/match\">
Require all denied
</DirectoryMatch>
<Directory \"ROOT/w?ld*\">
Require all denied
</Directory>
<Files closed.txt>
Require all denied
</Files>
<FilesMatch \"\\.(bak|sql)$\">
Require all denied
</FilesMatch>
<Location /location>
Require all denied
</Location>
<LocationMatch \"^/path\">
Require all denied
</LocationMatch>
<If \"%{REQUEST_URI} =~ m#^/condition/#\">
Require all denied
</If>
Alias /alias ROOT/../aliased
<Directory ROOT/../aliased>
Require all granted
</Directory>
<Directory ROOT/../aliased/closed>
Require all denied
</Directory>
RewriteEngine On
RewriteRule ^/ruled/ - [F]
RewriteRule ^/led/(.*)$ /directory/$1
RedirectMatch 403 ^/forbidden/
";

/// What is closed, by which means its name says.
const CLOSED: &[&str] = &[
    "/directory/a.txt",
    "/directory_pattern/a.txt",
    "/match/in/a.txt",
    "/wild/a.txt",
    "/open/closed.txt",
    "/open/a.bak",
    "/location/a.txt",
    "/path/a.txt",
    "/condition/a.txt",
    "/alias/closed/a.txt",
    "/ruled/a.txt",
    "/led/a.txt",
    "/forbidden/a.txt",
    "/folder/a.txt",
    "/folder/in/a.txt",
    "/folder_files/x.txt",
    "/folder_rules/a.txt",
    "/open/.htaccess",
];

const MODULES: &[&str] = &[
    "mpm_event",
    "authz_core",
    "authz_host",
    "access_compat",
    "alias",
    "dir",
    "rewrite",
    "mime",
    "setenvif",
];

fn files(mut builder: Builder) -> Builder {
    for path in CLOSED.iter().filter(|path| !path.starts_with("/alias") && !path.ends_with(".htaccess")) {
        builder = builder.file(&format!("sites/root{path}"), "secret");
    }
    builder
        .file("sites/root/a.txt", "open")
        .file("sites/root/open/.htaccess", "# secret\n")
        .file("sites/aliased/closed/a.txt", "secret")
        .file("sites/aliased/a.txt", "open")
        .file("sites/root/folder/.htaccess", "Require all denied\n")
        .file(
            "sites/root/folder_files/.htaccess",
            "<Files x.txt>\nOrder allow,deny\nDeny from all\n</Files>\n",
        )
        .file("sites/root/folder_rules/.htaccess", "RewriteEngine on\nRewriteRule ^a\\.txt - [F]\n")
        .file("types", "text/plain txt\n")
}

fn compare(slashes: &str, merged: &str) {
    let mut builder = files(Builder::new(BIN));
    let root = builder.dir().join("sites/root").display().to_string();
    open_to_all(builder.dir());
    let types = builder.fill("TypesConfig {{DIR}}/types\n");
    let rules = types + &RULES.replace("ROOT", &root).replace("SLASHES", slashes).replace("MERGED", merged);
    let brisk = httpd(builder, MODULES, &rules);
    let apache = Apache::start(MODULES, &rules);
    let (mut open, mut served) = (String::new(), 0);
    for closed in CLOSED {
        assert!(matches!(brisk.get(closed).status, 403 | 404), "{closed}: {}", brisk.error_log());
        for target in spellings(closed) {
            for _ in 0..2 {
                let ours = ask(&mut brisk.client(), &target, "Connection: close\r\n");
                served += usize::from(ours.status < 500);
                if ours.text().contains("secret") {
                    let theirs = ask(&mut apache.client(), &target, "Connection: close\r\n");
                    // Rules about the text of a path hold for that text: who writes `^/path` for a site with `/PATH` leaves that open.
                    if !theirs.text().contains("secret") {
                        let _ = writeln!(open, "{target}: {} here, {} there", ours.status, theirs.status);
                    }
                }
            }
        }
    }
    assert!(open.is_empty(), "AllowEncodedSlashes {slashes}, MergeSlashes {merged}:\n{open}");
    assert!(served > 1000, "{served}");
    assert_eq!(brisk.get("/a.txt").text(), "open");
}

#[test]
fn closed_paths_are_closed_in_other_words() {
    compare("Off", "On");
}

#[test]
fn closed_paths_are_closed_where_slashes_may_be_encoded() {
    compare("On", "On");
}

#[test]
fn closed_paths_are_closed_where_slashes_are_not_merged() {
    compare("Off", "Off");
}

/// A `.htaccess` in this server's own configuration.
#[test]
fn closed_folders_are_closed_in_other_words() {
    let http = "server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/sites/root; directory_overrides on; location / { } location /alias/ { alias {{DIR}}/sites/aliased/; } }
        server { listen 127.0.0.1:{{PORT2}}; root {{DIR}}/sites/root; merge_slashes off; directory_overrides on; location / { } location ~ ^/alias/(.*)$ { alias {{DIR}}/sites/aliased/$1; } }";
    let server = files(Builder::new(BIN).http(http))
        .file("sites/aliased/closed/.htaccess", "Require all denied\n")
        .start();
    let closed = CLOSED.iter().filter(|path| path.starts_with("/folder") || path.starts_with("/alias"));
    for target in closed.flat_map(|path| spellings(path)) {
        for port in [server.port(), server.port_of(2)] {
            let answer = ask(&mut brisk_testkit::Client::connect(port), &target, "Connection: close\r\n");
            assert!(!answer.text().contains("secret"), "{target}: {}", answer.status);
        }
    }
}

/// A closed path of a back end is not asked for by another name that the back end would read as the same.
#[test]
fn closed_paths_of_a_back_end_are_not_asked_for() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = seen.clone();
    let backend = Backend::start(move |mut peer| {
        while let Some(head) = peer.head() {
            kept.lock().unwrap().push(head);
            if !peer.answer("back") {
                break;
            }
        }
    });
    let to = format!("http://127.0.0.1:{}", backend.port());
    let rules = format!(
        "DocumentRoot {{{{DIR}}}}/html\nProxyPass /app {to}/inner\n<Location /app/closed>\nRequire all denied\n</Location>\n<LocationMatch \"^/app/match(/|$)\">\nRequire all denied\n</LocationMatch>\nRewriteEngine On\nRewriteRule ^/asked/closed - [F]\nRewriteRule ^/asked/(.*)$ {to}/inner/$1 [P]\n"
    );
    let modules = ["authz_core", "rewrite", "proxy", "proxy_http"];
    let brisk = httpd(Builder::new(BIN).file("html/a.txt", "a"), &modules, &rules);
    for closed in ["/app/closed/x", "/app/match/x", "/asked/closed/x"] {
        assert_eq!(brisk.get(closed).status, 403, "{closed}");
        for target in spellings(closed) {
            let _ = ask(&mut brisk.client(), &target, "Connection: close\r\n");
        }
    }
    assert_eq!(brisk.get("/app/open").text(), "back");
    for head in seen.lock().unwrap().iter() {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let is_closed = |name: &str| normal(path).starts_with(&format!("/inner/{name}/"));
        assert!(!is_closed("closed") && !is_closed("match"), "{head}");
    }
}

/// A path as a usual back end reads it.
fn normal(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [byte, behind @ ..] = rest {
        let code = if *byte == b'%' { behind.get(..2) } else { None };
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
