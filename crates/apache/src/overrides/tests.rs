//! Settings of files as sites write them.

use super::*;
use crate::Origin;
use crate::access::Verdict;
use crate::conditional::{self, Defines, Server};
use crate::directives::{Places, Standing};
use crate::limits::OVERRIDE_LINE_BYTES_MAX;
use crate::options::Options;
use crate::syntax::{self, Mistake};
use crate::testing::{Request, Rust, RustPattern};

struct Everything;

impl Server for Everything {
    fn has_module(&self, name: &str) -> bool {
        !name.starts_with("security") && !name.starts_with("php")
    }

    fn has_file(&self, _: &[u8]) -> bool {
        false
    }

    fn env(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

fn compile(text: &str) -> Result<Settings<RustPattern>, Mistake> {
    let nodes = syntax::read(text.as_bytes(), OVERRIDE_LINE_BYTES_MAX)?;
    let nodes = conditional::resolve(nodes, &Everything, &Rust, &mut Defines::new())?;
    let options = Options::ALL.or(Options::MULTI_VIEWS).or(Options::SYM_LINKS_IF_OWNER_MATCH);
    let standing = Standing::Override { classes: Places::ALL, list: &[] };
    Compiler { patterns: &Rust, standing, options, origins: &Origin::unknown }.compile(&nodes)
}

fn settings(text: &str) -> Settings<RustPattern> {
    compile(text).unwrap_or_else(|mistake| panic!("{mistake} in\n{text}"))
}

#[test]
fn a_file_as_blogs_have_it() {
    let settings = settings(
        "# BEGIN WordPress
        <IfModule mod_rewrite.c>
        RewriteEngine On
        RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
        RewriteBase /blog/
        RewriteRule ^index\\.php$ - [L]
        RewriteCond %{REQUEST_FILENAME} !-f
        RewriteCond %{REQUEST_FILENAME} !-d
        RewriteRule . /blog/index.php [L]
        </IfModule>
        # END WordPress
        <IfModule mod_expires.c>
        ExpiresActive On
        ExpiresByType image/png \"access plus 1 year\"
        ExpiresDefault \"access plus 2 days\"
        </IfModule>
        <IfModule mod_security2.c>
        SecFilterEngine Off
        </IfModule>
        <FilesMatch \"\\.(htaccess|ini|log)$\">
            Order Allow,Deny
            Deny from all
        </FilesMatch>
        <Files xmlrpc.php>
            Require all denied
        </Files>
        Options -Indexes
        ErrorDocument 404 /blog/404.html
        ErrorDocument 403 \"Not for you\"
        ErrorDocument 401 http://example.org/
        AddType font/woff2 .woff2 WOFF3
        RemoveHandler .cgi
        AddDefaultCharset utf-8
        FileETag -INode
        Header set X-Frame-Options SAMEORIGIN
        SetEnvIfNoCase User-Agent bot is_bot
        SetEnv KEY \"a value\"
        DirectoryIndex index.php index.html
        php_value upload_max_filesize 64M
        php_flag display_errors off
        <If \"%{HTTPS} == 'on'\">
            Header set Strict-Transport-Security max-age=1
        </If>",
    );
    assert_eq!((settings.rewriting.is_on, settings.rewriting.rules.len()), (Some(true), 3));
    assert_eq!(settings.rewriting.base.as_deref(), Some(&b"/blog/"[..]));
    assert_eq!(settings.expires.lifetime(b"image/png").map(|lifetime| lifetime.seconds), Some(365 * 86_400));
    assert_eq!(settings.sections.len(), 3);
    assert!(settings.sections[0].scope.rank() == Rank::Name);
    assert_eq!(
        settings.options.of(Options::INDEXES.or(Options::FOLLOW_SYM_LINKS)),
        Options::FOLLOW_SYM_LINKS
    );
    assert!(matches!(settings.error_documents[&404].document, Document::Path(_)));
    assert!(matches!(settings.error_documents[&403].document, Document::Text(_)));
    assert!(!settings.error_documents.contains_key(&401));
    assert_eq!(settings.mime.endings[&b"woff3"[..]].content_type, Said::Value(b"font/woff2".to_vec()));
    assert_eq!(settings.mime.endings[&b"cgi"[..]].handler, Said::Removed);
    assert_eq!(settings.default_charset, Said::Value(b"utf-8".to_vec()));
    assert_eq!(settings.directory_index.as_ref().map(Vec::len), Some(2));
    assert_eq!(
        settings.php.iter().map(|php| php.value.clone()).collect::<Vec<_>>(),
        [b"64M".to_vec(), b"0".to_vec()]
    );
    assert_eq!((settings.headers.len(), settings.set_env_if.len(), settings.env.len()), (1, 1, 1));
}

#[test]
fn a_line_that_is_not_understood_leaves_nothing() {
    for (text, line, wanted) in [
        ("Require all granted\nNonsense", 2, "Invalid command 'Nonsense'"),
        ("Require all granted\nRequre all denied", 2, "Invalid command 'Requre'"),
        ("RewriteMap a txt:/b", 1, "RewriteMap not allowed here"),
        ("php_admin_value open_basedir none", 1, "php_admin_value: not allowed here"),
        ("php_value error_log \"b\nc\"", 2, "Invalid command 'c\"'"),
        ("php_value \"a b\" c", 1, "php_value: 'a b' is no name of a setting"),
        ("<Files a>\nRequire nobody\n</Files>", 2, "Require: Unknown Authz provider: nobody"),
        ("<RequireAny>\nHeader set A b\n</RequireAny>", 2, "Header not allowed in <RequireAny> context"),
        (
            "<RequireAll>\n</RequireAll>",
            1,
            "<RequireAll>: <RequireAll> directive contains no authorization directives",
        ),
        ("AuthBasicProvider ldap", 1, "AuthBasicProvider: Brisk has no provider 'ldap'"),
        ("RewriteRule ( b", 1, "RewriteRule: RewriteRule: cannot compile regular expression"),
        ("SetOutputFilter SUBSTITUTE", 1, "SetOutputFilter: Brisk has no filter 'substitute'"),
        ("MaxRanges 1", 1, "MaxRanges not allowed here"),
        (
            "AuthBasicAuthoritative Off",
            1,
            "AuthBasicAuthoritative: Brisk does not support this directive here (yet)",
        ),
        ("LogMessage a", 1, "LogMessage not allowed here"),
        ("Define A b\n<IfDefine A>\nOptions All\n</IfDefine>", 1, "Define not allowed here"),
        ("<IfModule mod_rewrite.c>\nUnDefine A\n</IfModule>", 2, "UnDefine not allowed here"),
        ("ErrorDocument 999 x", 1, "ErrorDocument: Unsupported HTTP response code 999"),
        ("<If \"(\">\n</If>", 1, "<If>: Cannot parse condition clause: syntax error"),
        ("<Directory />\n</Directory>", 1, "Directory not allowed here"),
        ("Options All Indexes -None", 1, "Options: 'Options None' must be the first"),
        ("Options Indexes -All", 1, "Options: Either all Options must"),
        (&"SetEnv a b\n".repeat(1025), 1025, "SetEnv: a file may set and unset 1024 variables at most"),
        ("php_value Extension a.so", 1, "php_value: only php.ini or the pool may say this setting"),
        ("php_value disable_functions none", 1, "php_value: only php.ini or the pool"),
        ("php_value error_log ${HOME}", 1, "php_value: the value must be without quotation marks"),
        ("php_value error_log b;c", 1, "php_value: the value must be without quotation marks"),
    ] {
        let mistake = compile(text).err().unwrap_or_else(|| panic!("{text} was accepted"));
        assert_eq!(mistake.line, line, "{text}: {mistake}");
        assert!(mistake.text.starts_with(wanted), "{text}: {mistake}");
    }
}

#[test]
fn what_has_no_effect_is_accepted() {
    for text in [
        "ServerSignature Off",
        "AddOutputFilterByType DEFLATE text/html text/css",
        "FilterDeclare COMPRESS\nFilterProvider COMPRESS DEFLATE \"%{CONTENT_TYPE} = 'text/html'\"\nFilterChain COMPRESS",
        "IndexOptions FancyIndexing",
        "AddIconByType (TXT,/i.gif) text/*",
        "CheckSpelling Off",
        "AuthBasicAuthoritative On",
    ] {
        compile(text).unwrap_or_else(|mistake| panic!("{text}: {mistake}"));
    }
    let ignored =
        settings("IndexIgnore *.a b").below(&settings("IndexIgnore c\nSSLRequireSSL"), Options::NONE);
    assert_eq!(ignored.index_ignore, [b"c".to_vec(), b"*.a".to_vec(), b"b".to_vec()]);
    assert!(ignored.requires_tls);
}

#[test]
fn what_allow_override_leaves() {
    let compile = |text: &str, classes, options| {
        let nodes = syntax::read(text.as_bytes(), OVERRIDE_LINE_BYTES_MAX).unwrap();
        let standing = Standing::Override { classes, list: &[] };
        let compiler = Compiler { patterns: &Rust, standing, options, origins: &Origin::unknown };
        compiler.compile(&nodes).map(drop).map_err(|mistake| mistake.text)
    };
    assert_eq!(compile("RewriteEngine on", Places::FILE_INFO, Options::ALL), Ok(()));
    assert_eq!(
        compile("RewriteEngine on", Places::LIMIT, Options::ALL),
        Err("RewriteEngine not allowed here".into())
    );
    // The class counts in sections, too.
    let text = "<Files a>\nRequire all granted\n</Files>";
    assert_eq!(compile(text, Places::FILE_INFO, Options::ALL), Err("Require not allowed here".into()));
    let text = "<IfModule mod_rewrite.c>\n</IfModule>\nOptions +ExecCGI";
    let nodes = text.split_once('\n').map(|(_, rest)| rest.split_once('\n').unwrap().1).unwrap();
    assert_eq!(
        compile(nodes, Places::OPTIONS, Options::INDEXES),
        Err("Options: Option ExecCGI not allowed here".into())
    );
}

#[test]
fn directories_below_others() {
    let above = settings(
        "RewriteEngine on\nRewriteRule a b\nHeader set A 1\nRequire all denied\nAddType a/b .x .y\nErrorDocument 404 /a
        Order allow,deny\nAllow from all\nDirectoryIndex a\nSetHandler x\nExpiresActive on\nOptions +Indexes",
    );
    let silent = settings("Header set B 2").below(&above, Options::NONE);
    assert_eq!((silent.rewriting.rules.len(), silent.headers.len()), (1, 2));
    assert_eq!(silent.requirements.as_ref().unwrap().judge(&Request::default()), Ok(Verdict::Denied));
    assert!(silent.compat.allows(&Request::default()).unwrap());
    assert_eq!(silent.options.of(Options::NONE), Options::INDEXES);
    assert_eq!(silent.directory_index, Some(vec![b"a".to_vec()]));

    let loud = settings(
        "RewriteRule c d\nRequire all granted\nRemoveType .x\nErrorDocument 404 default\nDeny from all\nSetHandler none\nExpiresActive off",
    );
    let loud = loud.below(&above, Options::NONE);
    assert_eq!(loud.rewriting.rules.len(), 1, "rules replace those above");
    assert_eq!(loud.rewriting.is_on, Some(true));
    assert_eq!(loud.requirements.as_ref().unwrap().judge(&Request::default()), Ok(Verdict::Granted));
    assert!(!loud.compat.allows(&Request::default()).unwrap(), "lines of one directory replace all above");
    assert_eq!(loud.mime.endings[&b"x"[..]].content_type, Said::Removed);
    assert_eq!(loud.mime.endings[&b"y"[..]].content_type, Said::Value(b"a/b".to_vec()));
    assert!(matches!(loud.error_documents[&404].document, Document::Default));
    assert_eq!(loud.handler, Some(Vec::new()));

    let merging = settings("AuthMerging And\nRequire all granted").below(&above, Options::NONE);
    assert_eq!(merging.requirements.as_ref().unwrap().judge(&Request::default()), Ok(Verdict::Denied));
    for (options, count) in [("Inherit", 2), ("InheritBefore", 2), ("IgnoreInherit", 1)] {
        let own = settings(&format!("RewriteOptions {options}\nRewriteRule c d"));
        assert_eq!(own.below(&above, Options::NONE).rewriting.rules.len(), count, "{options}");
    }
}

#[test]
fn sections_are_for_some_requests() {
    let settings = settings(
        "<Files \"*.php\">\n</Files>\n<Files ~ \"^a\">\n</Files>\n<If \"-n ''\">\n</If>\n<ElseIf \"-z ''\">\n</ElseIf>\n<Else>\n</Else>",
    );
    let request = Request::default();
    let mut has_held = false;
    let which = |name: &str, has_held: &mut bool| -> Vec<bool> {
        settings
            .sections
            .iter()
            .map(|section| section.scope.holds(name.as_bytes(), &request, has_held, &mut Vec::new()).unwrap())
            .collect()
    };
    assert_eq!(which("a.php", &mut has_held), [true, true, false, true, false]);
    assert_eq!(which("b.txt", &mut has_held), [false, false, false, true, false]);
}

proptest::proptest! {
    /// Whatever is written, a file has settings or a mistake.
    #[test]
    fn any_file_is_judged(lines in proptest::collection::vec(
        "(RewriteRule|RewriteCond|Require|Header|Options|<Files|<If|</Files|</If|Order|Redirect|SetEnvIf|ErrorDocument|AddType|php_value) [a-zA-Z0-9 .\"%{}$()^!=<>/\\\\-]{0,20}>?", 0..6)
    ) {
        let _ = compile(&lines.join("\n"));
    }
}
