//! What a page needs: the references in its HTML.

use super::{css, images, script};
use crate::client::Url;
use crate::limits::RESOURCES_MAX;
use html5gum::emitters::default::DefaultEmitter;
use html5gum::{Token, Tokenizer};
use std::collections::HashSet;

/// What a reference is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The page itself, or one in a frame.
    Document,
    /// A style sheet.
    Style,
    /// A script.
    Script,
    /// An image.
    Image,
    /// A font.
    Font,
    /// Anything else.
    Other,
}

impl Kind {
    /// For people, and for HAR files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Style => "style",
            Self::Script => "script",
            Self::Image => "image",
            Self::Font => "font",
            Self::Other => "other",
        }
    }
}

/// Something that a page refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Where it is.
    pub url: Url,
    /// What it is for.
    pub kind: Kind,
    /// Nothing is painted before it has come: a style sheet, or a script in the head without `async` or `defer`.
    pub blocks: bool,
    /// What becomes of it.
    pub role: Role,
}

/// What a browser does with something once it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is used.
    Used,
    /// It is a module: what it imports is fetched, too.
    Module,
    /// It is kept until something asks for it, and not looked into before.
    Kept,
}

/// Collects references; each URL once.
struct Finder {
    base: Url,
    found: Vec<Resource>,
    seen: HashSet<Url>,
    in_body: bool,
    picture: Picture,
    /// Inside of a script that is a module.
    in_module: bool,
    faces: Vec<(String, Url)>,
    families: Vec<css::Named>,
    classes: HashSet<String>,
}

/// Whether the reader is inside of a `<picture>`, and what of it was chosen.
enum Picture {
    None,
    Open(Option<String>),
}

/// All that a page says of what it needs.
#[derive(Debug, Default)]
pub struct Needs {
    /// What is fetched, in the order in which it stands there.
    pub resources: Vec<Resource>,
    /// Fonts that are offered, by family.
    pub faces: Vec<(String, Url)>,
    /// Families that rules name.
    pub families: Vec<css::Named>,
    /// The classes that elements have.
    pub classes: HashSet<String>,
}

impl Finder {
    fn add(&mut self, reference: &str, kind: Kind, blocks: bool) {
        self.add_as(reference, kind, blocks, Role::Used);
    }

    fn add_as(&mut self, reference: &str, kind: Kind, blocks: bool, role: Role) {
        if reference.trim().is_empty() || self.found.len() >= RESOURCES_MAX {
            return;
        }
        let Some(url) = self.base.join(reference) else { return };
        if self.seen.insert(url.clone()) {
            self.found.push(Resource { url, kind, blocks, role });
        } else if let Some(kept) =
            self.found.iter_mut().find(|have| have.role == Role::Kept && have.url == url)
        {
            // What was to be kept is asked for.
            (kept.kind, kept.blocks, kept.role) = (kind, blocks, role);
        }
    }

