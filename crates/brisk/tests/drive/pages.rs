//! Pages as Chromium fetches them: the same files are asked for, by the server's own log.

use super::{BIN, printed};
use brisk_testkit::{Builder, browser, wait};
use std::collections::BTreeSet;

const PAGES: &[(&str, &str)] = &[
    (
        "plain",
        "<!doctype html><title>x</title><link rel=icon href=/p/i.png><img src=/p/a.png><img src=/p/b.png><a href=/p/no.html>x</a>",
    ),
    (
        "blog",
        "<!doctype html><link rel=icon href='data:,'><link rel=stylesheet href=/p/main.css><link rel=stylesheet href=/p/print.css media=print><body class=hero><h1>x</h1><img src=/p/a.png alt=x><script src=/p/app.js defer></script>",
    ),
    (
        "fonts",
        "<!doctype html><link rel=icon href='data:,'><style>@font-face{font-family:Used;src:url(/p/used.eot) format('embedded-opentype'),url(/p/used.woff2) format('woff2')}@font-face{font-family:Unused;src:url(/p/unused.woff2)}@font-face{font-family:Used;src:url(/p/cyrillic.woff2);unicode-range:U+0400-04FF}body{font-family:Used,serif}</style><p>Text",
    ),
    (
        "modules",
        "<!doctype html><link rel=icon href='data:,'><script type=module src=/p/mod.js></script><script nomodule src=/p/old.js></script><link rel=modulepreload href=/p/leaf.js><script type=module>import '/p/inline.js'</script><p>x",
    ),
    (
        "pictures",
        "<!doctype html><link rel=icon href='data:,'><picture><source type=image/unknown srcset=/p/no.xyz><source media='(max-width: 300px)' srcset=/p/small.png><source type=image/webp srcset='/p/one.webp 1x, /p/two.webp 2x'><img src=/p/fall.png></picture><img src=/p/one.png srcset='/p/two.png 2x'><img src=/p/x.png srcset='/p/w320.png 320w, /p/w640.png 640w, /p/w1280.png 1280w' sizes=300px>",
    ),
    (
        "hidden",
        "<!doctype html><link rel=icon href='data:,'><noscript><img src=/p/noscript.png></noscript><template><img src=/p/template.png></template><!-- <img src=/p/comment.png> --><script type=application/json>{\"a\":\"<img src=/p/json.png>\"}</script><script>var x='<img src=/p/text.png>'</script><img src=/p/a.png>",
    ),
    (
        "preload",
        "<!doctype html><link rel=icon href='data:,'><link rel=preload as=script href=/p/app.js><link rel=preload as=style href=/p/main.css><link rel=preload href=/p/nothing.bin><link rel=preload as=image href=/p/a.png media='(max-width: 300px)'><link rel=preload as=image href=/p/b.png><link rel=canonical href=/p/no.html><link rel=manifest href=/p/app.webmanifest><p>x",
    ),
    (
        "frames",
        "<!doctype html><link rel=icon href='data:,'><iframe src=/p/frame.html></iframe><iframe srcdoc='<p>x'></iframe><img src=/p/a.png>",
    ),
    (
        "imports",
        "<!doctype html><link rel=icon href='data:,'><style>@import url(/p/deep.css);h1{background:url(/p/bg.png)}</style><h1>x</h1><div style='background-image:url(\"/p/a.png\")'>x</div><script async src=/p/app.js></script>",
    ),
    (
        "media",
        "<!doctype html><link rel=icon href='data:,'><base href=/p/><img src=a.png><svg><image href=b.png /></svg><input type=image src=c.png><object data=d.png type=image/png></object><img src=''><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>",
    ),
];

/// What pages refer to, where that refers to something.
const FILES: &[(&str, &str)] = &[
    ("main.css", "@import 'more.css'; body{color:red}.hero{background:url(hero.png)}"),
    ("more.css", "p{margin:0}"),
    ("deep.css", "@import 'more.css'; h1{color:blue}"),
    ("print.css", "p{color:black}"),
    ("app.js", "document.title = 'done';"),
    (
        "mod.js",
        "import { a } from './leaf.js'; import './side.js'; document.title = a; if (false) import('./never.js');",
    ),
    ("leaf.js", "export const a = 'x';"),
    ("side.js", "export * from './leaf.js';"),
    ("inline.js", ""),
    ("frame.html", "<!doctype html><link rel=stylesheet href=/p/frame.css><img src=/p/inner.png>"),
    ("frame.css", "p{color:red}"),
];

#[test]
fn pages_are_fetched_as_chromium_fetches_them() {
    let mut builder = Builder::new(BIN).http(
        "log_format line '$http_user_agent|$uri'; access_log {{DIR}}/seen.log line;
         server { listen 127.0.0.1:{{PORT}}; types { text/html html; text/css css; text/javascript js; image/png png; image/webp webp; font/woff2 woff2; } location / { } }",
    );
    for (name, html) in PAGES {
        builder = builder.file(&format!("html/{name}.html"), html);
    }
    for (name, text) in FILES {
        builder = builder.file(&format!("html/p/{name}"), text);
    }
    let server = builder.start();
    let log = server.dir().join("seen.log");
    let seen = |is_ours: bool| -> BTreeSet<String> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once('|'));
        // Chromium asks for these behind the page's end, and is sometimes gone before.
        let is_late = |path: &str| ["/p/i.png", "/p/app.webmanifest"].contains(&path);
        let lines = lines.filter(|(_, path)| !is_late(path));
        lines
            .filter(|(agent, _)| agent.contains("brisk") == is_ours)
            .map(|(_, path)| path.to_owned())
            .collect()
    };
    let mut different = Vec::new();
    for (name, _) in PAGES {
        let _ = std::fs::write(&log, "");
        let url = format!("http://127.0.0.1:{}/{name}.html", server.port());
        // A preload does not delay the page's end. Chromium's own clock stands while a request is under way.
        browser::visit(&url, 390, &server.dir().join(format!("profile-{name}")));
        printed(&["bench", "page", &url], 0);
        wait::holds("both are in the log", || !seen(true).is_empty() && !seen(false).is_empty());
        let (ours, theirs) = (seen(true), seen(false));
        let more: Vec<_> = ours.difference(&theirs).collect();
        let fewer: Vec<_> = theirs.difference(&ours).collect();
        if !(more.is_empty() && fewer.is_empty()) {
            different.push(format!("{name}: not by Chromium {more:?}, not by us {fewer:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
