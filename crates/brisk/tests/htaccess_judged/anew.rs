//! What is judged anew: nothing that was said by files that have been replaced counts, and nobody who was asked before is asked again. The
//! same of steps that have waited and begin once more.

use crate::BIN;
use brisk_testkit::application::Speaks;
use brisk_testkit::{Application, Backend, Builder, Response, Server, children, wait};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

/// A back end that is asked while requests are on their way, and does something to the site's files each time.
struct Gate {
    backend: Backend,
    asked: Arc<AtomicUsize>,
}

impl Gate {
    /// `act` is told the how manieth time it is, counted from 1.
    fn start(act: impl Fn(usize) + Send + Sync + 'static) -> Gate {
        let asked = Arc::<AtomicUsize>::default();
        let count = asked.clone();
        let backend = Backend::start(move |mut peer| {
            while peer.head().is_some() {
                act(count.fetch_add(1, SeqCst) + 1);
                if !peer.answer("") {
                    return;
                }
            }
        });
        Gate { backend, asked }
    }

    fn pass(&self) -> String {
        format!("proxy_pass http://127.0.0.1:{}/;", self.backend.port())
    }

    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    /// The same of copies, which nobody has waited for.
    fn copied(&self) -> usize {
        wait::holds("a copy has come", || self.asked() > 0);
        self.asked()
    }
}

fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    children::write(&new, text);
    fs::rename(&new, file).expect("our own file");
}

/// What a folder's file says when access is judged, what takes its place before there is content, what the client sends, and the status
/// that the new text alone asks for.
const REPLACED: &[(&str, &str, &str, &str, u16)] = &[
    ("set", "SetEnvIf Request_URI . ok\nRequire env ok\n", "Require env ok\n", "", 403),
    (
        "sets",
        "SetEnvIf Request_URI . no\n",
        "<If \"reqenv('no') == '1'\">\nRequire all denied\n</If>\n",
        "",
        200,
    ),
    (
        "ended",
        "RewriteEngine on\nRewriteRule ^ - [END]\n",
        "RewriteEngine on\nRewriteRule ^ - [F]\n",
        "",
        403,
    ),
    ("ruled", "RewriteEngine on\nRewriteRule ^ - [E=ok:1]\n", "Require env ok\n", "", 403),
    (
        "user",
        "AuthType Basic\nAuthName a\nAuthUserFile {{DIR}}/users\nRequire valid-user\n",
        "<If \"%{REMOTE_USER} != 'ann'\">\nRequire all denied\n</If>\n",
        "Authorization: Basic YW5uOnJpZ2h0\r\n",
        403,
    ),
    (
        "other",
        "AuthType Basic\nAuthName a\nAuthUserFile {{DIR}}/users\nRequire valid-user\n",
        "AuthType Basic\nAuthName a\nAuthUserFile {{DIR}}/others\nRequire valid-user\n",
        "Authorization: Basic YW5uOnJpZ2h0\r\n",
        401,
    ),
    (
        "told",
        "RewriteEngine on\nRewriteRule ^ - [T=text/x-old,CO=old:1:127.0.0.1]\nHeader set A old\n",
        "Header set B new\n",
        "",
        200,
    ),
];

