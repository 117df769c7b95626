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
         gzip  static ; root /a; }\n",
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
        "http { gzip always; server { gzip always; } server { gzip always; } }",
    );
}
