//! A page that needs nothing else: no network, no scripts, legible on a phone, on paper, and without colour. What its
//! sections say is the callers'.

use std::fmt::Write as _;

use crate::chart::escape;
use crate::limits::{INDEX_SECTIONS_MIN, PHONE_CHARS_MAX};

/// A figure that everybody looks for first, large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// What it is.
    pub name: String,
    /// Its value, with its unit.
    pub value: String,
    /// Whether it is bad news.
    pub is_bad: bool,
}

/// What a section shows.
#[derive(Debug, Clone)]
pub enum Body {
    /// A table: its head, and its rows.
    Table(Vec<String>, Vec<Vec<String>>),
    /// Charts: SVG elements.
    Charts(Vec<String>),
    /// Text as it is.
    Pre(String),
    /// Figures that stand out.
    Tiles(Vec<Tile>),
}

/// A part of a page.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// A paragraph under it; empty: none.
    pub text: String,
    /// What it shows.
    pub body: Body,
}

const STYLE: &str = "\
:root{--b:#fff;--t:#16191d;--g:#d4d8dd;--s0:#0b57a4;--s1:#b3460e;--s2:#1b7a3d;--s3:#7a2d8f;--s4:#a11932;--s5:#55606b}\
@media(prefers-color-scheme:dark){:root{--b:#14171a;--t:#e6e8ea;--g:#3a4047;--s0:#6db3f2;--s1:#f2a06d;--s2:#72d193;--s3:#cf9be0;--s4:#f28b9d;--s5:#aab4be}}\
body{margin:0 auto;padding:12px;max-width:1120px;background:var(--b);color:var(--t);font:16px/1.45 system-ui,sans-serif}\
h1{font-size:1.4em;margin:.3em 0;overflow-wrap:anywhere}h2{font-size:1.15em;margin:1.4em 0 .4em;border-bottom:1px solid var(--g)}\
p{margin:.4em 0;overflow-wrap:anywhere}nav{display:flex;flex-wrap:wrap;gap:4px 14px}nav a,td a{color:var(--s0)}.c{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:16px}\
.w{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:3px 10px 3px 0;text-align:right;white-space:nowrap;border-bottom:1px solid var(--g)}\
th{white-space:normal;vertical-align:bottom}td:first-child,th:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:5em}\
@media(max-width:640px){.k tr:first-child{display:none}.k,.k tbody,.k tr,.k td{display:block}.k tr{border-bottom:1px solid var(--g);padding:4px 0}\
.k td{display:flex;justify-content:space-between;gap:1em;border:0;padding:1px 0;white-space:normal;overflow-wrap:anywhere}.k td:first-child{font-weight:700}.k td:not(:first-child):before{content:attr(data-h);opacity:.75;flex:none}}\
.f td:first-child{overflow-wrap:normal}.f td{white-space:normal;text-align:left;overflow-wrap:anywhere}pre{white-space:pre-wrap;overflow-wrap:anywhere}.bad{font-weight:700;border:2px solid;padding:6px;color:var(--s4)}\
.t{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px}.t div{border:1px solid var(--g);border-radius:6px;padding:8px 12px;font-size:.85em}\
.t b{display:block;font-size:1.7em;line-height:1.25;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}.t .no{border-color:var(--s4)}.t .no b{color:var(--s4)}\
svg{width:100%;height:auto;display:block}svg text{fill:var(--t);font:12px system-ui,sans-serif}.h{font-weight:700}.x,.y,.xt{text-anchor:middle}.yt{text-anchor:end}\
.g{stroke:var(--g);fill:none}.a{stroke:var(--t);fill:none}.b{fill:var(--s0);stroke:var(--b);stroke-width:.5}.l{fill:none;stroke-width:1.8}.m{stroke-width:1.6}\
.s0{stroke:var(--s0)}.s1{stroke:var(--s1);stroke-dasharray:7 3}.s2{stroke:var(--s2);stroke-dasharray:2 3}.s3{stroke:var(--s3);stroke-dasharray:9 3 2 3}.s4{stroke:var(--s4);stroke-dasharray:4 2}.s5{stroke:var(--s5);stroke-dasharray:1 2}\
.m{stroke-dasharray:none;fill:var(--b)}.m.s0{fill:var(--s0)}";