#[test]
fn what_replaced_files_have_said_is_forgotten() {
    let next = Arc::<Mutex<Option<(PathBuf, String)>>>::default();
    let todo = next.clone();
    let gate = Gate::start(move |_| {
        if let Some((file, text)) = todo.lock().expect("no test panics with it").take() {
            replace(&file, &text);
        }
    });
    let mut site = Builder::new(BIN).http(&format!(
        "types {{ text/plain txt; }} server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; directory_overrides on;
           location / {{ auth_request /gate; }} location = /gate {{ internal; {} }} }}",
        gate.pass()
    ));
    site = site.file("users", "ann:{PLAIN}right\n").file("others", "bob:{PLAIN}right\n");
    let dir = site.dir().display().to_string();
    for (folder, before, ..) in REPLACED {
        site = site
            .file(&format!("html/{folder}/.htaccess"), before.replace("{{DIR}}", &dir))
            .file(&format!("html/{folder}/a.txt"), "text");
    }
    let server = site.start();
    for (folder, _, after, fields, status) in REPLACED {
        let file = server.dir().join(format!("html/{folder}/.htaccess"));
        let ask = || server.request(format!("GET /{folder}/a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        assert_eq!(ask().status, 200, "{folder}, before: {}", server.error_log());
        *next.lock().expect("no test panics with it") = Some((file, after.replace("{{DIR}}", &dir)));
        let (answer, later) = (ask(), ask());
        assert_eq!((answer.status, later.status), (*status, *status), "{folder}: {}", server.error_log());
        for name in ["Content-Type", "Set-Cookie", "A", "B", "WWW-Authenticate"] {
            assert_eq!(answer.header(name), later.header(name), "{folder}: {name}");
        }
    }
}

/// A password that takes long is checked on the pool, and the judgement begins once more when that is done.
#[test]
fn a_judgement_that_has_waited_begins_with_what_was_there() {
    // slow:password
    let users = "slow:$2y$05$abcdefghijklmnopqrstuuWG29KuyeAicPCJODk1zjyGvyQUU2awu\n";
    let site = Builder::new(BIN)
        .http(
            "server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html; directory_overrides on; location / { } }",
        )
        .file("users", users)
        .file("html/a/a.txt", "secret");
    let lines = format!(
        "SetEnvIf SEEN 1 ok\nSetEnvIf Request_URI . SEEN=1\nAuthType Basic\nAuthName a\nAuthUserFile {}/users\n<RequireAny>\nRequire env ok\nRequire user nobody\n</RequireAny>\n",
        site.dir().display()
    );
    let server = site.file("html/a/.htaccess", lines).start();
    let request = "GET /a/a.txt HTTP/1.1\r\nHost: a\r\nAuthorization: Basic c2xvdzpwYXNzd29yZA==\r\n\r\n";
    assert_eq!(server.request(request).status, 401, "{}", server.error_log());
}

/// While a file is written, a request passes its old and its new rules. Each of the two passwords was checked again and again, as only the
/// last one was known to be right.
#[test]
fn passwords_of_old_and_new_rules_are_checked_once_each() {
    use std::io::Write as _;
    let users = "slow:$2y$05$abcdefghijklmnopqrstuuWG29KuyeAicPCJODk1zjyGvyQUU2awu\n";
    let site = Builder::new(BIN)
        .main("worker_processes 1;")
        .http(
            "server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html; directory_overrides on; location / { } }",
        )
        .file("old", users)
        .file("new", users)
        .file("html/a/a.txt", "text");
    let dir = site.dir().display().to_string();
    let lines = |name: &str| {
        format!(
            "AuthType Basic\nAuthName {name}\nAuthUserFile {dir}/{name}\nRequire valid-user\nHeader set A {name}\n"
        )
    };
    let server = site.file("html/a/.htaccess", lines("old")).start();
    let ask = |login: &str| {
        server.request(format!("GET /a/a.txt HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {login}\r\n\r\n"))
    };
    let (right, wrong) = ("c2xvdzpwYXNzd29yZA==", "c2xvdzp3cm9uZw==");
    for _ in 0..3 {
        assert_eq!(ask(right).status, 200, "{}", server.error_log());
    }
    let mut file = fs::File::create(server.dir().join("html/a/.htaccess")).expect("our own file");
    file.write_all(lines("new").as_bytes()).expect("our own file");
    let answer = ask(right);
    assert_eq!((answer.status, answer.header("A")), (200, Some("old")), "{}", server.error_log());
    assert_eq!(ask(wrong).status, 401);
    drop(file);
    wait::holds("the new rules hold alone", || ask(right).header("A") == Some("new"));
}

/// A file that is never in memory has the step wait that looks at it, behind the rules.
#[test]
fn rules_are_carried_out_once_where_their_step_has_waited() {
    let application = Application::start(Speaks::FastCgi, 1, |exchange| {
        let query = exchange.asked.param("QUERY_STRING").to_string();
        exchange.stdout(format!("Content-Type: text/plain\r\n\r\n{query}"));
    });
    let site = Builder::new(BIN).main("env BRISK_FAULTS;").http(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; directory_overrides on;
           location / {{ }} location ~ \\.php$ {{ fastcgi_pass {}; fastcgi_param QUERY_STRING $args; fastcgi_param SCRIPT_FILENAME $document_root$uri; }} }}",
        application.address()
    ));
    let cold = site.dir().join("cold");
    let lines = format!(
        "RewriteEngine on\nRewriteRule ^(.*)$ $1?a=1 [QSA]\nRequestHeader set X-A yes \"expr=-f '{}/x'\"\n",
        cold.display()
    );
    let server = site
        .env("BRISK_FAULTS", &format!("stall:1={}/", cold.display()))
        .file("cold/x", "x")
        .file("html/a.php", "<?php")
        .file("html/.htaccess", lines)
        .start();
    assert_eq!(server.get("/a.php?b=2").text(), "a=1&b=2", "{}", server.error_log());
}

