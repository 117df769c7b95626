//! Plans as JMeter stores them, and what becomes of them.

use super::*;
use crate::scenario::model::{Act, Body, Check, Scenario};
use crate::scenario::read;
use std::time::Duration;

fn prop(kind: &str, name: &str, value: &str) -> String {
    format!("<{kind}Prop name=\"{name}\">{}</{kind}Prop>", brisk_load::chart::escape(value))
}

fn text(name: &str, value: &str) -> String {
    prop("string", name, value)
}

/// An element with its properties, and what is below it.
fn element(kind: &str, window: &str, name: &str, properties: &str, below: &str) -> String {
    format!(
        "<{kind} guiclass=\"{window}\" testclass=\"{kind}\" testname=\"{name}\" enabled=\"true\">{properties}</{kind}>\n<hashTree>{below}</hashTree>\n"
    )
}

fn sampler(name: &str, method: &str, path: &str, more: &str, below: &str) -> String {
    let properties =
        format!("{}{}{more}", text("HTTPSampler.path", path), text("HTTPSampler.method", method));
    element("HTTPSamplerProxy", "HttpTestSampleGui", name, &properties, below)
}

fn arguments(pairs: &[(&str, &str, bool)]) -> String {
    let rows: Vec<String> = pairs
        .iter()
        .map(|(name, value, encode)| {
            format!(
                "<elementProp name=\"{name}\" elementType=\"HTTPArgument\">{}{}{}</elementProp>",
                prop("bool", "HTTPArgument.always_encode", &encode.to_string()),
                text("Argument.value", value),
                text("Argument.name", name)
            )
        })
        .collect();
    let rows = rows.concat();
    format!(
        "<elementProp name=\"HTTPsampler.Arguments\" elementType=\"Arguments\"><collectionProp name=\"Arguments.arguments\">{rows}</collectionProp></elementProp>"
    )
}

fn loops(count: &str) -> String {
    format!(
        "<elementProp name=\"ThreadGroup.main_controller\" elementType=\"LoopController\">{}</elementProp>",
        text("LoopController.loops", count)
    )
}

fn group(properties: &str, below: &str) -> String {
    element("ThreadGroup", "ThreadGroupGui", "users", properties, below)
}

fn defaults() -> String {
    let properties = format!("{}{}", text("HTTPSampler.domain", "${host}"), text("HTTPSampler.port", "8080"));
    element("ConfigTestElement", "HttpDefaultsGui", "defaults", &properties, "")
}

fn variables(pairs: &[(&str, &str)]) -> String {
    let rows: Vec<String> = pairs
        .iter()
        .map(|(name, value)| {
            format!(
                "<elementProp name=\"{name}\" elementType=\"Argument\">{}{}</elementProp>",
                text("Argument.name", name),
                text("Argument.value", value)
            )
        })
        .collect();
    let rows = rows.concat();
    let properties = format!("<collectionProp name=\"Arguments.arguments\">{rows}</collectionProp>");
    element("Arguments", "ArgumentsPanel", "variables", &properties, "")
}

fn plan(below: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<jmeterTestPlan version=\"1.2\"><hashTree>{}</hashTree></jmeterTestPlan>",
        element("TestPlan", "TestPlanGui", "plan", "", below)
    )
}

fn converted(below: &str) -> (Scenario, Converted) {
    let folder = Path::new("");
    let made = convert(&plan(below), folder, Some("http://h"), &[]).unwrap();
    let scenario =
        read::text(&made.text, folder).map_err(|faults| read::show("s", &made.text, &faults)).unwrap();
    (scenario, made)
}

const ONCE: &str = "<stringProp name=\"ThreadGroup.num_threads\">1</stringProp>";

/// A login whose token is kept, and whose status is checked.
fn login() -> String {
    let extract = element(
        "JSONPostProcessor",
        "",
        "token",
        &[
            text("JSONPostProcessor.referenceNames", "token;kind"),
            text("JSONPostProcessor.jsonPathExprs", "$.token;$.kind"),
            text("JSONPostProcessor.match_numbers", "1;1"),
            text("JSONPostProcessor.defaultValues", "none;"),
        ]
        .concat(),
        "",
    );
    let check = element(
        "ResponseAssertion",
        "",
        "is 2xx",
        &format!(
            "<collectionProp name=\"Asserion.test_strings\">{}</collectionProp>{}{}",
            text("1", "2.."),
            text("Assertion.test_field", "Assertion.response_code"),
            prop("int", "Assertion.test_type", "1")
        ),
        "",
    );
    sampler(
        "login",
        "POST",
        "/login",
        &arguments(&[("user", "${who}", true), ("q", "a b", true)]),
        &format!("{extract}{check}"),
    )
}

