//! Sites: `.htaccess` files as well-known programs write them, in our own words, over one tree of files.

/// One site.
pub struct Site {
    /// Its host.
    pub name: &'static str,
    /// Its files beside those of [`TREE`].
    pub files: &'static [(&'static str, &'static str)],
    /// What is asked beside [`TARGETS`].
    pub targets: &'static [&'static str],
    /// Fields of requests beside [`VARIANTS`].
    pub variants: &'static [&'static str],
    /// Targets whose answers differ, and why.
    pub explained: &'static [(&'static str, &'static str)],
}

/// Files that every site has.
pub const TREE: &[(&str, &str)] = &[
    ("index.php", "<?php"),
    ("wp-login.php", "<?php"),
    ("xmlrpc.php", "<?php"),
    ("wp-config.php", "<?php secret"),
    ("wp-content/uploads/a.png", "png"),
    ("wp-content/uploads/evil.php", "<?php"),
    ("wp-content/plugins/style.css", "css"),
    ("wp-includes/js/a.js", "js"),
    ("cache/page.html", "cached page"),
    ("cache/index.html", "cached index"),
    ("readme.html", "readme"),
    ("readme.txt", "readme text"),
    ("a.json", "{}"),
    ("font.woff2", "font"),
    ("logo.svg", "<svg/>"),
    ("app.js", "script"),
    ("app.js.gz", "gzipped script"),
    (".env", "secret"),
    (".git/config", "secret"),
    ("composer.json", "secret"),
    ("dump.sql", "secret"),
    ("config.ini", "secret"),
    ("error.log", "secret"),
    ("page.html.bak", "secret"),
    ("module.inc", "secret"),
    ("folder/index.html", "folder"),
    ("folder/deep/er/file.txt", "deep file"),
    ("empty/file.txt", "file"),
    ("old page.txt", "space"),
    ("vendor/lib.txt", "vendor"),
];

/// What is asked of every site.
pub const TARGETS: &[&str] = &[
    "/",
    "/?a=b",
    "/index.php",
    "/index.php?q=1&r=2",
    "/hello-world/",
    "/2024/01/post?p=1",
    "/readme.html",
    "/readme.txt",
    "/wp-content/uploads/a.png",
    "/wp-content/plugins/style.css",
    "/wp-includes/js/a.js",
    "/wp-config.php",
    "/xmlrpc.php",
    "/wp-login.php",
    "/.env",
    "/.git/config",
    "/.htaccess",
    "/.htpasswd",
    "/composer.json",
    "/dump.sql",
    "/config.ini",
    "/error.log",
    "/page.html.bak",
    "/module.inc",
    "/folder",
    "/folder/",
    "/folder/deep/er/file.txt",
    "/folder/deep/",
    "/empty/",
    "/empty",
    "/none",
    "/none/at/all.txt",
    "/old%20page.txt",
    "/a.json",
    "/font.woff2",
    "/logo.svg",
    "/app.js",
    "/cache/page.html",
    "/cache/",
    "/folder/deep/er/file.txt/path/info",
    "/vendor/lib.txt",
    "/robots.txt",
    "/a%20b/c%3Fd",
    "/folder/../readme.txt",
    "/?author=1",
    "/index.php/path/info",
    "//readme.txt",
    "/wp-content/uploads/evil.php",
    "/caf%C3%A9",
    "/READMe.TXT",
];

/// Fields that requests are sent with.
pub const VARIANTS: &[&str] = &[
    "",
    "User-Agent: Mozilla/5.0 (compatible; BadBot/1.0)\r\nReferer: http://elsewhere.example/page\r\n",
    "Cookie: wordpress_logged_in_x=1; a=b\r\nAuthorization: Basic YW5uOnJpZ2h0\r\n",
];

/// A site that is asked for what all are asked for.
pub const fn site(name: &'static str, htaccess: &'static [(&'static str, &'static str)]) -> Site {
    Site { name, files: htaccess, targets: &[], variants: &[], explained: &[] }
}

