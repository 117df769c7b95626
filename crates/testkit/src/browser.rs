//! Pages in Chromium.

use crate::wait;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What Chromium makes of a page: its document once it is loaded, in a window as wide as a phone's.
pub fn document(url: &str, profile: &Path) -> String {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=390,844", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .output()
        .expect("chromium is installed: scripts/setup.sh does that");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a page has become after a while of its own time, and what it has said in the console.
pub struct Visit {
    /// The document as it is then.
    pub document: String,
    /// Messages and errors, a line each.
    pub console: String,
}

/// Opens a page in a window of this width, and lets its timers run for five seconds.
pub fn visit(url: &str, width: u32, profile: &Path) -> Visit {
    visit_for(5000, url, width, profile)
}

/// The same for so many milliseconds of the page's own time, which pass as fast as the page has nothing to do.
pub fn visit_for(time_ms: u32, url: &str, width: u32, profile: &Path) -> Visit {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .args([format!("--virtual-time-budget={time_ms}"), format!("--window-size={width},900")])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .output()
        .expect("chromium is installed: scripts/setup.sh does that");
    let said = String::from_utf8_lossy(&output.stderr);
    let console = said.lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    Visit { document: String::from_utf8_lossy(&output.stdout).into_owned(), console }
}

/// A report in a browser: whole, no wider than a phone, and legible without colour, with so many charts at least.
pub fn look_at_report(page: &Path, profile: &Path, charts_min: usize) {
    let text = std::fs::read_to_string(page).unwrap();
    let copy = page.with_extension("copy.html");
    let script = "<script>document.title='wide '+document.documentElement.scrollWidth+' of '+innerWidth+' charts '\
        +[...document.querySelectorAll('svg')].filter(s=>s.getBoundingClientRect().height>100).length+' alike '\
        +[...document.querySelectorAll('svg')].filter(s=>{const d=new Map([...s.querySelectorAll('.l')].map(l=>\
        [l.getAttribute('class'),getComputedStyle(l).strokeDasharray]));return new Set(d.values()).size<d.size}).length</script></body>";
    std::fs::write(&copy, text.replace("</body>", script)).unwrap();
    let dom = document(&format!("file://{}", copy.display()), profile);
    let title =
        dom.split_once("<title>wide ").and_then(|(_, rest)| rest.split_once("</title>")).expect(&dom).0;
    let (title, alike) = title.split_once(" alike ").unwrap();
    assert_eq!(alike, "0", "charts with lines that differ in nothing but their colour");
    let (widths, charts) = title.split_once(" charts ").unwrap();
    let (wide, window) = widths.split_once(" of ").unwrap();
    assert!(wide.parse::<u32>().unwrap() <= window.parse::<u32>().unwrap(), "{title}");
    assert!(charts.parse::<usize>().unwrap() >= charts_min, "{title}");
}

/// Loads a page in Chromium and by `program bench page`, and holds what both asked for against each other by the server's log
/// in the combined format: every path, or a panic that names those of one alone.
pub fn asks_as_chromium(program: &str, log: &Path, url: &str, profile: &Path) {
    let before = std::fs::read_to_string(log).map_or(0, |text| text.len());
    let seen = |is_ours: bool| -> BTreeSet<String> {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let lines = text.get(before..).unwrap_or_default().lines().filter_map(|line| {
            let mut quoted = line.split('"').skip(1).step_by(2);
            let path = quoted.next()?.split(' ').nth(1)?.to_owned();
            Some((path, quoted.nth(1)?.contains("brisk")))
        });
        // Chromium asks for its icon behind the page's end, and is sometimes gone before.
        let lines = lines.filter(|(path, ours)| *ours == is_ours && !path.contains("favicon"));
        lines.map(|(path, _)| path).collect()
    };
    // A preload does not delay the page's end. Chromium's own clock stands while a request is under way.
    visit(url, 390, profile);
    let ours =
        Command::new(program).args(["bench", "page", "--json", url]).output().expect("the program runs");
    assert!(ours.status.success(), "{url}: {}", String::from_utf8_lossy(&ours.stderr));
    wait::holds("both are in the log", || !seen(true).is_empty() && !seen(false).is_empty());
    let (ours, theirs) = (seen(true), seen(false));
    let more: Vec<_> = ours.difference(&theirs).collect();
    let fewer: Vec<_> = theirs.difference(&ours).collect();
    assert!(more.is_empty() && fewer.is_empty(), "{url}: not by Chromium {more:?}, not by us {fewer:?}");
}