/// A whole page.
pub fn page(title: &str, sections: &[Section]) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><link rel=\"icon\" href=\"data:,\"><title>{}</title>\
         <style>{STYLE}</style></head>\
         <body><h1>{}</h1>{}<main>",
        escape(title),
        escape(title),
        index(sections)
    );
    out.push_str(&fragment(sections));
    out.push_str("</main></body></html>\n");
    out
}

/// What a section is called in links.
fn anchor(title: &str) -> String {
    title.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// Links to all sections of a long page.
fn index(sections: &[Section]) -> String {
    if sections.len() < INDEX_SECTIONS_MIN {
        return String::new();
    }
    // Of the sections of one run the first.
    let run = |at: usize| sections[at].title.split_once(": ").map(|(run, _)| run);
    let is_first = |at: &usize| *at == 0 || run(*at).is_none() || run(*at) != run(at - 1);
    let links = (0..sections.len()).filter(is_first).map(|at| {
        let title = &sections[at].title;
        format!("<a href=\"#{}\">{}</a>", anchor(title), escape(run(at).unwrap_or(title)))
    });
    format!("<nav>{}</nav>", links.collect::<String>())
}

/// Sections without a page around them.
pub fn fragment(sections: &[Section]) -> String {
    let mut out = String::new();
    for section in sections {
        let _ = write!(out, "<section id=\"{}\"><h2>{}</h2>", anchor(&section.title), escape(&section.title));
        if !section.text.is_empty() {
            let class = if section.text.starts_with("INVALID") { " class=\"bad\"" } else { "" };
            let _ = write!(out, "<p{class}>{}</p>", escape(&section.text));
        }
        match &section.body {
            Body::Table(head, rows) => table(head, rows, &mut out),
            Body::Charts(charts) => {
                out.push_str("<div class=\"c\">");
                charts.iter().for_each(|chart| out.push_str(chart));
                out.push_str("</div>");
            }
            Body::Tiles(tiles) => tiles_of(tiles, &mut out),
            Body::Pre(text) if text.is_empty() => {}
            Body::Pre(text) => drop(write!(out, "<pre>{}</pre>", escape(text))),
        }
        out.push_str("</section>");
    }
    out
}

fn tiles_of(tiles: &[Tile], out: &mut String) {
    out.push_str("<div class=\"t\">");
    for tile in tiles {
        let class = if tile.is_bad { " class=\"no\"" } else { "" };
        let _ = write!(out, "<div{class}><b>{}</b>{}</div>", escape(&tile.value), escape(&tile.name));
    }
    out.push_str("</div>");
}

/// Characters that a row needs beside each other.
fn width(head: &[String], rows: &[Vec<String>]) -> usize {
    let column = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).chain(head.get(at));
        cells.map(|cell| cell.chars().count() + 2).max().unwrap_or(0)
    };
    (0..head.len()).map(column).sum()
}

fn table(head: &[String], rows: &[Vec<String>], out: &mut String) {
    out.push_str(match () {
        () if head.is_empty() => "<div class=\"w f\"><table>",
        // On a phone each row stands by itself, with the names of its columns.
        () if width(head, rows) > PHONE_CHARS_MAX => "<div class=\"w\"><table class=\"k\">",
        () => "<div class=\"w\"><table>",
    });
    if !head.is_empty() {
        let cells: Vec<String> = head.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
        let _ = write!(out, "<tr>{}</tr>", cells.concat());
    }
    for row in rows {
        out.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let name = head.get(at).map_or_else(String::new, |name| format!(" data-h=\"{}\"", escape(name)));
            let _ = write!(out, "<td{name}>{}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>");
}
