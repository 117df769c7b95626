//! Files of each language as distributions deliver them, in small: a setting is changed, added and taken back.

use super::*;

fn file(name: &str, text: &str) -> File {
    File { name: name.into(), text: text.into() }
}

fn text(files: &[File]) -> String {
    files.iter().map(|file| String::from_utf8_lossy(&file.text).into_owned()).collect::<Vec<_>>().join("|")
}

/// Sets, compares, undoes.
fn check(files: &[File], language: Language, name: &str, value: &str, was: Option<&str>, want: &str) {
    let wanted = Wanted { language, name, pool: "www" };
    assert_eq!(read(files, &wanted).unwrap().as_deref(), was, "{name}");
    let edits = set(files, &wanted, value).unwrap();
    let after = apply(files, &edits).unwrap();
    assert_eq!(text(&after), want, "{name}");
    assert_eq!(read(&after, &wanted).unwrap().as_deref(), Some(value), "{name}");
    assert_eq!(undo(&after, &edits).unwrap(), files, "{name}");
    assert!(set(&after, &wanted, value).unwrap().is_empty(), "{name}");
}

const HTTP: Language = Language::Nginx { block: "http" };

#[test]
fn nginx_s_language() {
    let main = file("nginx.conf", "user x;\r\nhttp {\r\n\tgzip on; # yes\n\tinclude s/*;\n}\n");
    let site = file("s/a", "server { listen 80; listen [::]:80 backlog=7; gzip  'off' ; root /a; }\n");
    let files = [main, site];
    check(
        &files,
        HTTP,
        "gzip",
        "static",
        Some("on"),
        "user x;\r\nhttp {\r\n\tgzip static; # yes\n\tinclude s/*;\n}\n|server { listen 80; listen [::]:80 backlog=7; \
         gzip  'off' ; root /a; }\n",
    );
    check(
        &files,
        HTTP,
        "sendfile",
        "on",
        None,
        "user x;\r\nhttp {\n\tsendfile on;\r\n\tgzip on; # yes\n\tinclude s/*;\n}\n|server { listen 80; listen [::]:80 backlog=7; \
         gzip  'off' ; root /a; }\n",
    );
    check(
        &files[..1],
        Language::Nginx { block: "" },
        "worker_processes",
        "4",
        None,
        "worker_processes 4;\nuser x;\r\nhttp {\r\n\tgzip on; # yes\n\tinclude s/*;\n}\n",
    );
    check(
        &files[1..],
        Language::NginxParameter { directive: "listen", prefix: " backlog=" },
        "listen backlog",
        "4096",
        Some("7"),
        "server { listen 80 backlog=4096; listen [::]:80 backlog=4096; gzip  'off' ; root /a; }\n",
    );
    let empty = [file("a", "events {} http { }")];
    check(&empty, HTTP, "gzip", "on", None, "events {} http { gzip on; }");
    let wanted = Wanted { language: Language::Nginx { block: "events" }, name: "multi_accept", pool: "" };
    let refused = set(&files, &wanted, "on").unwrap_err().to_string();
    assert!(refused.starts_with("multi_accept has no place in these files"), "{refused}");
    assert!(read(&[file("x.conf", "http {")], &wanted).unwrap_err().to_string().contains("x.conf"));
}

/// What a directive needs beside it is written once, and what others have said there stays.
#[test]
fn what_is_needed_beside_is_added_once() {
    let files = [file("a", "http { gzip on; server { k '$uri'; location / { p /b z; } } }")];
    let added = |files: &[File], name: &str, value: &str, repeats: bool| {
        let wanted = Wanted { language: HTTP, name, pool: "" };
        apply(files, &add(files, &wanted, value, repeats).unwrap()).unwrap()
    };
    let once = added(&files, "k", "$host$uri", false);
    assert_eq!(text(&once), "http { k $host$uri; gzip on; server { k '$uri'; location / { p /b z; } } }");
    assert_eq!(added(&once, "k", "$args", false), once);
    let two = added(&added(&once, "p", "/a y", true), "p", "/c x", true);
    assert!(text(&two).starts_with("http { p /c x; p /a y; k $host$uri; gzip on;"), "{}", text(&two));
    assert_eq!(added(&two, "p", "/a w", true), two);
    let wanted = Wanted { language: HTTP, name: "k", pool: "" };
    assert!(add(&[file("a", "events {}")], &wanted, "v", false).is_err());
    assert!(add(&files, &Wanted { language: Language::Php, ..wanted }, "v", false).is_err());
}

#[test]
fn one_address_has_its_options_once() {
    let files = [file("a", "server { listen 80; } server { listen 80; server_name b; }")];
    let language = Language::NginxParameter { directive: "listen", prefix: " backlog=" };
    check_parameter(&files, language, "server { listen 80 backlog=9; } server { listen 80; server_name b; }");
    let files = [file("a", "server { listen 80; } server { listen 80 backlog=1 reuseport; }")];
    check_parameter(&files, language, "server { listen 80; } server { listen 80 backlog=9 reuseport; }");
}

