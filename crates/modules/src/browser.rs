//! `ngx_http_browser_module`: old and new browsers told apart by `User-Agent`.

use brisk_conf::{Arity, Context, Diag, Directive};
use brisk_http::HeaderId;
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::Plan;
use brisk_server::request::Request;
use brisk_server::vars::{Variable, VariableGet};
use memchr::memmem;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "browser",
    rows: ROWS,
    variables: VARIABLES,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    directive("modern_browser")
        .doc("A browser (msie, gecko, opera, safari or konqueror) and the version from which it is modern, or unlisted: browsers that no directive names are modern.")
        .in_(Context::HSL)
        .arity(Arity::between(1, 2))
        .takes("BROWSER VERSION | unlisted")
        .many()
        .example("modern_browser msie 9.0;")
        .set(modern_browser),
    directive("ancient_browser")
        .doc("Texts whose presence in User-Agent makes a browser ancient; netscape4 stands for Mozilla/1 to Mozilla/4.")
        .in_(Context::HSL)
        .arity(Arity::SOME)
        .takes("TEXT ...")
        .many()
        .example("ancient_browser netscape4;")
        .set(ancient_browser),
    directive("modern_browser_value")
        .doc("The value of $modern_browser for modern browsers.")
        .in_(Context::HSL)
        .takes("TEXT")
        .default("1")
        .many()
        .example("modern_browser_value modern;")
        .set(|cx, d| {
            cx.conf::<Conf>().modern_value = d.arg(0).bytes().into();
            Ok(())
        }),
    directive("ancient_browser_value")
        .doc("The value of $ancient_browser for ancient browsers.")
        .in_(Context::HSL)
        .takes("TEXT")
        .default("1")
        .many()
        .example("ancient_browser_value ancient;")
        .set(|cx, d| {
            cx.conf::<Conf>().ancient_value = d.arg(0).bytes().into();
            Ok(())
        }),
];