/// The handler that asks for a password behind `try_files` is another one than that which stands at its place in the phase of limits.
#[test]
fn a_login_behind_try_files_is_judged_to_its_end() {
    let users = "slow:$2y$05$abcdefghijklmnopqrstuuWG29KuyeAicPCJODk1zjyGvyQUU2awu\n";
    let site = Builder::new(BIN)
        .http(
            "limit_req_zone $server_port zone=many:32k rate=1000r/s;
             server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html; directory_overrides on;
               set_real_ip_from 192.0.2.1; limit_req zone=many burst=100 nodelay;
               location /closed { try_files /of_bob/a.txt =404; }
               location /open { try_files /of_slow/a.txt =404; } }",
        )
        .file("users", users)
        .file("html/of_bob/a.txt", "secret")
        .file("html/of_slow/a.txt", "text");
    let lines = format!("AuthType Basic\nAuthName a\nAuthUserFile {}/users\n", site.dir().display());
    let server = site
        .file("html/of_bob/.htaccess", format!("{lines}Require user bob\n"))
        .file("html/of_slow/.htaccess", format!("{lines}Require user slow\n"))
        .start();
    for (target, status) in [("/closed", 401), ("/open", 200)] {
        let login = "Authorization: Basic c2xvdzpwYXNzd29yZA==";
        let answer = server.request(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{login}\r\n\r\n"));
        assert_eq!(answer.status, status, "{target}: {}", server.error_log());
        assert_eq!(server.get(target).status, 401, "{target}");
    }
}

/// A request goes back to where its files were judged. Rules of the configuration, which came before, are not carried out once more:
/// their place would be another one.
#[test]
fn what_is_judged_anew_stays_where_it_is() {
    let file = Arc::<Mutex<PathBuf>>::default();
    let name = file.clone();
    let gate = Gate::start(move |_| {
        replace(&name.lock().expect("no test panics with it"), "Header set A new\n");
    });
    let copies = Gate::start(|_| {});
    let server = Builder::new(BIN)
        .http(&format!(
            "types {{ text/plain txt; }} server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; directory_overrides on;
               rewrite ^(?!/gate|/copy)(.*)$ /public$1;
               location / {{ }}
               location /public/ {{ internal; rewrite ^/public/(.*)$ /public/deep/$1 break; auth_request /gate; mirror /copy; }}
               location = /gate {{ internal; {} }} location = /copy {{ internal; {} }} }}",
            gate.pass(),
            copies.pass()
        ))
        .file("html/public/.htaccess", "Header set A old\n")
        .file("html/public/deep/a.txt", "text")
        .start();
    *file.lock().expect("no test panics with it") = server.dir().join("html/public/.htaccess");
    let answer = server.get("/a.txt");
    let got = (answer.status, answer.text(), answer.header("A").map(str::to_string));
    assert_eq!(got, (200, "text".into(), Some("new".into())), "{}", server.error_log());
    assert_eq!((gate.asked(), copies.copied()), (1, 1));
}

/// Each round also begins with the URI that `try_files` and the rules have not changed yet.
#[test]
fn who_was_asked_is_not_asked_again_however_often_a_request_is_judged_anew() {
    let (gate, copies) = (Gate::start(|_| {}), Gate::start(|_| {}));
    let site = Builder::new(BIN).main("env BRISK_FAULTS; worker_processes 1;").http(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; directory_overrides on; add_header Args $args;
           location / {{ auth_request /gate; mirror /copy; try_files /other$uri.txt =404; }}
           location = /gate {{ internal; {} }} location = /copy {{ internal; {} }} }}",
        gate.pass(),
        copies.pass()
    ));
    let faults = format!("replaced:40={}/html/other/", site.dir().display());
    let site = site
        .file("html/.htaccess", "RewriteEngine on\nRewriteRule ^(.*)$ $1?a=1 [QSA]\n")
        .file("html/other/a.txt", "text");
    let server = site.env("BRISK_FAULTS", &faults).start();
    let answer = server.get("/a?b=2");
    let got = (answer.status, answer.text(), answer.header("Args").map(str::to_string));
    assert_eq!(got, (200, "text".into(), Some("a=1&b=2".into())), "{}", server.error_log());
    assert_eq!((gate.asked(), copies.copied()), (1, 1));
}