fn check_parameter(files: &[File], language: Language, want: &str) {
    let wanted = Wanted { language, name: "listen backlog", pool: "" };
    let edits = set(files, &wanted, "9").unwrap();
    let after = apply(files, &edits).unwrap();
    assert_eq!(text(&after), want);
    assert_eq!(undo(&after, &edits).unwrap(), files);
}

#[test]
fn lines_with_sections() {
    let ini = [file(
        "php.ini",
        "[PHP]\n;opcache.enable=1\nopcache.enable = \"0\" ; not yet\r\n[HOST=a]\nopcache.enable=7",
    )];
    check(
        &ini,
        Language::Php,
        "opcache.enable",
        "1",
        Some("\"0\""),
        "[PHP]\n;opcache.enable=1\nopcache.enable = 1 ; not yet\r\n[HOST=a]\nopcache.enable=7",
    );
    check(
        &ini,
        Language::Php,
        "opcache.jit",
        "tracing",
        None,
        "[PHP]\n;opcache.enable=1\nopcache.enable = \"0\" ; not yet\r\nopcache.jit = tracing\n[HOST=a]\nopcache.enable=7",
    );
    let pools = [file("www.conf", "[www]\npm = dynamic\n\n; next\n[api]\npm = static\npm.max_children = 9")];
    check(
        &pools,
        Language::Pool,
        "pm",
        "static",
        Some("dynamic"),
        "[www]\npm = static\n\n; next\n[api]\npm = static\npm.max_children = 9",
    );
    check(
        &pools,
        Language::Pool,
        "pm.max_children",
        "12",
        None,
        "[www]\npm = dynamic\npm.max_children = 12\n\n; next\n[api]\npm = static\npm.max_children = 9",
    );
}

#[test]
fn option_files_and_the_kernel_s() {
    let options = [
        file("my.cnf", "[client]\nport=1\n[mysqld]\nskip_name_resolve\ninnodb-buffer-pool-size = 8M # few\n"),
        file("conf.d/a.cnf", "[mysqldump]\nquick"),
    ];
    check(
        &options,
        Language::Database,
        "innodb_buffer_pool_size",
        "1024m",
        Some("8M"),
        "[client]\nport=1\n[mysqld]\nskip_name_resolve\ninnodb-buffer-pool-size = 1024m # few\n|[mysqldump]\nquick",
    );
    check(
        &options,
        Language::Database,
        "skip-name-resolve",
        "0",
        Some(""),
        "[client]\nport=1\n[mysqld]\nskip_name_resolve = 0\ninnodb-buffer-pool-size = 8M # few\n|[mysqldump]\nquick",
    );
    check(&options[1..], Language::Database, "port", "2", None, "[mysqldump]\nquick\n[mysqld]\nport = 2\n");
    // What follows another section is none of the server's, whatever is written behind its name.
    let commented = [file("my.cnf", "[mysqld] # the server\nport = 1\n[client] # others\nuser = a\n")];
    check(
        &commented,
        Language::Database,
        "max_connections",
        "9",
        None,
        "[mysqld] # the server\nport = 1\nmax_connections = 9\n[client] # others\nuser = a\n",
    );
    let kernel = [file("99.conf", "# x\nnet.core.somaxconn=128")];
    check(
        &kernel,
        Language::Sysctl,
        "net.core.somaxconn",
        "4096",
        Some("128"),
        "# x\nnet.core.somaxconn=4096",
    );
    check(&kernel, Language::Sysctl, "vm.x", "1", None, "# x\nnet.core.somaxconn=128\nvm.x = 1\n");
    let latin = [File { name: "a.ini".into(), text: b"x=1\ny=\xe4\n".to_vec() }];
    let wanted = Wanted { language: Language::Php, name: "x", pool: "" };
    assert!(read(&latin, &wanted).unwrap_err().to_string().starts_with("a.ini:2: this line is not UTF-8"));
}

#[test]
fn apache_s_files() {
    let files = [file(
        "apache2.conf",
        "KeepAlive On\n<IfModule mpm_event_module>\n\tMaxRequestWorkers\t 150\t\n</IfModule>\n<VirtualHost *:80>\nKeepAlive Off\n</VirtualHost>",
    )];
    let with = |from: &str, to: &str| text(&files).replacen(from, to, 1);
    check(&files, Language::Apache, "MaxRequestWorkers", "64", Some("150"), &with("150", "64"));
    check(&files, Language::Apache, "keepalive", "Off", Some("On"), &with("On", "Off"));
    let added = text(&files) + "\nListenBacklog 9\n";
    check(&files, Language::Apache, "ListenBacklog", "9", None, &added);
    let split = [file("a", "Keep\\\nAlive On\n")];
    let wanted = Wanted { language: Language::Apache, name: "KeepAlive", pool: "" };
    assert!(read(&split, &wanted).unwrap_err().to_string().contains("write it into one"));
}

