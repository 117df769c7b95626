//! Which of several pictures a browser takes: on a screen of 1280 pixels, one for each dot.

/// Pixels of the screen.
const SCREEN: f64 = 1280.0;

/// Whether browsers show pictures of this media type; an empty one says nothing.
pub fn is_known(kind: &str) -> bool {
    let kind = kind.trim().to_ascii_lowercase();
    kind.is_empty()
        || ["avif", "webp", "png", "jpeg", "jpg", "gif", "svg+xml", "bmp", "x-icon"]
            .iter()
            .any(|name| kind.starts_with(&format!("image/{name}")))
}

/// Whether a media query holds on the screen; what is not understood holds.
pub fn matches(query: &str) -> bool {
    let query = query.trim().to_ascii_lowercase();
    query.is_empty()
        || query.split(',').any(|one| {
            one.split(" and ").all(|part| {
                let part = part.trim().trim_start_matches('(').trim_end_matches(')');
                match part.split_once(':') {
                    Some((name, value)) => match (name.trim(), pixels(value)) {
                        ("min-width", Some(least)) => SCREEN >= least,
                        ("max-width", Some(most)) => SCREEN <= most,
                        ("prefers-color-scheme", _) => value.trim() == "light",
                        _ => true,
                    },
                    None => part != "print",
                }
            })
        })
}

fn pixels(text: &str) -> Option<f64> {
    let text = text.trim();
    let number = |suffix: &str| text.strip_suffix(suffix)?.trim().parse::<f64>().ok();
    number("px")
        .or_else(|| number("vw").map(|share| share * SCREEN / 100.0))
        .or_else(|| number("rem").or_else(|| number("em")).map(|em| em * 16.0))
}

/// How wide a picture is to be shown: the first size whose condition holds.
fn shown(sizes: &str) -> f64 {
    for size in sizes.split(',').map(str::trim).filter(|size| !size.is_empty()) {
        let (condition, width) = size.rsplit_once(char::is_whitespace).unwrap_or(("", size));
        if matches(condition)
            && let Some(width) = pixels(width)
        {
            return width;
        }
    }
    SCREEN
}

/// The picture of a list (`srcset`) that is taken, or `source` where the list has none.
pub fn choose(set: &str, sizes: &str, source: Option<&str>) -> Option<String> {
    let mut all: Vec<(f64, String)> = Vec::new();
    let mut has_widths = false;
    for candidate in
        set.split(", ").flat_map(|part| part.split(",\n")).map(str::trim).filter(|part| !part.is_empty())
    {
        let (url, about) = candidate.split_once(char::is_whitespace).unwrap_or((candidate, "1x"));
        let about = about.trim().trim_end_matches(',');
        let density = match (about.strip_suffix('w'), about.strip_suffix('x')) {
            (Some(width), _) => {
                has_widths = true;
                width.parse::<f64>().ok().map(|width| width / shown(sizes))
            }
            (_, Some(density)) => density.parse::<f64>().ok(),
            _ => None,
        };
        all.extend(density.map(|density| (density, url.trim_end_matches(',').to_owned())));
    }
    if !has_widths {
        all.extend(source.filter(|source| !source.is_empty()).map(|source| (1.0, source.to_owned())));
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let enough = all.iter().find(|(density, _)| *density >= 1.0).or(all.last());
    enough.map(|(_, url)| url.clone()).or_else(|| source.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several() {
        let choose =
            |set: &str, sizes: &str, source: Option<&str>| choose(set, sizes, source).unwrap_or_default();
        assert_eq!(choose("s.png 1x, b.png 2x", "", None), "s.png");
        assert_eq!(choose("b.png 2x", "", Some("s.png")), "s.png");
        assert_eq!(choose("a.png 320w, b.png 640w, c.png 1280w, d.png 2000w", "", Some("s.png")), "c.png");
        assert_eq!(
            choose("a.png 320w, b.png 640w", "(max-width: 600px) 100vw, 300px", Some("s.png")),
            "a.png"
        );
        assert_eq!(choose("a.png 320w", "", None), "a.png");
        assert_eq!((choose("", "", Some("s.png")).as_str(), choose("", "", None).as_str()), ("s.png", ""));
        assert!(
            matches("(min-width: 800px)")
                && !matches("(max-width: 800px)")
                && !matches("print")
                && matches("print, screen")
        );
        assert!(matches("screen and (min-width: 40em)") && !matches("(prefers-color-scheme: dark)"));
        assert!(is_known("image/webp") && is_known("") && !is_known("image/jxl"));
    }
}
