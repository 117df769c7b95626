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
    let filled =
        user.start[0].body.as_ref().unwrap().fill(user.start[0].escape, &|_| Some("d\"e".to_owned()));
    assert_eq!(filled.unwrap(), r#"{"tags":["d\"e",1,true],"user":"ann"}"#);
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