#[test]
fn an_edit_of_a_file_that_was_changed_is_refused() {
    let files = [file("www.conf", "[www]\npm.max_children = 5\n")];
    let wanted = Wanted { language: Language::Pool, name: "pm.max_children", pool: "www" };
    let edits = set(&files, &wanted, "12").unwrap();
    let others = [file("www.conf", "[www]\n; mine\npm.max_children = 5\n")];
    assert!(apply(&others, &edits).unwrap_err().to_string().contains("was changed meanwhile"));
    assert!(undo(&files, &edits).is_err());
    assert!(set(&files, &wanted, "1\nuser = root").is_err());
}

/// Several edits of one file are undone in their order.
#[test]
fn places_of_several_edits() {
    let files = [file("a", "http { gzip on; server { gzip on; } server { gzip off; } }")];
    check(
        &files,
        HTTP,
        "gzip",
        "always",
        Some("on"),
        "http { gzip always; server { gzip always; } server { gzip off; } }",
    );
}

/// What somebody has set otherwise for a part of the site stays.
#[test]
fn exceptions_of_single_blocks_stay() {
    let files = [
        file("/etc/nginx.conf", "http {\n  keepalive_timeout 5;\n  include sites/*.conf;\n}\n"),
        file(
            "/etc/sites/a.conf",
            "server { keepalive_timeout '5'; location /slow { keepalive_timeout 900; } }\n",
        ),
    ];
    check(
        &files,
        HTTP,
        "keepalive_timeout",
        "65",
        Some("5"),
        "http {\n  keepalive_timeout 65;\n  include sites/*.conf;\n}\n|server { keepalive_timeout 65; location /slow { keepalive_timeout 900; \
         } }\n",
    );
}

/// What locations alone say is none of the whole site: it stays, and the site's value is written outside.
#[test]
fn what_locations_say_where_nothing_else_does_stays() {
    let files = [file("a", "http {\n  server { location /a { gzip off; } location /b { gzip on; } }\n}\n")];
    check(
        &files,
        HTTP,
        "gzip",
        "always",
        None,
        "http {\n  gzip always;\n  server { location /a { gzip off; } location /b { gzip on; } }\n}\n",
    );
    let in_location = |text: &str| {
        let wanted = Wanted { language: HTTP, name: "gzip", pool: "" };
        read_in_location(&[file("a", text)], &wanted).unwrap()
    };
    assert_eq!(in_location("http { server { location / { gzip  on ; } } }").as_deref(), Some("on"));
    assert_eq!(in_location("http { gzip off; server { location / { gzip on; } } }"), None);
    assert_eq!(in_location("http { server { gzip off; location / { gzip off; } } }"), None);
    // A snippet in a location is no part of http, and stands in each list of files once for each time that it is included.
    let snippet = file("/etc/snippet.conf", "gzip off;\n");
    let main = file(
        "/etc/nginx.conf",
        "http { server { location /a { include snippet.conf; } location /b { include snippet.conf; } } }\n",
    );
    check(
        &[main, snippet.clone(), snippet],
        HTTP,
        "gzip",
        "on",
        None,
        "http { gzip on; server { location /a { include snippet.conf; } location /b { include snippet.conf; } } }\n|gzip off;\n|gzip off;\n",
    );
}

/// A setting of servers alone is changed there, and written outside as well for the others.
#[test]
fn what_stands_in_servers_alone_is_set_outside_too() {
    let files = [file(
        "a",
        "http {\n  server { gzip off; location /a { gzip off; } location /b { gzip on; } }\n  server { location /c { gzip off; } }\n}\n",
    )];
    check(
        &files,
        HTTP,
        "gzip",
        "always",
        Some("off"),
        "http {\n  gzip always;\n  server { gzip always; location /a { gzip always; } location /b { gzip on; } }\n  server { location /c { gzip off; } }\n}\n",
    );
}

/// Directives of the same name elsewhere are others.
#[test]
fn other_contexts_are_left_alone() {
    let files = [
        file(
            "/etc/nginx.conf",
            "stream { include streams/?.conf; proxy_buffer_size 16k; }\nhttp { upstream u { keepalive_timeout 9; } include [s]ites/*; }\n",
        ),
        file("/etc/streams/a.conf", "server { proxy_buffer_size 32k; }\n"),
        file("/etc/sites/a", "server { }\n"),
    ];
    let rest = "|server { proxy_buffer_size 32k; }\n|server { }\n";
    let with = |line: &str| {
        format!(
            "stream {{ include streams/?.conf; proxy_buffer_size 16k; }}\nhttp {{ {line} upstream u {{ keepalive_timeout 9; }} include \
             [s]ites/*; }}\n{rest}"
        )
    };
    check(&files, HTTP, "proxy_buffer_size", "8k", None, &with("proxy_buffer_size 8k;"));
    check(&files, HTTP, "keepalive_timeout", "65", None, &with("keepalive_timeout 65;"));
}