/// A shop: a login, a loop in a transaction, an order in a branch.
fn shop() -> String {
    let login = login();
    let wait = element(
        "UniformRandomTimer",
        "",
        "t",
        &format!("{}{}", text("ConstantTimer.delay", "100"), text("RandomTimer.range", "200.0")),
        "",
    );
    let head = element(
        "HeaderManager",
        "",
        "h",
        &format!(
            "<collectionProp name=\"HeaderManager.headers\"><elementProp name=\"\" elementType=\"Header\">{}{}</elementProp></collectionProp>",
            text("Header.name", "Authorization"),
            text("Header.value", "Bearer ${token}")
        ),
        "",
    );
    let items = sampler(
        "items",
        "GET",
        "items",
        &arguments(&[("page", "${__Random(1,9)}", true), ("s", "a b&c", true)]),
        "",
    );
    let looped =
        element("LoopController", "", "three", &text("LoopController.loops", "3"), &format!("{head}{items}"));
    let raw = sampler(
        "order",
        "POST",
        "/order",
        &format!(
            "{}{}",
            prop("bool", "HTTPSampler.postBodyRaw", "true"),
            arguments(&[("", "{\"n\": \"${token}\"}", false)])
        ),
        "",
    );
    let branch =
        element("IfController", "", "if", &text("IfController.condition", "\"${kind}\" == \"buyer\""), &raw);
    let transaction = element("TransactionController", "", "browse", "", &looped);
    let properties = format!(
        "{}{}{}",
        text("ThreadGroup.num_threads", "${__P(users,20)}"),
        text("ThreadGroup.ramp_time", "10"),
        loops("5")
    );
    let hidden = login.replace("enabled=\"true\"", "enabled=\"false\"");
    format!(
        "{}{}{}{}",
        variables(&[("host", "shop.test"), ("who", "ann")]),
        defaults(),
        element("CookieManager", "", "cookies", "", ""),
        group(&properties, &format!("{wait}{login}{hidden}{transaction}{branch}"))
    )
}

#[test]
fn a_shop_with_a_login_a_loop_and_branches() {
    let below = shop();
    let made = convert(&plan(&below), Path::new(""), None, &[]).unwrap();
    assert!(
        made.notes.is_empty() && made.text.contains("target = \"http://shop.test:8080\""),
        "{}",
        made.text
    );
    let scenario = read::text(&made.text, Path::new("")).unwrap();
    let [user] = &scenario.users[..] else { panic!("{}", made.text) };
    assert_eq!(
        (scenario.present_max(), user.iterations, user.steps.len()),
        (20, Some(5), 3),
        "{}",
        made.text
    );
    assert_eq!(user.stages[0].over, Duration::from_secs(10));
    let [login, items, order] = &user.steps[..] else { panic!() };
    assert!(matches!(&login.body, Body::Form(fields) if fields.len() == 2));
    assert!(matches!(&login.checks[..], [Check::Status(list)] if list.len() == 100));
    let default =
        |name: &str| login.otherwise.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str());
    assert_eq!((login.save.len(), default("token"), login.think.is_some()), (2, Some("none"), true));
    let url =
        items.url.fill(crate::scenario::template::Escape::None, &|name| Some(format!("<{name}>"))).unwrap();
    assert_eq!(
        (url.as_str(), items.group.as_deref(), items.headers.len()),
        ("/items?page=<random.1.9>&s=a%20b%26c", Some("browse"), 1)
    );
    assert!(matches!(&order.body, Body::Text(..)) && order.headers.is_empty());
    let [Act::Step(0), Act::Block(browse), Act::Block(branch)] = &user.acts[..] else {
        panic!("{:?}", user.acts)
    };
    let [Act::Block(three)] = &browse.acts[..] else { panic!() };
    assert_eq!((three.terms.repeat, branch.terms.when[0].0.as_str()), (3, "kind"));
    let other = convert(&plan(&below), Path::new(""), None, &[("users".to_owned(), "7".to_owned())]).unwrap();
    assert!(other.text.contains("users = 7\n"), "{}", other.text);
}