/// Lets a gate replace a file so often while one request is on its way to a script, and gives the answer, how often the gate was asked and
/// the script run for it.
fn replaced_meanwhile(
    server: &Server,
    (gate, todo): (&Gate, &Todo),
    application: &Application,
    texts: impl DoubleEndedIterator<Item = String>,
) -> (Response, usize, usize) {
    let file = server.dir().join("html/.htaccess");
    let (asked, run) = (gate.asked(), application.requests());
    todo.lock().expect("no test panics with it").extend(texts.rev().map(|text| (file.clone(), text)));
    let answer = server.get("/a.html");
    (answer, gate.asked() - asked, application.requests() - run)
}

/// Files that are to be replaced, the next one last.
type Todo = Arc<Mutex<Vec<(PathBuf, String)>>>;

/// Replaces one file each time that it is asked, as long as there are any.
fn replacing() -> (Gate, Todo) {
    let next = Todo::default();
    let todo = next.clone();
    let gate = Gate::start(move |_| {
        if let Some((file, text)) = todo.lock().expect("no test panics with it").pop() {
            replace(&file, &text);
        }
    });
    (gate, next)
}

fn telling_the_round() -> Application {
    Application::start(Speaks::FastCgi, 1, |exchange| {
        let round = exchange.asked.param("ROUND").to_string();
        exchange.stdout(format!("Content-Type: text/plain\r\n\r\nround {round}"));
    })
}

/// What was asked for a few times is watched, so that the server knows of each new file that it is whole.
fn warm(server: &Server) {
    for _ in 0..5 {
        assert_eq!(server.get("/a.html").text(), "round ", "{}", server.error_log());
    }
}

const ROUNDS: usize = 20;

/// Each round leads to another location, which was taken for a circle of redirects. In the end the file is what it is then: no script.
#[test]
fn a_script_whose_rules_are_replaced_many_times_is_run_by_the_last() {
    let script = "AddHandler application/x-httpd-php .html\n";
    let (gate, todo) = replacing();
    let application = telling_the_round();
    let server = Builder::new(BIN)
        .main("worker_processes 1;")
        .http(&format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; directory_overrides on php=@php;
               location / {{ }} location = /gate {{ internal; {} }}
               location @php {{ auth_request /gate; fastcgi_pass {}; fastcgi_param SCRIPT_FILENAME $document_root$uri; }} }}",
            gate.pass(),
            application.address()
        ))
        .file("html/a.html", "text")
        .file("html/.htaccess", script)
        .start();
    warm(&server);
    let texts = (1..=ROUNDS).map(|round| format!("{script}SetEnv ROUND {round}\n"));
    let (answer, asked, run) = replaced_meanwhile(&server, (&gate, &todo), &application, texts);
    assert_eq!((answer.status, answer.text()), (200, format!("round {ROUNDS}")), "{}", server.error_log());
    assert_eq!((asked, run), (ROUNDS + 1, 1));
    let texts = ["Header set A plain\n".to_string()];
    let (answer, _, run) = replaced_meanwhile(&server, (&gate, &todo), &application, texts.into_iter());
    let got = (answer.status, answer.text(), answer.header("A").map(str::to_string));
    assert_eq!(got, (200, "text".into(), Some("plain".into())), "{}", server.error_log());
    assert_eq!(run, 0);
}

/// The same by `SetHandler` of Apache's own files. The location that leads to the script asks the gate, too: once.
#[test]
fn a_script_of_apaches_own_files_is_run_by_the_last_rules() {
    let (gate, todo) = replacing();
    let application = telling_the_round();
    let mut builder = Builder::new(BIN).file("html/a.html", "text").file("html/.htaccess", "# 0\n");
    let site = builder.fill(&format!(
        "<VirtualHost 127.0.0.1:{{{{PORT}}}}>\nServerName a\nDocumentRoot {{{{DIR}}}}/html\nProxyPass /gate http://127.0.0.1:{}/\n<Directory {{{{DIR}}}}/html>\nAllowOverride All\nRequire all granted\n</Directory>\n<FilesMatch \\.html$>\nSetHandler \"proxy:fcgi://{}\"\n</FilesMatch>\n</VirtualHost>\n",
        gate.backend.port(),
        application.address()
    ));
    let server = builder
        .main("worker_processes 1;")
        .http("auth_request /gate; include_apache {{DIR}}/site.conf;")
        .file("site.conf", site)
        .start();
    warm(&server);
    let texts = (1..=ROUNDS).map(|round| format!("SetEnv ROUND {round}\n"));
    let (answer, asked, run) = replaced_meanwhile(&server, (&gate, &todo), &application, texts);
    assert_eq!((answer.status, answer.text()), (200, format!("round {ROUNDS}")), "{}", server.error_log());
    // The first time by the location of the files, then once for each time that it leads to the script's.
    assert_eq!((asked, run), (ROUNDS + 1, 1));
}
