//! Files that are read, and files that are refused.

use super::*;

const GOOD: &str = r#"
target = "http://127.0.0.1:8080"
users = 20
ramp = "5s"
duration = "30s"
thresholds = ["errors < 1%", "login: p95 < 1s", "shop: p99 < 2s"]

[headers]
User-Agent = "test"

[variables]
language = "de"

[[user]]
name = "buyer"
weight = 3
think = "1s..3s"

[[user.start]]
name = "login"
request = "POST /login"
json = { user = "ann", tags = ["{{language}}", 1, true] }
save = { token = "json:$.token" }
check = { status = [200, 201], within = "2s", equal = { "json:$.ok" = true } }

[[user.step]]
group = "shop"
request = "GET /items?lang={{language}}&n={{user.number}}"
headers = { Authorization = "Bearer {{token}}" }
think = "exp:500ms"
"#;

fn faults(text: &str) -> String {
    match super::text(text, Path::new("")) {
        Ok(_) => String::new(),
        Err(faults) => show("s.toml", text, &faults),
    }
}

#[test]
fn a_whole_file() {
    let scenario = super::text(GOOD, Path::new("")).map_err(|faults| show("s.toml", GOOD, &faults)).unwrap();
    let [user] = &scenario.users[..] else { panic!("one user") };
    assert_eq!((user.weight, user.start.len(), user.steps.len(), scenario.users_max()), (3, 1, 1, 20));
    let (body, _) = user.start[0].body.fill(&|_| Some("d\"e".to_owned())).unwrap();
    assert_eq!(String::from_utf8(body).unwrap(), r#"{"tags":["d\"e",1,true],"user":"ann"}"#);
    assert_eq!(scenario.length(), Duration::from_secs(30));
    assert_eq!(user.steps[0].name, "GET /items?lang={{language}}&n={{user.number}}");
}

/// Each mistake by its place, and a remedy.
#[test]
fn mistakes_have_file_line_and_remedy() {
    let user = "[[user]]\n[[user.step]]\nrequest = \"GET /\"\n";
    for (text, want) in [
        ("usrs = 5\n", "s.toml:1:1: unknown key \"usrs\""),
        ("usrs = 5\n", "did you mean \"users\"?"),
        ("users = 0\n", "s.toml:1:9: \"users\" is a whole number"),
        ("duration = \"soon\"\n", "s.toml:1:12: \"duration\" is a time"),
        ("target = \"ftp://x\"\n", "only http:// and https://"),
        ("thresholds = [\"p99 < 5s\", \"p99\"]\n", "s.toml:1:27: \"p99\" is not a threshold"),
        ("thresholds = [\"nobody: p99 < 5s\"]\n", "no step and no group is called \"nobody\""),
        ("http = \"3\"\n", "one of: any, 1.1, 2"),
        ("users = 5\n[[stage]]\nusers = 1\n", "\"users\" has no meaning beside [[stage]]"),
        ("[[data]]\nname = \"a\"\nfile = \"/nonexistent.csv\"\n", "s.toml:3:8: cannot read /nonexistent.csv"),
        ("x = \n", "s.toml:1:5: "),
        ("users = 1\nusers = 2\n", "duplicate key"),
    ] {
        let shown = faults(&format!("{text}{user}"));
        assert!(shown.contains(want), "{text}: {shown}");
    }
    for (step, want) in [
        ("request = \"GET items\"", "paths begin with /"),
        ("request = \"get /\"", "\"get\" is not a method"),
        ("request = \"GET /{{nobody}}\"", "nothing gives the value {{nobody}}"),
        ("request = \"GET /{{x\"", "values are written {{name}}"),
        ("request = \"GET /\"\nthnk = \"1s\"", "did you mean \"think\"?"),
        ("request = \"GET /\"\nthink = \"3s..1s\"", "is a pause"),
        ("request = \"GET /\"\nsave = { a = \"xpath:/\" }", "does not say where the value is"),
        ("request = \"GET /\"\ncheck = { status = 99 }", "\"status\" is a status"),
        ("request = \"GET /\"\ncheck = { matches = \"(\" }", "not a regular expression"),
        ("request = \"POST /\"\nbody = \"a\"\njson = 1", "a step has one body"),
        ("name = \"x\"", "a step without a request"),
    ] {
        let shown = faults(&format!("[[user]]\n[[user.step]]\n{step}\n"));
        assert!(shown.contains(want) && shown.contains("= help: "), "{step}: {shown}");
    }
    assert!(faults("").contains("there are no users"));
    assert!(faults("[[user]]\n").contains("takes no steps"));
    assert!(faults("[replay]\nlog = \"/nonexistent\"\n").contains("there is no file"));
}

/// Whatever would fail at once, or mean nothing, is told before.
#[test]
fn what_cannot_run_is_refused() {
    let user = "[[user]]\n[[user.step]]\nrequest = \"GET /\"\n";
    for (text, want) in [
        ("duration = \"0s\"\n", "s.toml:1:12: \"duration\" is above 0"),
        ("timeout = 0\n", "s.toml:1:11: \"timeout\" is above 0"),
        ("ramp = \"2s\"\nduration = \"500ms\"\n", "s.toml:1:8: a ramp that is longer than the duration"),
        ("users = 20001\n", "between 1 and 20000"),
        ("duration = -1\n", "s.toml:1:12: \"duration\" is a time"),
        ("duration = \"1.2.3s\"\n", "s.toml:1:12: \"duration\" is a time"),
        ("[[stage]]\nusers = -1\n", "between 0 and 20000"),
        ("[[stage]]\nusers = 1\n", "s.toml:1:1: stages that take no time"),
        ("[[stage]]\nusers = 0\nhold = 1\n", "stages without a user"),
        ("[headers]\n\"A b\" = \"x\"\n", "s.toml:2:9: the header \"A b\" cannot be sent"),
        ("[headers]\nA = \"x\\ny\"\n", "s.toml:2:5: the header \"A\" cannot be sent"),
        ("[headers]\nA = \"{{nix}}\"\n", "s.toml:2:5: user \"user 1\": nothing gives the value {{nix}}"),
        ("thresholds = [\"p99 < 5s\", \"no: p99 < 5s\"]\n", "s.toml:1:27: no step and no group"),
    ] {
        let shown = faults(&format!("{text}{user}"));
        assert!(shown.contains(want) && shown.matches("= help").count() == 1, "{text}: {shown}");
    }
    for (step, want) in [
        ("request = \"GET /\"\nheaders = { \"A b\" = \"x\" }", "the header \"A b\" cannot be sent"),
        ("request = \"GET /\\u0007\"", "cannot be asked for"),
        ("request = \"GET http://h:x/\"", "cannot be asked for"),
        ("request = \"GET /\"\ncheck = { status = [] }", "\"status\" is a status"),
        ("request = \"POST /\"\nform = { a = 1 }\nupload = \"x\"", "leave out form or upload"),
        ("request = \"POST /\"\nfiles = { a = \"/nonexistent\" }", "s.toml:4:15: cannot read /nonexistent"),
        ("request = \"PUT /\"\nupload = \"/nonexistent\"", "s.toml:4:10: cannot read /nonexistent"),
        ("request = \"GET /\"\ncheck = { contains = \"{{nix}}\" }", "s.toml:4:22: user"),
    ] {
        let shown = faults(&format!("[[user]]\n[[user.step]]\n{step}\n"));
        assert!(shown.contains(want) && shown.contains("= help: "), "{step}: {shown}");
    }
    // One mistake, told once.
    let data = "[[data]]\nname = \"a\"\nfile = \"/nonexistent\"\n[[user]]\n[[user.step]]\nrequest = \"GET /{{a.b}}\"\n";
    assert_eq!(faults(data).matches("= help").count(), 1, "{}", faults(data));
    // In the second user, in its second step.
    let two = format!(
        "target = \"http://h\"\n{user}{user}[[user.step]]\nrequest = \"GET /\"\nheaders = {{ A = \"{{{{nix}}}}\" }}\n"
    );
    let shown = faults(&two);
    assert!(shown.contains("s.toml:10:17: user \"user 2\": nothing gives the value {{nix}}"), "{shown}");
    assert!(faults("user = []\n").contains("is a list of tables"));
    assert!(faults("[[user]]\nstep = []\n").contains("is a list of tables"));
    let both = format!("[replay]\nlog = \"/nonexistent\"\n{user}");
    assert!(faults(&both).contains("s.toml:3:1: a replay has no users"), "{}", faults(&both));
}

/// What forms and files are as bodies.
#[test]
fn bodies() {
    let folder = std::env::temp_dir().join(format!("brisk-bodies-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cat.jpg"), "meow").unwrap();
    let check = |keys: &str| {
        let file = format!("[[user]]\n[[user.step]]\nrequest = \"POST http://h/\"\n{keys}\n");
        let scenario = super::text(&file, &folder).map_err(|faults| show("s.toml", &file, &faults)).unwrap();
        let step = &scenario.users[0].steps[0];
        let (body, kind) = step.body.fill(&|_| Some("a b".to_owned())).unwrap();
        let own = step
            .headers
            .first()
            .map(|(_, value)| value.fill(super::super::template::Escape::None, &|_| None));
        (String::from_utf8(body).unwrap(), kind.or(own.map(Result::unwrap)).unwrap_or_default())
    };
    let (body, kind) = check("form = { x = \"1&{{ random }}\", y = 2 }");
    assert_eq!((body.as_str(), kind.as_str()), ("x=1%26a+b&y=2", "application/x-www-form-urlencoded"));
    let (body, kind) = check("upload = \"cat.jpg\"");
    assert_eq!((body.as_str(), kind.as_str()), ("meow", "application/octet-stream"));
    let (body, kind) = check("form = { title = \"{{random}}\" }\nfiles = { photo = \"cat.jpg\" }");
    assert!(kind.starts_with("multipart/form-data; boundary="), "{kind}");
    let boundary = kind.split_once('=').unwrap().1;
    assert!(
        body.starts_with(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\na b\r\n"
        )) && body.contains("name=\"photo\"; filename=\"cat.jpg\"\r\n")
            && body.ends_with(&format!("\r\n\r\nmeow\r\n--{boundary}--\r\n")),
        "{body}"
    );
    assert!(check("form = { a = 1 }\nfiles = {}").1.starts_with("multipart/form-data"));
    std::fs::remove_dir_all(folder).unwrap();
}