#[test]
fn groups_of_every_kind() {
    let stages = |kind: &str, properties: &[(&str, &str)], more: &str| {
        let properties: String =
            properties.iter().map(|(name, value)| text(name, value)).collect::<Vec<_>>().concat();
        let one = sampler("s", "GET", "/", "", "");
        let below = element(kind, "", "g", &format!("{properties}{more}"), &one);
        let (scenario, _) = converted(&below);
        let stages = scenario.users[0]
            .stages
            .iter()
            .map(|stage| (stage.users, stage.over.as_secs(), stage.hold.as_secs()));
        (stages.collect::<Vec<_>>(), scenario.users[0].iterations)
    };
    let timed = [
        ("ThreadGroup.num_threads", "4"),
        ("ThreadGroup.ramp_time", "10"),
        ("ThreadGroup.scheduler", "true"),
        ("ThreadGroup.duration", "60"),
        ("ThreadGroup.delay", "5"),
    ];
    assert_eq!(stages("ThreadGroup", &timed, &loops("-1")), (vec![(0, 0, 5), (4, 10, 50)], None));
    let concurrency = [("TargetLevel", "50"), ("RampUp", "2"), ("Steps", "2"), ("Hold", "5"), ("Unit", "M")];
    assert_eq!(
        stages("com.blazemeter.jmeter.threads.concurrency.ConcurrencyThreadGroup", &concurrency, "").0,
        [(25, 0, 60), (50, 0, 60), (50, 0, 300)]
    );
    let stepping = [
        ("ThreadGroup.num_threads", "10"),
        ("Threads initial delay", "0"),
        ("Start users count", "4"),
        ("Start users count burst", "2"),
        ("Start users period", "30"),
        ("Stop users count", "5"),
        ("Stop users period", "1"),
        ("flighttime", "60"),
        ("rampUp", "5"),
    ];
    assert_eq!(
        stages("kg.apc.jmeter.threads.SteppingThreadGroup", &stepping, &loops("-1")),
        (vec![(2, 5, 25), (6, 5, 25), (10, 5, 60), (5, 0, 1), (0, 0, 0)], None)
    );
    let row = |numbers: [&str; 5]| {
        format!(
            "<collectionProp name=\"r\">{}</collectionProp>",
            numbers.map(|number| text("1", number)).concat()
        )
    };
    let rows = format!(
        "<collectionProp name=\"ultimatethreadgroupdata\">{}{}</collectionProp>",
        row(["10", "0", "10", "30", "10"]),
        row(["4", "20", "0", "10", "0"])
    );
    let (found, _) = stages("kg.apc.jmeter.threads.UltimateThreadGroup", &[], &rows);
    assert_eq!(
        found,
        [(10, 10, 0), (10, 10, 0), (14, 0, 0), (14, 10, 0), (10, 0, 0), (10, 10, 0), (0, 10, 0)]
    );
    let arrivals = [("TargetLevel", "120"), ("RampUp", "0"), ("Steps", "0"), ("Hold", "1"), ("Unit", "M")]
        .map(|(name, value)| text(name, value))
        .concat();
    let below = element(
        "com.blazemeter.jmeter.threads.arrivals.ArrivalsThreadGroup",
        "",
        "g",
        &arrivals,
        &sampler("s", "GET", "/", "", ""),
    );
    let (scenario, _) = converted(&below);
    assert!((scenario.arrivals.unwrap().schedule.arrivals() - 120.0).abs() < 1e-6);
}