static VARIABLES: &[Variable] = &[
    Variable {
        name: "modern_browser",
        get: VariableGet::Once(|r, out| value(r, Age::Modern, out)),
        doc: "modern_browser_value if the browser is modern, else empty.",
        ..Variable::SILENT
    },
    Variable {
        name: "ancient_browser",
        get: VariableGet::Once(|r, out| value(r, Age::Ancient, out)),
        doc: "ancient_browser_value if the browser is ancient, else empty.",
        ..Variable::SILENT
    },
    Variable {
        name: "msie",
        get: VariableGet::Once(|r, out| {
            if r.header(HeaderId::UserAgent).is_some_and(is_msie) {
                out.push(b'1');
            }
            true
        }),
        doc: "1 if the browser is Internet Explorer, of any version up to 10.",
        ..Variable::SILENT
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Modern,
    Ancient,
}

/// How a browser is known.
struct Mark {
    name: &'static str,
    /// Bytes of `User-Agent` before which the text cannot be.
    skip: usize,
    text: &'static [u8],
    /// From the text to the version.
    add: usize,
}

/// Opera is looked for first, because it may call itself MSIE too.
/// Browsers are told by fixed places because nginx does: configurations count on what it finds.
static MARKS: [Mark; 5] = [
    Mark { name: "opera", skip: 0, text: b"Opera", add: 6 },
    Mark { name: "msie", skip: 25, text: b"MSIE ", add: 5 },
    Mark { name: "gecko", skip: 13, text: b"rv:", add: 3 },
    Mark { name: "safari", skip: 13, text: b"Safari/", add: 7 },
    Mark { name: "konqueror", skip: 25, text: b"Konqueror/", add: 10 },
];

/// No version is as high.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Default)]
struct Conf {
    /// From which version on they are modern, by their place in [`MARKS`].
    modern: Vec<(usize, u64)>,
    unlisted_is_modern: bool,
    ancient: Vec<Box<[u8]>>,
    netscape4_is_ancient: bool,
    modern_value: Arc<[u8]>,
    ancient_value: Arc<[u8]>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn modern_browser(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let one = match d.args.as_slice() {
        // Two words are a browser and its version, whatever the first one is: `unlisted 3` is a fault.
        [name, version] => {
            let at = MARKS.iter().position(|mark| name.str().eq_ignore_ascii_case(mark.name)).ok_or_else(
                || {
                    Diag::emerg(name.span, format!("unknown browser name \"{}\"", name.text()))
                        .help("it is msie, gecko, opera, safari or konqueror")
                },
            )?;
            // Read by the function that reads User-Agent, so that both are on one scale.
            let (number, rest) = number(version.bytes());
            if !rest.is_empty() {
                return Err(Diag::emerg(
                    version.span,
                    format!("invalid browser version \"{}\"", version.text()),
                ));
            }
            Some((at, number))
        }
        _ if d.arg(0).bytes() == b"unlisted" => None,
        _ => return Err(invalid_parameter(d.arg(0)).help("write a browser and a version, or unlisted")),
    };
    let is_first = cx.first;
    let conf = cx.conf::<Conf>();
    if is_first {
        // (Both, whichever form the first one has: it is one list.)
        conf.modern.clear();
        conf.unlisted_is_modern = false;
    }
    match one {
        Some(one) => conf.modern.push(one),
        None => conf.unlisted_is_modern = true,
    }
    Ok(())
}

fn ancient_browser(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let is_first = cx.first;
    let conf = cx.conf::<Conf>();
    if is_first {
        conf.ancient.clear();
        conf.netscape4_is_ancient = false;
    }
    for token in &d.args {
        match token.bytes() {
            b"netscape4" => conf.netscape4_is_ancient = true,
            text => conf.ancient.push(text.into()),
        }
    }
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    // Most locations: nothing is put into their plan, and the variable says what nginx's defaults come to.
    if conf.says_nothing() {
        return;
    }
    let mut conf = conf.clone();
    if !conf.modern.is_empty() && !conf.modern.iter().any(|(at, _)| *at == 0) {
        // Opera that calls itself MSIE would otherwise be taken for a modern MSIE.
        conf.modern.push((0, NEVER));
    }
    // By the order of MARKS, not of the file: the first that is found decides.
    conf.modern.sort_by_key(|(at, _)| *at);
    plan.put(Arc::new(conf));
}

// Both values follow from one judgement, so that a request never has neither or both.
fn value(r: &Request, age: Age, out: &mut Vec<u8>) -> bool {
    let Some(conf) = r.snap().location(r.route.loc).plan.data::<Conf>() else {
        // All browsers are ancient.
        out.extend((age == Age::Ancient).then_some(b'1'));
        return true;
    };
    if conf.age(r.header(HeaderId::UserAgent)) == age {
        out.extend_from_slice(match age {
            Age::Modern => &conf.modern_value,
            Age::Ancient => &conf.ancient_value,
        });
    }
    true
}

impl Conf {
    /// Whether no directive makes a difference here.
    fn says_nothing(&self) -> bool {
        self.modern.is_empty() && !self.unlisted_is_modern && *self.ancient_value == *b"1"
    }

    fn age(&self, agent: Option<&[u8]>) -> Age {
        let unlisted = if self.unlisted_is_modern { Age::Modern } else { Age::Ancient };
        let Some(agent) = agent else { return unlisted };
        for &(at, modern) in &self.modern {
            // The place is nginx's: a text that stands earlier is another word, such as a name that contains
            // it.
            let mark = &MARKS[at];
            let found = agent.get(mark.skip..).and_then(|rest| memmem::find(rest, mark.text));
            if let Some(version) =
                found.and_then(|at| agent.get(mark.skip + at + mark.add..)).filter(|v| !v.is_empty())
            {
                // A browser that is named is judged by its version alone; the texts below are not asked.
                return if number(version).0 >= modern { Age::Modern } else { Age::Ancient };
            }
        }
        let is_netscape4 =
            // nginx looks at no shorter ones.
            agent.len() > 13 && agent.starts_with(b"Mozilla/") && (b'1'..b'5').contains(&agent[8]);
        let is_ancient = self.netscape4_is_ancient && is_netscape4
            || self.ancient.iter().any(|text| memmem::find(agent, text).is_some());
        if is_ancient { Age::Ancient } else { unlisted }
    }
}

/// The version at the start of a text, comparable as a number, and what is behind it.
fn number(text: &[u8]) -> (u64, &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit() && *b != b'.').unwrap_or(text.len());
    // Two digits for each part behind the first, four parts in all, as nginx counts.
    let mut scale = 1_000_000;
    let mut version = 0u64;
    for part in text[..end].split(|&b| b == b'.') {
        let value = part.iter().fold(0u64, |n, b| n.saturating_mul(10).saturating_add(u64::from(b - b'0')));
        version = version.saturating_add(value.saturating_mul(scale));
        scale /= 100;
    }
    // So that even the highest version is below "never".
    (version.min(NEVER - 1), &text[end..])
}

/// As nginx: `MSIE`, but not with `Opera`.
fn is_msie(agent: &[u8]) -> bool {
    memmem::find(agent, b"MSIE ").is_some_and(|at| at + 7 < agent.len())
        && memmem::find(agent, b"Opera").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{accepted, refused};

    fn conf(modern: &[(usize, &str)], unlisted: bool, ancient: &[&str], netscape4: bool) -> Conf {
        let mut modern: Vec<_> = modern.iter().map(|(at, v)| (*at, number(v.as_bytes()).0)).collect();
        modern.sort_by_key(|(at, _)| *at);
        Conf {
            modern,
            unlisted_is_modern: unlisted,
            ancient: ancient.iter().map(|text| text.as_bytes().into()).collect(),
            netscape4_is_ancient: netscape4,
            ..Conf::default()
        }
    }

    #[test]
    fn browsers_are_told_apart() {
        let listed = conf(&[(0, "9.0"), (1, "6.0"), (2, "1.7.2")], false, &[], false);
        let open = conf(&[(1, "7")], true, &["Links", "Lynx"], true);
        let check = |conf: &Conf, agent: &str, want: Age| {
            assert_eq!(conf.age(Some(agent.as_bytes())), want, "{agent}");
        };
        let gecko =
            |version: &str| format!("Mozilla/5.0 (X11; U; Linux i686; en-US; rv:{version}) Gecko/20020610");
        check(&listed, &gecko("1.7.2"), Age::Modern);
        check(&listed, &gecko("1.10"), Age::Modern);
        check(&listed, &gecko("1.7.1"), Age::Ancient);
        check(&listed, "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", Age::Modern);
        check(&listed, "Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.1)", Age::Ancient);
        check(&listed, "Mozilla/4.0 (compatible; MSIE 6.0; X11) Opera 8.50  [en]", Age::Ancient);
        check(&listed, "Opera/9.01 (X11; U; en)", Age::Modern);
        check(&listed, "curl/8", Age::Ancient);
        check(&open, "curl/8", Age::Modern);
        check(&open, "Links (2.1)", Age::Ancient);
        check(&open, "Mozilla/4.72 [en] (X11)", Age::Ancient);
        check(&open, "Mozilla/5.0 (X11)", Age::Modern);
        check(&open, "", Age::Modern);
        assert_eq!(open.age(None), Age::Modern);
        assert_eq!(listed.age(None), Age::Ancient);
    }

    #[test]
    fn parameters_are_checked() {
        refused(&[
            ("modern_browser lynx 1;", "unknown browser name \"lynx\""),
            ("modern_browser msie 1.x;", "invalid browser version \"1.x\""),
            ("modern_browser msie;", "invalid parameter \"msie\""),
        ]);
        accepted(&[
            "modern_browser MSIE 5.5; modern_browser unlisted; ancient_browser netscape4 Links; ancient_browser_value old.;",
        ]);
    }
}