    fn tag(&mut self, name: &str, attribute: &dyn Fn(&str) -> Option<String>) {
        let source = attribute("src");
        if let Some(classes) = attribute("class") {
            self.classes.extend(classes.split_ascii_whitespace().map(str::to_owned));
        }
        match name {
            "base" => {
                if let Some(base) = attribute("href").and_then(|base| self.base.join(&base)) {
                    self.base = base;
                }
            }
            "body" => self.in_body = true,
            "link" => self.link(attribute),
            "script" => {
                let kind = attribute("type").unwrap_or_default().to_ascii_lowercase();
                let is_old = attribute("nomodule").is_some() && kind != "module";
                let is_script =
                    !is_old && (kind.is_empty() || kind.contains("javascript") || kind == "module");
                self.in_module = kind == "module" && source.is_none();
                let waits = attribute("async").is_none() && attribute("defer").is_none() && kind != "module";
                if let Some(source) = source.filter(|_| is_script) {
                    let role = if kind == "module" { Role::Module } else { Role::Used };
                    self.add_as(&source, Kind::Script, waits && !self.in_body, role);
                }
            }
            "picture" => self.picture = Picture::Open(None),
            "source" => self.picture_source(attribute),
            "img" => {
                let chosen = match &mut self.picture {
                    Picture::Open(chosen) => chosen.take(),
                    Picture::None => None,
                };
                let own = || {
                    let set = attribute("srcset").unwrap_or_default();
                    images::choose(&set, &attribute("sizes").unwrap_or_default(), source.as_deref())
                };
                if let Some(source) = chosen.or_else(own) {
                    self.add(&source, Kind::Image, false);
                }
            }
            // Of SVG.
            "image" => {
                let href = attribute("href").or_else(|| attribute("xlink:href"));
                self.add(&href.unwrap_or_default(), Kind::Image, false);
            }
            "input" if attribute("type").is_some_and(|kind| kind.eq_ignore_ascii_case("image")) => {
                self.add(&source.unwrap_or_default(), Kind::Image, false);
            }
            "iframe" | "frame" => self.add(&source.unwrap_or_default(), Kind::Document, false),
            "embed" => self.add(&source.unwrap_or_default(), Kind::Other, false),
            "object" => self.add(&attribute("data").unwrap_or_default(), Kind::Other, false),
            "video" | "audio" => {
                self.add(&attribute("poster").unwrap_or_default(), Kind::Image, false);
                if attribute("preload").is_none_or(|kind| !kind.eq_ignore_ascii_case("none")) {
                    self.add(&source.unwrap_or_default(), Kind::Other, false);
                }
            }
            _ => {}
        }
        if let Some(style) = attribute("style") {
            self.style(&style);
        }
    }

    fn link(&mut self, attribute: &dyn Fn(&str) -> Option<String>) {
        let (rel, href) = (attribute("rel").unwrap_or_default(), attribute("href").unwrap_or_default());
        let has = |word: &str| rel.split_whitespace().any(|have| have.eq_ignore_ascii_case(word));
        if has("stylesheet") && !has("alternate") {
            let media = attribute("media").unwrap_or_default();
            self.add(
                &href,
                Kind::Style,
                !media.eq_ignore_ascii_case("print") && attribute("disabled").is_none(),
            );
        } else if has("icon") {
            self.add(&href, Kind::Image, false);
        } else if has("manifest") {
            self.add(&href, Kind::Other, false);
        } else if has("modulepreload") {
            self.add_as(&href, Kind::Script, false, Role::Module);
        } else if has("preload") {
            // Without a known kind, or for other screens, nothing is fetched.
            let kind = match attribute("as").unwrap_or_default().as_str() {
                "style" => Kind::Style,
                "script" => Kind::Script,
                "image" => Kind::Image,
                "font" => Kind::Font,
                "fetch" | "track" => Kind::Other,
                _ => return,
            };
            if !images::matches(&attribute("media").unwrap_or_default()) {
                return;
            }
            let set = attribute("imagesrcset").unwrap_or_default();
            let href = images::choose(&set, &attribute("imagesizes").unwrap_or_default(), Some(&href));
            self.add_as(&href.unwrap_or_default(), kind, false, Role::Kept);
        }
    }

    /// One of the pictures of which a browser takes one.
    fn picture_source(&mut self, attribute: &dyn Fn(&str) -> Option<String>) {
        let Picture::Open(chosen @ None) = &mut self.picture else { return };
        let kind = attribute("type").unwrap_or_default();
        if images::is_known(&kind) && images::matches(&attribute("media").unwrap_or_default()) {
            let set = attribute("srcset").unwrap_or_default();
            *chosen = images::choose(&set, &attribute("sizes").unwrap_or_default(), None);
        }
    }

    fn style(&mut self, text: &str) {
        let (faces, families) = css::fonts(text);
        self.faces
            .extend(faces.into_iter().filter_map(|face| Some((face.family, self.base.join(&face.url)?))));
        self.families.extend(families);
        for (reference, kind) in css::references(text) {
            self.add(&reference, kind, kind == Kind::Style);
        }
    }
}

/// What a page refers to and a browser fetches, in the order in which it stands there; without fonts, which depend on all style sheets.
pub fn resources(html: &[u8], base: &Url) -> Vec<Resource> {
    needs(html, base).resources
}