#[test]
fn files_of_values_and_extractors() {
    let dir = std::env::temp_dir().join(format!("brisk-jmx-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("u.csv"), "n;p\nann;1\nbob;2\n").unwrap();
    let csv = element(
        "CSVDataSet",
        "",
        "csv",
        &[
            text("filename", "u.csv"),
            text("variableNames", "name,pass word"),
            text("delimiter", ";"),
            prop("bool", "ignoreFirstLine", "true"),
            text("shareMode", "shareMode.thread"),
        ]
        .concat(),
        "",
    );
    let regex = element(
        "RegexExtractor",
        "",
        "r",
        &[
            text("RegexExtractor.refname", "id"),
            text("RegexExtractor.regex", "a=(\\d)b=(\\d+)"),
            text("RegexExtractor.template", "$2$"),
            text("RegexExtractor.match_number", "0"),
        ]
        .concat(),
        "",
    );
    let edge = element(
        "BoundaryExtractor",
        "",
        "b",
        &[
            text("BoundaryExtractor.refname", "e"),
            text("BoundaryExtractor.lboundary", "<i>"),
            text("BoundaryExtractor.rboundary", "</i>"),
        ]
        .concat(),
        "",
    );
    let below = format!(
        "{csv}{}",
        group(ONCE, &sampler("s", "GET", "/${name}/${pass word}?${id}${e}", "", &format!("{regex}{edge}")))
    );
    let made = convert(&plan(&below), &dir, Some("http://h"), &[]).unwrap();
    let scenario = read::text(&made.text, &dir).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let table = &scenario.data[0].table;
    assert_eq!(
        (table.rows.len(), table.value(0, "name"), table.value(1, "pass_word")),
        (2, Some("ann"), Some("2"))
    );
    let url: Vec<&str> = scenario.users[0].steps[0].url.names().collect();
    assert_eq!(url, ["csv1.name", "csv1.pass_word", "id", "e"]);
    assert!(made.text.contains("regex:a=(?:\\\\d)b=(\\\\d+)"), "{}", made.text);
    for want in ["the first match is taken", "all users share its rows"] {
        assert!(made.notes.iter().any(|note| note.contains(want)), "{want}: {:?}", made.notes);
    }
}

/// A response assertion on the code, of this type, and with these further properties.
fn of_code(kind: u32, code: &str, more: &str) -> String {
    let properties = format!(
        "<collectionProp name=\"Asserion.test_strings\">{}</collectionProp>{}{}{more}",
        text("1", code),
        text("Assertion.test_field", "Assertion.response_code"),
        prop("int", "Assertion.test_type", &kind.to_string())
    );
    element("ResponseAssertion", "", "code", &properties, "")
}

/// JMeter fails 4xx and 5xx by itself, and looks at where redirects lead.
#[test]
fn statuses_that_assertions_let_pass() {
    let good = |assertion: &str| {
        let (scenario, made) = converted(&group(ONCE, &sampler("s", "GET", "/", "", assertion)));
        match &scenario.users[0].steps[0].checks[..] {
            [Check::Status(list)] => list.clone(),
            _ => panic!("{}", made.text),
        }
    };
    let ignores = prop("bool", "Assertion.assume_success", "true");
    let not_500 = good(&of_code(4 | 16, "500", ""));
    assert!([200, 299, 304].iter().all(|status| not_500.contains(status)), "{not_500:?}");
    assert!([100, 302, 404, 500].iter().all(|status| !not_500.contains(status)), "{not_500:?}");
    assert_eq!(good(&of_code(8, "302", "")), [302]);
    assert_eq!(good(&of_code(8, "404", &ignores)), [404]);
    assert_eq!(good(&format!("{}{}", of_code(2, "2..", ""), of_code(4 | 8, "201", ""))).len(), 99);
    // Who follows no redirects sees them.
    let stays = prop("bool", "HTTPSampler.follow_redirects", "false");
    let (scenario, _) = converted(&group(ONCE, &sampler("s", "GET", "/", &stays, "")));
    assert!(matches!(&scenario.users[0].steps[0].checks[..], [Check::Status(list)] if list.contains(&302)));
    let never = group(ONCE, &sampler("s", "GET", "/", "", &of_code(8, "404", "")));
    let error = convert(&plan(&never), Path::new(""), None, &[]).unwrap_err();
    assert!(error.contains("no status passes its assertions"), "{error}");
}

/// What is done otherwise is told, each once.
#[test]
fn small_differences_get_a_note() {
    let notes = |below: &str| {
        let cookies = element("CookieManager", "", "c", "", "");
        convert(&plan(&format!("{cookies}{below}")), Path::new(""), Some("http://h"), &[]).unwrap().notes
    };
    let once = format!("{ONCE}{}", loops("1"));
    let one = |more: &str, below: &str| group(&once, &sampler("s", "GET", "/", more, below));
    assert_eq!(notes(&one("", "")), [""; 0]);
    let slow =
        element("ConfigTestElement", "HttpDefaultsGui", "d", &text("HTTPSampler.connect_timeout", "9"), "");
    let two = sampler("s", "GET", "/", "", "").repeat(2);
    for (below, want) in [
        (one(&text("HTTPSampler.response_timeout", "500"), ""), "time limits are left out"),
        (format!("{slow}{}", group(&once, &two)), "time limits are left out"),
        (one(&text("HTTPSampler.proxyHost", "p"), ""), "its proxy is left out"),
        (one(&prop("bool", "HTTPSampler.use_keepalive", "false"), ""), "its connection is kept"),
        (one("", &of_code(8, "200", &text("Sample.scope", "all"))), "the request's own answer"),
        (
            group(&format!("{once}{}", text("ThreadGroup.on_sample_error", "stopthread")), &two),
            "users go on behind a request that failed",
        ),
        (
            group(
                &format!("{once}{}", prop("bool", "ThreadGroup.same_user_on_next_iteration", "false")),
                &two,
            ),
            "users keep their connections and cookies",
        ),
    ] {
        let found = notes(&below);
        assert!(found.len() == 1 && found[0].contains(want), "{want}: {found:?}");
    }
    let without = convert(&plan(&one("", "")), Path::new(""), Some("http://h"), &[]).unwrap().notes;
    assert!(without.len() == 1 && without[0].contains("without a Cookie Manager"), "{without:?}");
}

/// The error says this, behind a line.
fn assert_refused(below: &str, want: &str) {
    let found = convert(&plan(below), Path::new(""), Some("http://h"), &[]).unwrap_err();
    assert!(found.contains(want), "{want}: {found}");
    let (line, _) = found.split_once(':').unwrap();
    assert!(line.parse::<u32>().is_ok(), "{found}");
}

/// Below a sampler and beside the thread groups, too.
#[test]
fn nothing_is_left_out_without_a_word() {
    let one = || sampler("s", "GET", "/", "", "");
    for (below, want) in [
        (
            group(ONCE, &sampler("s", "GET", "/", "", &element("JSR223PreProcessor", "", "pre", "", ""))),
            "JSR223PreProcessor \"pre\": this is not supported",
        ),
        (
            group(ONCE, &sampler("s", "GET", "/", "", &element("XPathExtractor", "", "x", "", ""))),
            "XPathExtractor \"x\": this is not supported",
        ),
        (
            format!("{}{}", element("CounterConfig", "", "n", "", ""), group(ONCE, &one())),
            "CounterConfig \"n\": this is not supported",
        ),
        (
            format!(
                "{}{}",
                element(
                    "CookieManager",
                    "",
                    "c",
                    "<collectionProp name=\"CookieManager.cookies\"><elementProp/></collectionProp>",
                    ""
                ),
                group(ONCE, &one())
            ),
            "send them by a Header Manager",
        ),
        (
            group(ONCE, &sampler("s", "GET", "/", "", &of_code(8, "200", &text("Sample.scope", "variable")))),
            "not at a variable",
        ),
    ] {
        assert_refused(&below, want);
    }
}

#[test]
fn what_a_scenario_cannot_do_is_refused_by_line() {
    let one = || sampler("s", "GET", "/", "", "");
    for (below, want) in [
        (
            group(ONCE, &element("JSR223Sampler", "", "script", "", "")),
            "JSR223Sampler \"script\": this is not supported",
        ),
        (
            group(ONCE, &element("ForeachController", "", "each", "", &one())),
            "this controller is not supported",
        ),
        (
            group(ONCE, &format!("{}{}", element("ConstantThroughputTimer", "", "t", "", ""), one())),
            "run with --rate",
        ),
        (
            group(
                ONCE,
                &element("IfController", "", "if", &text("IfController.condition", "${n} > 5"), &one()),
            ),
            "the condition \"${n} > 5\" is not understood",
        ),
        (
            group(ONCE, &sampler("s", "GET", "/${__groovy(1)}", "", "")),
            "the function \"${__groovy(1)}\" is not supported",
        ),
        (group(ONCE, &sampler("s", "GET", "/${nobody}", "", "")), "nothing gives the value {{nobody}}"),
        (group(ONCE, ""), "it has no HTTP sampler"),
        (element("SetupThreadGroup", "", "setup", ONCE, &one()), "what runs before or after"),
        (String::new(), "no thread group"),
        (group(&text("ThreadGroup.num_threads", "many"), &one()), "which is not a number"),
        (
            group(
                ONCE,
                &sampler(
                    "s",
                    "GET",
                    "/",
                    "",
                    &element(
                        "RegexExtractor",
                        "",
                        "r",
                        &format!(
                            "{}{}",
                            text("RegexExtractor.refname", "x"),
                            text("RegexExtractor.regex", "(?<=a)b")
                        ),
                        "",
                    ),
                ),
            ),
            "look-around",
        ),
    ] {
        assert_refused(&below, want);
    }
    assert!(convert("<a/>", Path::new(""), None, &[]).unwrap_err().contains("no test plan of JMeter"));
    assert!(convert("<a", Path::new(""), None, &[]).is_err());
}