/// All sites.
pub const SITES: &[Site] = &[
    Site {
        name: "pages-that-fail",
        files: &[
            (
                ".htaccess",
                "Redirect 302 /moved-page https://o.example/\nRewriteEngine On\nRewriteRule ^ruled-page$ https://o.example/ruled [R=301]\nRewriteRule ^ruled-gone$ - [G]\n",
            ),
            ("vendor/.htaccess", "<Files denied.html>\nRequire all denied\n</Files>\n"),
            ("vendor/denied.html", "secret"),
            ("pages/missing404/.htaccess", "ErrorDocument 404 /no-page.html\n"),
            ("pages/missing404/closed.txt", "secret"),
            ("pages/missing404/file.txt", "file"),
            (
                "pages/missing403/.htaccess",
                "ErrorDocument 403 /no-page.html\n<Files closed.txt>\nRequire all denied\n</Files>\n",
            ),
            ("pages/missing403/closed.txt", "secret"),
            ("pages/missing403/file.txt", "file"),
            (
                "pages/missing401/.htaccess",
                "ErrorDocument 401 /no-page.html\nAuthType Basic\nAuthName a\nAuthUserFile {{DIR}}/users\nRequire valid-user\n",
            ),
            ("pages/missing401/closed.txt", "secret"),
            ("pages/missing401/file.txt", "file"),
            (
                "pages/denied/.htaccess",
                "ErrorDocument 404 /vendor/denied.html\nHeader always set X-Place denied\nHeader set X-Success denied\n",
            ),
            ("pages/denied/closed.txt", "secret"),
            ("pages/denied/file.txt", "file"),
            ("pages/moved/.htaccess", "ErrorDocument 404 /moved-page\n"),
            ("pages/moved/closed.txt", "secret"),
            ("pages/moved/file.txt", "file"),
            ("pages/folder-page/.htaccess", "ErrorDocument 404 /folder\n"),
            ("pages/folder-page/closed.txt", "secret"),
            ("pages/folder-page/file.txt", "file"),
            ("pages/ruled/.htaccess", "ErrorDocument 404 /ruled-page\n"),
            ("pages/ruled/closed.txt", "secret"),
            ("pages/ruled/file.txt", "file"),
            ("pages/ruled-gone/.htaccess", "ErrorDocument 404 /ruled-gone\n"),
            ("pages/ruled-gone/closed.txt", "secret"),
            ("pages/ruled-gone/file.txt", "file"),
            ("pages/s404/.htaccess", "ErrorDocument 404 /wp-login.php\n"),
            ("pages/s404/closed.txt", "secret"),
            ("pages/s404/file.txt", "file"),
            ("pages/s410/.htaccess", "ErrorDocument 404 /wp-login.php?status=410\n"),
            ("pages/s410/closed.txt", "secret"),
            ("pages/s410/file.txt", "file"),
            ("pages/s503/.htaccess", "ErrorDocument 404 /wp-login.php?status=503\n"),
            ("pages/s503/closed.txt", "secret"),
            ("pages/s503/file.txt", "file"),
            ("pages/s204/.htaccess", "ErrorDocument 404 /wp-login.php?status=204\n"),
            ("pages/s204/closed.txt", "secret"),
            ("pages/s204/file.txt", "file"),
            ("pages/s302/.htaccess", "ErrorDocument 404 /wp-login.php?status=302\n"),
            ("pages/s302/closed.txt", "secret"),
            ("pages/s302/file.txt", "file"),
            (
                "pages/s403/.htaccess",
                "ErrorDocument 403 /wp-login.php?status=404\n<Files closed.txt>\nRequire all denied\n</Files>\n",
            ),
            ("pages/s403/closed.txt", "secret"),
            ("pages/s403/file.txt", "file"),
            (
                "pages/control/.htaccess",
                "RewriteEngine On\nRewriteRule ^led/(.*)$ https://o.example/$1 [R,NE]\nHeader set X-Path expr=%{REQUEST_URI}\n",
            ),
            ("pages/control/closed.txt", "secret"),
            ("pages/control/file.txt", "file"),
            ("pages/packed/.htaccess", "SetOutputFilter DEFLATE\nErrorDocument 404 \"a text\"\n"),
            ("pages/packed/a.php", "<?php"),
            ("pages/unused/.htaccess", "AuthUserFile .htnopasswd\nAuthGroupFile none\n"),
            ("pages/unused/closed.txt", "secret"),
            ("pages/unused/file.txt", "file"),
        ],
        targets: &[
            "/pages/missing404/none",
            "/pages/missing404/closed.txt",
            "/pages/missing404/file.txt",
            "/pages/missing403/none",
            "/pages/missing403/closed.txt",
            "/pages/missing403/file.txt",
            "/pages/missing401/none",
            "/pages/missing401/closed.txt",
            "/pages/missing401/file.txt",
            "/pages/denied/none",
            "/pages/denied/closed.txt",
            "/pages/denied/file.txt",
            "/pages/moved/none",
            "/pages/moved/closed.txt",
            "/pages/moved/file.txt",
            "/pages/folder-page/none",
            "/pages/folder-page/closed.txt",
            "/pages/folder-page/file.txt",
            "/pages/ruled/none",
            "/pages/ruled/closed.txt",
            "/pages/ruled/file.txt",
            "/pages/ruled-gone/none",
            "/pages/ruled-gone/closed.txt",
            "/pages/ruled-gone/file.txt",
            "/pages/s404/none",
            "/pages/s404/closed.txt",
            "/pages/s404/file.txt",
            "/pages/s410/none",
            "/pages/s410/closed.txt",
            "/pages/s410/file.txt",
            "/pages/s503/none",
            "/pages/s503/closed.txt",
            "/pages/s503/file.txt",
            "/pages/s204/none",
            "/pages/s204/closed.txt",
            "/pages/s204/file.txt",
            "/pages/s302/none",
            "/pages/s302/closed.txt",
            "/pages/s302/file.txt",
            "/pages/s403/none",
            "/pages/s403/closed.txt",
            "/pages/s403/file.txt",
            "/pages/control/none",
            "/pages/control/closed.txt",
            "/pages/control/file.txt",
            "/pages/unused/none",
            "/pages/unused/closed.txt",
            "/pages/unused/file.txt",
            "/pages/packed/a.php",
            "/pages/packed/a.php?status=410",
            "/pages/packed/a.php?status=302",
            "/pages/packed/none",
            "/pages/control/led/a%01b",
            "/pages/control/led/a%0ab",
            "/pages/control/led/a%09b",
            "/pages/control/file.txt%01",
            "/pages/control/file.txt/a%0ab",
            "/pages/control/led/ab",
        ],
        variants: &["Accept-Encoding: gzip\r\n"],
        explained: &[],
    },
    Site {
        explained: &[("/page.html.bak", "without any file the location says the type, by the last ending")],
        ..site("none", &[])
    },
    site(
        "wordpress",
        &[(
            ".htaccess",
            "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n# END WordPress\n",
        )],
    ),
    site(
        "hardened",
        &[
            (
                ".htaccess",
                "<Files wp-config.php>\nRequire all denied\n</Files>\n<Files xmlrpc.php>\nOrder Deny,Allow\nDeny from all\n</Files>\n<FilesMatch \"^\\.(env|git)|\\.(sql|ini|log|bak|inc)$\">\n<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nOrder allow,deny\nDeny from all\n</IfModule>\n</FilesMatch>\nRedirectMatch 404 /\\.git\nOptions -Indexes\n<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} (badbot|evil) [NC]\nRewriteRule .* - [F,L]\nRewriteCond %{QUERY_STRING} ^author=([0-9]*)\nRewriteRule .* - [F]\nRewriteCond %{HTTP_REFERER} !^$\nRewriteCond %{HTTP_REFERER} !^http://hardened/ [NC]\nRewriteRule \\.(png|gif)$ - [F]\n</IfModule>\n",
            ),
            (
                "wp-content/uploads/.htaccess",
                "<FilesMatch \"\\.(?i:php)$\">\nRequire all denied\n</FilesMatch>\n",
            ),
            ("vendor/.htaccess", "Order deny,allow\nDeny from all\n"),
        ],
    ),
    site(
        "supercache",
        &[(
            ".htaccess",
            "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteBase /\nAddDefaultCharset UTF-8\nRewriteCond %{REQUEST_URI} !^.*[^/]$\nRewriteCond %{REQUEST_URI} !^.*//.*$\nRewriteCond %{REQUEST_METHOD} !POST\nRewriteCond %{QUERY_STRING} ^$\nRewriteCond %{HTTP:Cookie} !^.*(comment_author_|wordpress_logged_in|wp-postpass_).*$\nRewriteCond %{DOCUMENT_ROOT}/cache/index.html -f\nRewriteRule ^(.*) \"/cache/index.html\" [L]\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n",
        )],
    ),
    site(
        "w3tc",
        &[(
            ".htaccess",
            "<IfModule mod_expires.c>\nExpiresActive On\nExpiresByType text/css A31536000\nExpiresByType text/javascript A31536000\nExpiresByType text/html A3600\nExpiresByType image/png \"access plus 1 year\"\n</IfModule>\n<FilesMatch \"\\.(css|js)$\">\nFileETag None\n<IfModule mod_headers.c>\nHeader set Cache-Control \"public\"\nHeader unset ETag\nHeader set X-Powered-By \"W3\"\n</IfModule>\n</FilesMatch>\n<FilesMatch \"\\.(html|htm|txt|xml)$\">\n<IfModule mod_headers.c>\nHeader append Cache-Control \"public\"\n</IfModule>\n</FilesMatch>\n<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteBase /\nRewriteCond %{HTTPS} =on\nRewriteRule .* - [E=W3TC_SSL:_ssl]\nRewriteCond %{HTTP_USER_AGENT} BadBot [NC]\nRewriteRule .* - [E=W3TC_UA:_bot]\nRewriteCond %{HTTP_COOKIE} (wordpress_logged_in) [NC]\nRewriteRule .* - [S=1]\nRewriteCond \"%{DOCUMENT_ROOT}/cache/page%{ENV:W3TC_UA}.html\" -f\nRewriteRule ^hello-world/?$ \"/cache/page%{ENV:W3TC_UA}.html\" [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n",
        )],
    ),
    site(
        "drupal",
        &[(
            ".htaccess",
            "<FilesMatch \"\\.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\\.php)?|xtmpl|yml)(~|\\.sw[op]|\\.bak|\\.orig|\\.save)?$|^(\\.(?!well-known).*|Entries.*|Repository|Root|Tag|Template|composer\\.(json|lock)|web\\.config)$|^#.*#$\">\n<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nOrder allow,deny\n</IfModule>\n</FilesMatch>\nOptions -Indexes\nErrorDocument 404 /index.php\nDirectoryIndex index.php index.html index.htm\nAddType image/svg+xml svg svgz\nAddEncoding gzip svgz\n<IfModule mod_expires.c>\nExpiresActive On\nExpiresDefault A1209600\n<FilesMatch \\.php$>\nExpiresActive Off\n</FilesMatch>\n</IfModule>\n<IfModule mod_rewrite.c>\nRewriteEngine on\nRewriteRule ^ - [E=protossl]\nRewriteCond %{HTTPS} on\nRewriteRule ^ - [E=protossl:s]\nRewriteRule ^ - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteRule \"/\\.|^\\.(?!well-known/)\" - [F]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} !=/favicon.ico\nRewriteRule ^ index.php [L]\nRewriteCond %{HTTP:Accept-encoding} gzip\nRewriteCond %{REQUEST_FILENAME}\\.gz -s\nRewriteRule ^(.*css_[a-zA-Z0-9-_]+)\\.css$ $1\\.css\\.gz [QSA]\n</IfModule>\n<IfModule mod_headers.c>\nHeader always set X-Content-Type-Options nosniff\nRequestHeader unset Proxy\n</IfModule>\n",
        )],
    ),
    site(
        "joomla",
        &[(
            ".htaccess",
            "<IfModule mod_autoindex.c>\nOptions -Indexes\n</IfModule>\n<IfModule mod_headers.c>\nHeader always set X-Content-Type-Options \"nosniff\"\n<FilesMatch \"\\.svg$\">\nHeader always set Content-Security-Policy \"script-src 'none'\"\n</FilesMatch>\n</IfModule>\nRewriteEngine On\nRewriteCond %{QUERY_STRING} base64_encode[^(]*\\([^)]*\\) [OR]\nRewriteCond %{QUERY_STRING} (<|%3C)([^s]*s)+cript.*(>|%3E) [NC,OR]\nRewriteCond %{QUERY_STRING} GLOBALS(=|\\[|\\%[0-9A-Z]{0,2}) [OR]\nRewriteCond %{QUERY_STRING} _REQUEST(=|\\[|\\%[0-9A-Z]{0,2})\nRewriteRule .* index.php [F]\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteCond %{REQUEST_URI} !^/index\\.php\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule .* index.php [L]\n",
        )],
    ),
    site(
        "laravel",
        &[(
            ".htaccess",
            "<IfModule mod_rewrite.c>\n<IfModule mod_negotiation.c>\nOptions -MultiViews -Indexes\n</IfModule>\nRewriteEngine On\nRewriteCond %{HTTP:Authorization} .\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} (.+)/$\nRewriteRule ^ %1 [L,R=301]\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]\n</IfModule>\n",
        )],
    ),
    site(
        "mediawiki",
        &[(
            ".htaccess",
            "RewriteEngine On\nRewriteRule ^/?wiki(/.*)?$ %{DOCUMENT_ROOT}/index.php [L]\nRewriteRule ^/?$ %{DOCUMENT_ROOT}/index.php [L]\nRewriteRule ^old/(.*)$ /folder/$1 [R=301,L]\nRewriteRule ^moved$ http://other.example/x?y=1 [R,QSA,NE]\nRewriteRule ^esc/(.*)$ /found?t=$1 [R,B,L]\n",
        )],
    ),
    site(
        "h5bp",
        &[(
            ".htaccess",
            "<IfModule mod_headers.c>\nHeader always set X-Frame-Options \"DENY\" \"expr=%{CONTENT_TYPE} =~ m#text/(html|javascript)|application/pdf|xml#i\"\nHeader set X-Content-Type-Options \"nosniff\"\nHeader always set Referrer-Policy \"strict-origin\" \"expr=%{CONTENT_TYPE} =~ m#text\\/(css|html|javascript)|application\\/pdf|xml#i\"\nHeader unset X-Powered-By\nHeader always unset X-Powered-By\n</IfModule>\n<IfModule mod_setenvif.c>\n<IfModule mod_headers.c>\n<FilesMatch \"\\.(bmp|cur|gif|ico|jpe?g|png|svgz?|webp)$\">\nSetEnvIf Origin \":\" IS_CORS\nHeader set Access-Control-Allow-Origin \"*\" env=IS_CORS\n</FilesMatch>\n</IfModule>\n</IfModule>\nErrorDocument 404 /readme.html\n<IfModule mod_autoindex.c>\nOptions -Indexes\n</IfModule>\n<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteCond %{REQUEST_URI} \"!(^|/)\\.well-known/([^./]+./?)+$\" [NC]\nRewriteCond %{SCRIPT_FILENAME} -d [OR]\nRewriteCond %{SCRIPT_FILENAME} -f\nRewriteRule \"(^|/)\\.\" - [F]\n</IfModule>\n<IfModule mod_authz_core.c>\n<FilesMatch \"(^#.*#|\\.(bak|conf|dist|fla|in[ci]|log|orig|psd|sh|sql|sw[op])|~)$\">\nRequire all denied\n</FilesMatch>\n</IfModule>\n<IfModule mod_mime.c>\nAddType application/manifest+json webmanifest\nAddType text/javascript js mjs\nAddCharset utf-8 .css .js .json .txt\n</IfModule>\nAddDefaultCharset utf-8\nFileETag None\n<IfModule mod_expires.c>\nExpiresActive on\nExpiresDefault \"access plus 1 month\"\nExpiresByType text/css \"access plus 1 year\"\nExpiresByType application/json \"access plus 0 seconds\"\nExpiresByType text/html \"access plus 0 seconds\"\n</IfModule>\n",
        )],
    ),
    site(
        "redirects",
        &[(
            ".htaccess",
            "Redirect 301 /none http://new.example/there\nRedirect /2024 /archive\nRedirect gone /readme.html\nRedirectMatch 302 ^/hello-(.*)/$ /bye-$1\nRedirectPermanent /vendor /folder\nErrorDocument 404 \"Nothing here\"\nErrorDocument 403 http://errors.example/403\nErrorDocument 410 /readme.txt\n<Files a.json>\nRequire all denied\n</Files>\n",
        )],
    ),
    site(
        "lists",
        &[
            (".htaccess", "Options +Indexes\nDirectoryIndex start.html index.html\n"),
            ("folder/.htaccess", "DirectoryIndex disabled\nOptions -Indexes\n"),
            ("empty/.htaccess", "DirectoryIndex /readme.txt\n"),
            ("cache/.htaccess", "DirectorySlash Off\nFallbackResource /index.php\n"),
        ],
    ),
    site(
        "users",
        &[
            (
                ".htaccess",
                "AuthType Basic\nAuthName \"Members\"\nAuthUserFile {{DIR}}/users\n<Files a.json>\nRequire valid-user\n</Files>\n<Files readme.txt>\nRequire user bob\n</Files>\n<Files readme.html>\nRequire valid-user\nOrder deny,allow\nDeny from all\nSatisfy any\n</Files>\n<Files error.log>\nSatisfy any\nRequire all denied\n</Files>\n",
            ),
            ("folder/.htaccess", "Require valid-user\n"),
            ("folder/deep/.htaccess", "Require all granted\n"),
            ("empty/.htaccess", "Require valid-user\nSatisfy any\n"),
            (
                "vendor/.htaccess",
                "<Limit POST>\nRequire valid-user\n</Limit>\n<LimitExcept POST>\nRequire all denied\n</LimitExcept>\n",
            ),
        ],
    ),
    site(
        "conditions",
        &[
            (
                ".htaccess",
                "SetEnvIfNoCase User-Agent badbot bad\nSetEnv APPLICATION_ENV production\n<If \"%{HTTP_USER_AGENT} =~ /BadBot/\">\nHeader set X-Bad yes\n</If>\n<ElseIf \"%{HTTP_COOKIE} =~ /logged_in/\">\nHeader set X-User yes\n</ElseIf>\n<Else>\nHeader set X-Other yes\n</Else>\n<Files readme.txt>\n<RequireAll>\nRequire all granted\nRequire not env bad\n</RequireAll>\n</Files>\n<If \"%{REQUEST_URI} =~ m#\\.(ini|sql)$#\">\nRequire all denied\n</If>\nHeader set X-Env \"%{APPLICATION_ENV}e\"\nHeader merge Cache-Control no-transform\nHeader echo ^Cookie$\nHeader edit Content-Type ^text text\nRequestHeader set X-Added \"by %{APPLICATION_ENV}e\"\n",
            ),
            (
                "folder/.htaccess",
                "Header unset X-Env\nHeader always set X-Folder yes\nForceType text/x-forced\n",
            ),
            ("folder/deep/.htaccess", "ForceType None\nAddType text/x-deep .txt\nAddLanguage de .txt\n"),
        ],
    ),
    site(
        "deep",
        &[
            (
                ".htaccess",
                "RewriteEngine On\nRewriteRule ^folder/root$ /readme.txt [L]\nRewriteRule ^none$ folder/inner [L]\n",
            ),
            (
                "folder/.htaccess",
                "RewriteEngine On\nRewriteRule ^inner$ deep/er/file.txt [L]\nRewriteRule ^root$ index.html [L]\nRewriteRule ^base$ /readme.html\n",
            ),
            ("folder/deep/.htaccess", "RewriteOptions Inherit\nRewriteRule ^x$ er/file.txt [END]\n"),
            ("empty/.htaccess", "RewriteEngine Off\n"),
            (
                "vendor/.htaccess",
                "RewriteEngine On\nRewriteBase /folder\nRewriteRule ^lib\\.txt$ deep/er/file.txt\nRewriteRule ^cookie$ - [CO=name:value:example.org:10:/p:secure:httponly,L]\nRewriteRule ^type$ lib.txt [T=text/x-own]\n",
            ),
        ],
    ),
    site(
        "magento",
        &[(
            ".htaccess",
            "<IfModule mod_php7.c>\nphp_value memory_limit 756M\nphp_flag session.auto_start off\n</IfModule>\n<IfModule mod_security.c>\nSecFilterEngine Off\n</IfModule>\n<IfModule mod_ssl.c>\nSSLOptions StdEnvVars\n</IfModule>\nDirectoryIndex index.php\nOptions -MultiViews -Indexes +FollowSymLinks\n<IfModule mod_rewrite.c>\nRewriteEngine on\nRewriteCond %{REQUEST_METHOD} ^TRAC[EK]\nRewriteRule .* - [L,R=405]\nRewriteCond %{REQUEST_URI} !^/pub/\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME} !-l\nRewriteRule .* index.php [L]\n</IfModule>\nAddDefaultCharset Off\n<IfModule mod_expires.c>\nExpiresDefault \"access plus 1 year\"\nExpiresByType text/html A0\n</IfModule>\nRedirectMatch 403 /\\.git\n<Files composer.json>\n<IfVersion < 2.4>\norder allow,deny\ndeny from all\n</IfVersion>\n<IfVersion >= 2.4>\nRequire all denied\n</IfVersion>\n</Files>\n<Files *.inc>\nRequire all denied\n</Files>\nErrorDocument 404 /index.php\nErrorDocument 403 /index.php\n<IfModule mod_headers.c>\nHeader set X-UA-Compatible \"IE=edge\"\n<FilesMatch \"\\.(js|css|png)$\">\nHeader unset X-UA-Compatible\n</FilesMatch>\n</IfModule>\n",
        )],
    ),
    site(
        "phpbb",
        &[(
            ".htaccess",
            "<IfModule mod_rewrite.c>\nRewriteEngine on\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^(.*)$ index.php [QSA,L]\n</IfModule>\n<IfModule mod_version.c>\n<IfVersion < 2.4>\n<Files \"config.ini\">\nOrder Allow,Deny\nDeny from All\n</Files>\n</IfVersion>\n<IfVersion >= 2.4>\n<Files \"config.ini\">\nRequire all denied\n</Files>\n<Files \"module.inc\">\nRequire all denied\n</Files>\n</IfVersion>\n</IfModule>\n",
        )],
    ),
    site(
        "prestashop",
        &[(
            ".htaccess",
            "<IfModule mod_rewrite.c>\n<IfModule mod_env.c>\nSetEnv HTTP_MOD_REWRITE On\n</IfModule>\nRewriteEngine on\nRewriteRule . - [E=REWRITEBASE:/]\nRewriteRule ^api(?:/(.*))?$ %{ENV:REWRITEBASE}index.php?url=$1 [QSA,L]\nRewriteRule ^([0-9])(\\-[_a-zA-Z0-9-]*)?/.+\\.jpg$ %{ENV:REWRITEBASE}wp-content/uploads/a.png [L]\nRewriteRule ^hello-(.*)/$ %{ENV:REWRITEBASE}readme.html [L]\nRewriteCond %{REQUEST_FILENAME} -s [OR]\nRewriteCond %{REQUEST_FILENAME} -l [OR]\nRewriteCond %{REQUEST_FILENAME} -d\nRewriteRule ^.*$ - [NC,L]\nRewriteRule ^.*$ %{ENV:REWRITEBASE}index.php [NC,L]\n</IfModule>\nAddType application/vnd.ms-fontobject .eot\nAddType font/woff2 .woff2\n<IfModule mod_headers.c>\n<FilesMatch \"\\.(ttf|ttc|otf|eot|woff|woff2|svg)$\">\nHeader set Access-Control-Allow-Origin \"*\"\n</FilesMatch>\n<FilesMatch \"\\.pdf$\">\nHeader set Content-Disposition \"Attachment\"\n</FilesMatch>\n</IfModule>\n<Files composer.json>\n<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n</Files>\n<IfModule mod_deflate.c>\n<IfModule mod_filter.c>\nAddOutputFilterByType DEFLATE text/html text/css\n</IfModule>\n</IfModule>\nErrorDocument 404 /index.php?controller=404\n",
        )],
    ),
    site(
        "security",
        &[(
            ".htaccess",
            "ServerSignature Off\n<IfModule mod_autoindex.c>\nIndexOptions FancyIndexing\nIndexIgnore *\n</IfModule>\n<Files ~ \"^.*\\.([Hh][Tt][Aa])\">\nRequire all denied\n</Files>\n<FilesMatch \"^(readme\\.html|readme\\.txt|install\\.php|wp-config\\.php)$\">\n<RequireAll>\nRequire all granted\nRequire not ip 127.0.0.0/8\n</RequireAll>\n</FilesMatch>\n<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteCond %{REQUEST_METHOD} ^(TRACE|TRACK)\nRewriteRule .* - [F]\nRewriteCond %{HTTP:VIA} !^$ [OR]\nRewriteCond %{HTTP:FORWARDED} !^$\nRewriteRule .* - [F]\nRewriteCond %{THE_REQUEST} \"^GET /(hello|vendor).* HTTP\" [NC]\nRewriteRule .* - [F]\nRewriteCond %{HTTP_COOKIE} wordpress_logged_in [NC]\nRewriteCond %{REQUEST_URI} ^/wp-login\\.php$\nRewriteRule ^(.*)$ http://%{HTTP_HOST}/ [R=302,L]\nRewriteRule ^wp-content/uploads/.*\\.(?:php[1-7]?|pht|phtml?|phps)\\.?$ - [NC,F]\n</IfModule>\n<LimitExcept GET POST HEAD>\nOrder deny,allow\nDeny from all\n</LimitExcept>\nLimitRequestBody 10485760\n",
        )],
    ),
    site(
        "tls",
        &[(
            ".htaccess",
            "<IfModule mod_rewrite.c>\nRewriteEngine on\nRewriteCond %{HTTPS} !=on [NC]\nRewriteCond %{HTTP:X-Forwarded-Proto} !https\nRewriteCond %{REQUEST_URI} !^/\\.well-known/acme-challenge/\nRewriteRule ^(.*)$ https://%{HTTP_HOST}/$1 [R=301,L]\n</IfModule>\nHeader always set Strict-Transport-Security: \"max-age=31536000\" env=HTTPS\nHeader always set X-XSS-Protection \"1; mode=block\"\nHeader always set Permissions-Policy: \"\"\n",
        )],
    ),
    site(
        "scripts",
        &[(
            ".htaccess",
            "Options +FollowSymLinks\nRewriteEngine On\nRewriteBase /\nRewriteCond %{REQUEST_FILENAME}.php -f\nRewriteRule ^([^.]+)$ $1.php [NC,L]\nRewriteRule ^item/([0-9]+)/?$ index.php?id=$1 [NC,L,QSA]\nRewriteRule ^2024/(.+)$ index.php?path=$1 [B,QSA,L]\nRewriteCond %{TIME_YEAR} >=2000\nRewriteRule ^none$ - [G]\nRewriteRule ^robots\\.txt$ - [R=404,L]\nRewriteRule ^(.*)\\.TXT$ $1.txt [R=307,L]\nRewriteRule ^a\\ b/(.*)$ /readme.html?q=$1 [L,UnsafeAllow3F]\nRewriteRule ^caf.*$ /caf%C3%A9-new [R,NE,L]\n",
        )],
    ),
    Site {
        targets: &["/vendor/", "/cache/none", "/wp-includes/js/", "/wp-includes/"],
        ..site(
            "options",
            &[
                (".htaccess", "Options All -Indexes\nCGIPassAuth On\n"),
                ("empty/.htaccess", "Options None +Indexes +FollowSymLinks\n"),
                ("folder/.htaccess", "Options +SymLinksIfOwnerMatch\n"),
                ("vendor/.htaccess", "Options +Indexes FollowSymLinks\n"),
                ("cache/.htaccess", "Options FollowSymLinks All\n"),
                ("wp-includes/.htaccess", "Options all +indexes -ExecCGI\n"),
            ],
        )
    },
    Site {
        targets: &["/folder?a=b", "/folder/deep", "/folder/deep?a=b", "/empty?x"],
        ..site(
            "slash",
            &[
                (
                    ".htaccess",
                    "RewriteEngine on\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^(.*)$ index.php?url=$1 [QSA,L]\n",
                ),
                ("folder/deep/.htaccess", "RewriteEngine on\nRewriteRule ^ - [F]\n"),
                ("vendor/.htaccess", "DirectorySlash Off\n"),
            ],
        )
    },
    Site {
        targets: &["/folder?a=b", "/empty?x"],
        ..site(
            "slash-led-away",
            &[(
                ".htaccess",
                "RewriteEngine on\nRewriteRule ^folder$ /readme.txt [END]\nRewriteRule ^empty$ /other?q [R=302,L]\nRewriteRule ^vendor$ - [G]\n",
            )],
        )
    },
    Site {
        targets: &[
            "/vendor/",
            "/vendor/?a=b",
            "/vendor/index.php",
            "/vendor/index.php/x",
            "/vendor/none",
            "/index.php?/",
        ],
        ..site(
            "front",
            &[
                // What stands for a folder is asked for by a subrequest, which no rule redirects.
                (".htaccess", FRONT),
                ("vendor/.htaccess", FRONT),
                ("vendor/index.php", "<?php"),
                ("empty/.htaccess", "DirectoryIndex /index.php\n"),
            ],
        )
    },
    Site {
        targets: &["/folder?a=b", "/wp-content/uploads/", "/wp-content/plugins/"],
        ..site(
            "looked-up",
            &[
                (".htaccess", LOOKED_UP),
                ("vendor/.htaccess", "Require all denied\n"),
                ("folder/deep/.htaccess", "RewriteEngine On\nRewriteRule ^er/(.*)\\.txt$ er/$1.html\n"),
            ],
        )
    },
];