/// Everything that a page says of what it needs.
pub fn needs(html: &[u8], base: &Url) -> Needs {
    let mut finder = Finder {
        base: base.clone(),
        found: Vec::new(),
        seen: HashSet::new(),
        in_body: false,
        picture: Picture::None,
        in_module: false,
        faces: Vec::new(),
        families: Vec::new(),
        classes: HashSet::new(),
    };
    finder.seen.insert(base.clone());
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    // What stands in these is not for browsers that run scripts, or not yet part of the page.
    let (mut hidden, mut in_style) = (0usize, false);
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => {
                let attribute = |name: &str| {
                    tag.attributes
                        .get(name.as_bytes())
                        .map(|value| String::from_utf8_lossy(value).into_owned())
                };
                let name = String::from_utf8_lossy(&tag.name).into_owned();
                hidden += usize::from(matches!(name.as_str(), "noscript" | "template"));
                in_style = name == "style" && hidden == 0;
                if hidden == 0 {
                    finder.in_module = false;
                    finder.tag(&name, &attribute);
                }
            }
            Token::EndTag(tag) => {
                in_style = false;
                finder.in_module = false;
                match &tag.name[..] {
                    b"noscript" | b"template" => hidden = hidden.saturating_sub(1),
                    b"picture" => finder.picture = Picture::None,
                    _ => {}
                }
            }
            Token::String(text) if in_style => finder.style(&String::from_utf8_lossy(&text)),
            Token::String(text) if finder.in_module => {
                for import in script::imports(&String::from_utf8_lossy(&text)) {
                    finder.add_as(&import, Kind::Script, false, Role::Module);
                }
            }
            _ => {}
        }
    }
    Needs { resources: finder.found, faces: finder.faces, families: finder.families, classes: finder.classes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(html: &str) -> Vec<String> {
        let base = Url::parse("http://a/b/c.html").unwrap();
        let show = |r: Resource| format!("{}{} {}", if r.blocks { "!" } else { "" }, r.kind.name(), r.url);
        resources(html.as_bytes(), &base).into_iter().map(show).collect()
    }

    #[test]
    fn what_a_browser_fetches() {
        let html = r#"<!doctype html><html><head>
            <link rel="stylesheet" href="s.css"><LINK REL=stylesheet HREF=/p.css media=print>
            <link rel=canonical href=/x><link rel="shortcut icon" href="i.ico">
            <script src=a.js></script><script async src="b.js"></script><script type=module src=m.js></script>
            <script type="application/json" src=no.json></script>
            <style>@import "i.css"; b { background: url( 'bg.png' ) } @font-face { src: url(f.woff2) }</style>
            <script>var x = '<img src=no.png>';</script><!-- <img src=no2.png> --></head>
            <body style="background:url(body.png)"><img src="d.png?a=1&amp;b=2"><img srcset="small.png 1x, big.png 2x">
            <img src="data:image/png;base64,AA"><script src=//cdn/z.js></script><iframe src=f.html></iframe>
            <img src="d.png?a=1&b=2"><a href=no.html>x</a></body></html>"#;
        assert_eq!(
            found(html),
            [
                "!style http://a/b/s.css",
                "style http://a/p.css",
                "image http://a/b/i.ico",
                "!script http://a/b/a.js",
                "script http://a/b/b.js",
                "script http://a/b/m.js",
                "!style http://a/b/i.css",
                "image http://a/b/bg.png",
                "image http://a/b/body.png",
                "image http://a/b/d.png?a=1&b=2",
                "image http://a/b/small.png",
                "script http://cdn/z.js",
                "document http://a/b/f.html",
            ]
        );
    }

    #[test]
    fn bases_and_broken_pages() {
        assert_eq!(found("<base href=/x/><img src=1.png>"), ["image http://a/x/1.png"]);
        for broken in ["<img src=", "<", "<img src='a", "<style>@import", "\0<img src=\"\0\">", "<script"] {
            found(broken);
        }
        let many: Vec<String> = (0..5000).map(|at| format!("<img src={at}.png>")).collect();
        assert_eq!(found(&many.concat()).len(), RESOURCES_MAX);
    }
}
