//! Rules of a server that ask how other requests would be answered (`-F`, `-U`, `LA-U`).

use crate::{BIN, HEAD, ask, start};
use brisk_testkit::Builder;

const RULES: &str = "RewriteEngine On
RewriteCond %{DOCUMENT_ROOT}%{REQUEST_URI} -F
RewriteRule ^/file/ - [E=SERVED:yes]
RewriteCond /uri/a.txt -U
RewriteRule ^/open$ /instead.txt
RewriteCond /uri/closed/a.txt -U
RewriteRule ^/closing$ /instead.txt
RewriteCond %{LA-U:REMOTE_USER} ^(.+)$
RewriteRule ^/home$ /%1.txt
Header set X-Served %{SERVED}e env=SERVED
<Location /home>
AuthType Basic
AuthName home
AuthUserFile {{DIR}}/users
Require valid-user
</Location>
<DirectoryMatch /closed>
Require all denied
</DirectoryMatch>
";

#[test]
fn rules_of_a_server_ask_how_others_would_be_answered() {
    let modules = ["rewrite", "headers", "auth_basic", "authn_file", "authz_user"];
    let loads: String = modules.map(|module| format!("LoadModule {module}_module x\n")).concat();
    let server = start(
        Builder::new(BIN)
            .file("users", "ann:{SHA}0nofEXcSAJSXFLGvmfBIpBb11vQ=\n")
            .file("html/file/a.txt", "file")
            .file("html/file/closed/a.txt", "closed")
            .file("html/uri/a.txt", "uri")
            .file("html/uri/closed/a.txt", "closed")
            .file("html/instead.txt", "instead")
            .file("html/ann.txt", "of ann"),
        &format!("{HEAD}{loads}DocumentRoot {{{{DIR}}}}/html\n{RULES}"),
    );
    let login = "Authorization: Basic YW5uOnJpZ2h0\r\n";
    for _ in 0..2 {
        for (target, fields, status, text) in [
            ("/file/a.txt", "", 200, "file"),
            ("/file/closed/a.txt", "", 403, ""),
            ("/file/none.txt", "", 404, ""),
            ("/open", "", 200, "instead"),
            ("/closing", "", 404, ""),
            ("/home", login, 200, "of ann"),
            ("/home", "", 401, ""),
        ] {
            let response = ask(&mut server.client(), ("a.example", target, fields));
            assert_eq!(response.status, status, "{target}: {}", server.error_log());
            assert!(status != 200 || response.text() == text, "{target}: {}", response.text());
            let is_told = response.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-served"));
            assert_eq!(is_told, target == "/file/a.txt", "{target}");
        }
    }
}

/// Rules begin once more when the answer is there, and must not find the variables that they have set before.
#[test]
fn a_step_that_has_asked_begins_with_what_was_there() {
    let modules = ["rewrite", "headers", "setenvif"];
    let loads: String = modules.map(|module| format!("LoadModule {module}_module x\n")).concat();
    let lines = "SetEnvIf SEEN 1 ok\nSetEnvIf Request_URI . SEEN=1\nRewriteEngine On\nRewriteCond /b.txt -U\nRewriteRule ^/a\\.txt$ - [E=ASKED:yes]\nHeader set X-Asked yes env=ASKED\nHeader set X-Ok yes env=ok\n";
    let server = start(
        Builder::new(BIN).file("html/a.txt", "a").file("html/b.txt", "b"),
        &format!(
            "{HEAD}{loads}DocumentRoot {{{{DIR}}}}/html\n<Directory {{{{DIR}}}}/html>\nRequire all granted\n</Directory>\n{lines}"
        ),
    );
    let answer = ask(&mut server.client(), ("a.example", "/a.txt", ""));
    let got = (answer.status, answer.header("X-Asked"), answer.header("X-Ok"));
    assert_eq!(got, (200, Some("yes"), None), "{}", server.error_log());
}
