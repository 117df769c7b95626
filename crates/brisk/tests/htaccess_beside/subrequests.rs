//! What Apache asks for by subrequests and internal redirects: index files, files that negotiation has chosen, pages of errors.

use super::sites::{Site, site};

/// A difference of sites without a file in their root.
const BY_LAST_ENDING: (&str, &str) =
    ("/page.html.bak", "without any file the location says the type, by the last ending");

/// The sites.
pub const SITES: &[Site] = &[
    Site {
        targets: &[
            "/realm/",
            "/realm/admin.html",
            "/realm/led",
            "/realm/member.html",
            "/out/",
            "/out/led",
            "/page/none",
            "/page/none/admin",
            "/page-of-admins/none",
            "/same/",
            "/same/401.html",
            "/own-page/a.txt",
            "/own-page/none",
            "/own-page/page.html",
            "/own-page/deep/a.txt",
            "/own-page/in/a.txt",
            "/shut/a.txt",
            "/shut/page.html",
            "/shut/other.html",
            "/shut/named.txt",
            "/shut/in/a.txt",
            "/shut/led/a.txt",
        ],
        variants: &["Authorization: Basic ZXZlOnJpZ2h0\r\n"],
        explained: &[
            BY_LAST_ENDING,
            (
                "/out/",
                "Brisk forgets who has logged in for the folder where another one's file stands for it",
            ),
            ("/page-of-admins/none", "Apache adds the challenge of the page to the answer without a page"),
        ],
        ..site(
            "realms",
            &[
                // Who has logged in for the folder has not logged in for the file that stands for it.
                ("realm/.htaccess", REALM),
                ("realm/admin.html", "for admins"),
                ("realm/member.html", "for members"),
                (
                    "out/.htaccess",
                    "AuthType Basic\nAuthName a\nAuthUserFile {{DIR}}/users\nRequire valid-user\nDirectoryIndex /open/user.html\nRewriteEngine On\nRewriteRule ^led$ /open/user.html\n",
                ),
                (
                    "open/.htaccess",
                    "Header always set X-User expr=%{REMOTE_USER}\n<If \"%{REMOTE_USER} == 'ann'\">\nHeader set X-Ann yes\n</If>\n",
                ),
                ("open/user.html", "open"),
                (
                    "page/.htaccess",
                    "AuthType Basic\nAuthName a\nAuthUserFile {{DIR}}/users\nRequire valid-user\nErrorDocument 404 /open/user.html\n",
                ),
                (
                    "page-of-admins/.htaccess",
                    "AuthType Basic\nAuthName a\nAuthUserFile {{DIR}}/users\nRequire valid-user\nErrorDocument 404 /realm/admin.html\n",
                ),
                (
                    "same/.htaccess",
                    "AuthType Basic\nAuthName a\nAuthUserFile {{DIR}}/users\nRequire valid-user\n",
                ),
                (
                    "own-page/.htaccess",
                    "AuthType Basic\nAuthName a\nAuthUserFile {{DIR}}/users\nRequire valid-user\nErrorDocument 401 /own-page/page.html\nErrorDocument 404 /own-page/page.html\n",
                ),
                ("own-page/a.txt", "a"),
                ("own-page/page.html", "the page"),
                ("own-page/deep/a.txt", "a"),
                ("own-page/in/.htaccess", "Header set X-In yes\n"),
                ("own-page/in/a.txt", "a"),
                (
                    "shut/.htaccess",
                    "Require all denied\nErrorDocument 403 /shut/page.html\n<Files named.txt>\nRequire all denied\n</Files>\n",
                ),
                ("shut/a.txt", "a"),
                ("shut/named.txt", "a"),
                ("shut/page.html", "the page of the folder"),
                ("shut/other.html", "another page"),
                ("shut/in/.htaccess", "ErrorDocument 403 /shut/other.html\n"),
                ("shut/in/a.txt", "a"),
                // A rule leads from the page to what is closed by the same lines.
                (
                    "shut/led/.htaccess",
                    "ErrorDocument 403 /shut/led/page.html\nRewriteEngine On\nRewriteRule ^page\\.html$ a.txt\n",
                ),
                ("shut/led/a.txt", "a"),
                ("shut/led/page.html", "the page that is led away"),
                ("same/index.html", "same"),
                ("same/401.html", "not you"),
            ],
        )
    },
    Site {
        targets: &["/end/", "/ruled/", "/twice/", "/page/", "/page/none", "/fall/none", "/fall/other"],
        explained: &[BY_LAST_ENDING],
        ..site(
            "ends",
            &[
                // Apache asks for an index file by a subrequest, for which the flag END was not met.
                (
                    "end/.htaccess",
                    "RewriteEngine On\nRewriteRule ^$ - [END]\nRewriteRule ^index\\.html$ - [F]\n",
                ),
                ("end/index.html", "closed"),
                (
                    "ruled/.htaccess",
                    "RewriteEngine On\nRewriteRule ^$ - [END]\nRewriteRule ^index\\.html$ - [E=RULED:yes]\nHeader set X-Ruled yes env=RULED\n",
                ),
                ("ruled/index.html", "ruled"),
                // And where the subrequest has met it, the internal redirect behind it has not.
                (
                    "twice/.htaccess",
                    "RewriteEngine On\nRewriteRule ^index\\.html$ second.html [END]\nRewriteRule ^second\\.html$ third.html\n",
                ),
                ("twice/index.html", "first"),
                ("twice/second.html", "second"),
                ("twice/third.html", "third"),
                // The request itself has met it, and so has the page of its error.
                (
                    "page/.htaccess",
                    "RewriteEngine On\nRewriteRule ^(none)?$ - [END]\nRewriteRule ^page\\.html$ other.html\nErrorDocument 403 /page/page.html\nErrorDocument 404 /page/page.html\nDirectoryIndex no.html\n",
                ),
                ("page/page.html", "the page"),
                ("page/other.html", "another page"),
                (
                    "fall/.htaccess",
                    "FallbackResource /fall/front.html\nRewriteEngine On\nRewriteRule ^none$ - [END]\nRewriteRule ^front\\.html$ - [E=RULED:yes]\nHeader set X-Ruled yes env=RULED\n",
                ),
                ("fall/front.html", "front"),
            ],
        )
    },
    Site {
        targets: &[
            "/readme",
            "/logo",
            "/logo?a=b",
            "/views/one",
            "/views/two",
            "/views/three",
            "/views/four",
            "/views/",
            "/led",
        ],
        variants: &["Accept: text/plain\r\n"],
        ..site(
            "views",
            &[
                // Debian's Apache negotiates before it looks at the rules, and the rules see what was chosen.
                (
                    ".htaccess",
                    "Options +MultiViews\nRewriteEngine On\nRewriteRule ^readme$ /a.json\nRewriteRule ^logo$ /a.json [END]\nRewriteRule ^led$ /readme [L]\nRewriteRule ^none$ /a.json\n",
                ),
                (
                    "views/.htaccess",
                    "RewriteEngine On\nRewriteRule ^one\\.html$ - [E=RULED:yes]\nRewriteRule ^two\\.html$ /readme.txt\nRewriteRule ^three\\.html$ - [E=RULED:yes,NS]\nRewriteRule ^four$ - [F]\nHeader set X-Ruled yes env=RULED\nDirectoryIndex start\n",
                ),
                ("views/one.html", "one"),
                ("views/two.html", "two"),
                ("views/three.html", "three"),
                ("views/four.html", "four"),
                ("views/start.html", "start"),
            ],
        )
    },
];
/// A folder for members, in which one file is for admins, also where it stands for the folder or a rule leads to it.
const REALM: &str = "AuthType Basic
AuthName a
AuthUserFile {{DIR}}/users
Require valid-user
DirectoryIndex admin.html
RewriteEngine On
RewriteRule ^led$ admin.html
<Files admin.html>
AuthUserFile {{DIR}}/admins
</Files>
";
