//! What came of a page, as a page: waterfall, figures, advice. It needs nothing from elsewhere.

use super::advice;
use super::html::Kind;
use super::load::{Entry, Page};
use super::waterfall::{self, size};
use brisk_load::report::{self, Body, Environment, Section};
use std::time::Duration;

/// Which picture is seen: the wide one, or the narrow one where that would be too small to read.
const SHOWN: &str =
    ".ww,.wn{grid-column:1/-1}.wn{display:none}@media(max-width:760px){.ww{display:none}.wn{display:block}}";

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// See the module's head. `command`: what was asked for; `url`: of the page.
pub fn html(page: &Page, command: &str, url: &str, is_cut_short: bool) -> String {
    let section = |title: &str, text: &str, body: Body| Section {
        title: title.to_owned(),
        text: text.to_owned(),
        body,
    };
    let pairs = |rows: Vec<(String, String)>| {
        Body::Table(Vec::new(), rows.into_iter().map(|(name, value)| vec![name, value]).collect())
    };
    let mut notes = Vec::new();
    if is_cut_short {
        notes.push("Ended early: not everything has come.".to_owned());
    }
    if page.left_out > 0 {
        notes.push(format!("{} more resources were left out.", page.left_out));
    }
    let mut advice: Vec<(String, String)> =
        advice::advice(page).into_iter().map(|piece| (piece.about.to_owned(), piece.text)).collect();
    if advice.is_empty() {
        advice.push(("nothing".to_owned(), "nothing to advise".to_owned()));
    }
    let waterfall = format!(
        "<style>{SHOWN}</style><div class=\"ww\">{}</div><div class=\"wn\">{}</div>",
        waterfall::svg(page),
        waterfall::narrow_svg(page)
    );
    let mut environment = vec![("command".to_owned(), command.to_owned())];
    let here = Environment::here().rows();
    environment.extend(here.into_iter().map(|(name, value)| (name.to_owned(), value)));
    report::page(
        &format!("Page {url}"),
        &[
            section("Figures", &notes.join(" "), pairs(figures(page))),
            section(
                "Waterfall",
                "! blocks painting; the dashed line is when the page can be painted.",
                Body::Charts(vec![waterfall]),
            ),
            section("Advice", "", pairs(advice)),
            section("Requests", "", requests(page)),
            section("Configuration and environment", "", pairs(environment)),
        ],
    )
}

fn figures(page: &Page) -> Vec<(String, String)> {
    let first_byte = page.document().and_then(|document| document.result.as_ref().ok()?.phases.first_byte);
    let mut rows = vec![
        ("requests".to_owned(), page.entries.len().to_string()),
        ("bytes".to_owned(), size(page.bytes())),
        ("first byte of the document".to_owned(), first_byte.map_or("–".to_owned(), ms)),
        ("can paint after".to_owned(), ms(page.can_paint())),
        ("everything after".to_owned(), ms(page.loaded())),
    ];
    for kind in [Kind::Document, Kind::Style, Kind::Script, Kind::Image, Kind::Font, Kind::Other] {
        let own: Vec<&Entry> = page.entries.iter().filter(|entry| entry.kind == kind).collect();
        if !own.is_empty() {
            let bytes = own.iter().map(|entry| entry.bytes()).sum();
            rows.push((format!("{}s", kind.name()), format!("{}, {}", own.len(), size(bytes))));
        }
    }
    rows
}

fn requests(page: &Page) -> Body {
    let head = ["", "kind", "status", "bytes", "asked at", "took", "protocol", "connection"];
    let row = |entry: &Entry| {
        let (status, protocol, connection) = match &entry.result {
            Ok(exchange) => {
                let connection = if exchange.reused { "kept" } else { "new" };
                (exchange.status.to_string(), exchange.version.to_owned(), connection)
            }
            Err(failure) => (failure.to_string(), String::new(), ""),
        };
        vec![
            entry.request.url.to_string(),
            format!("{}{}", if entry.blocks { "! " } else { "" }, entry.kind.name()),
            status,
            size(entry.bytes()),
            ms(entry.begun),
            ms(entry.took()),
            protocol,
            connection.to_owned(),
        ]
    };
    Body::Table(head.map(str::to_owned).to_vec(), page.entries.iter().map(row).collect())
}