/// A front controller that finds out where it stands, and leads its own name away.
const FRONT: &str = "RewriteEngine On
RewriteCond %{REQUEST_URI}::$0 ^(/.+)/(.*)::\\2$
RewriteRule .* - [E=BASE:%1]
RewriteCond %{ENV:REDIRECT_STATUS} =\"\"
RewriteRule ^index\\.php(?:/(.*)|$) %{ENV:BASE}/$1 [R=301,L]
RewriteCond %{REQUEST_FILENAME} -f [OR]
RewriteCond %{REQUEST_FILENAME} -d
RewriteRule ^ - [L]
RewriteRule ^ %{ENV:BASE}/index.php [L]
";

/// Rules that ask how other requests would be answered.
const LOOKED_UP: &str = "RewriteEngine On
RewriteCond %{REQUEST_FILENAME} -F
RewriteRule ^(readme\\.(txt|html)|none)$ - [E=OWN:served]
RewriteCond %{DOCUMENT_ROOT}/vendor/lib.txt -F
RewriteRule ^a\\.json$ - [E=CLOSED:served]
RewriteCond %{DOCUMENT_ROOT}/cache/page.html -F
RewriteRule ^a\\.json$ - [E=OPEN:served]
RewriteCond cache/page.html -F
RewriteRule ^a\\.json$ - [E=BELOW:served]
RewriteCond %{DOCUMENT_ROOT}/folder -F
RewriteRule ^a\\.json$ - [E=FOLDER:served]
RewriteCond %{DOCUMENT_ROOT}/folder/deep/er/file.txt -F
RewriteRule ^a\\.json$ - [E=LED:served]
RewriteCond /etc/passwd -F
RewriteRule ^a\\.json$ - [E=OUTSIDE:served]
RewriteCond /vendor/lib.txt -U
RewriteRule ^logo\\.svg$ - [E=CLOSED:answered]
RewriteCond /none -U
RewriteRule ^logo\\.svg$ - [E=NONE:answered]
RewriteCond /folder?x -U
RewriteRule ^logo\\.svg$ - [E=FOLDER:answered]
RewriteCond /old%20page.txt -U
RewriteRule ^logo\\.svg$ - [E=OPEN:answered]
RewriteCond /folder/deep/er/file.txt -U
RewriteRule ^logo\\.svg$ - [E=LED:answered]
RewriteCond %{REQUEST_URI} !-U
RewriteRule ^wp-includes/ /readme.html [L]
RewriteCond expr \"-F '%{DOCUMENT_ROOT}/readme.txt'\"
RewriteRule ^font\\.woff2$ - [E=OPEN:served]
Header set X-Own %{OWN}e env=OWN
Header set X-Closed %{CLOSED}e env=CLOSED
Header set X-Open %{OPEN}e env=OPEN
Header set X-Below %{BELOW}e env=BELOW
Header set X-Folder %{FOLDER}e env=FOLDER
Header set X-Led %{LED}e env=LED
Header set X-Outside %{OUTSIDE}e env=OUTSIDE
Header set X-None %{NONE}e env=NONE
";
