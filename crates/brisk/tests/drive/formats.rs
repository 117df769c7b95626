//! Files for other programs, read by other programs.

use super::*;

/// Runs a Python script that must find nothing wrong.
fn python(script: &str, args: &[&str]) {
    let output = Command::new("python3").arg("-c").arg(script).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("python3, which scripts/setup.sh installs: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// By the schema of HAR 1.2 that its readers go by.
const HAR: &str = "
import glob, json, sys, jsonschema
def here(part):
    if isinstance(part, list): return [here(item) for item in part]
    if not isinstance(part, dict): return part
    return {key: '#/definitions/' + value.rstrip('#') if key == '$ref' and value.endswith('.json#') else here(value)
            for key, value in part.items() if key != '$id'}
paths = glob.glob('/usr/share/nodejs/har-schema/lib/*.json')
parts = {path.split('/')[-1]: here(json.load(open(path))) for path in paths}
assert len(parts) > 15, 'the package node-har-schema'
whole = dict(parts['har.json'], definitions=parts)
checker = jsonschema.Draft6Validator(whole, format_checker=jsonschema.FormatChecker())
for path in sys.argv[1:]:
    faults = [f'{list(e.path)}: {e.message}' for e in checker.iter_errors(json.load(open(path)))]
    assert not faults, faults
broken = json.load(open(sys.argv[1]))
del broken['log']['entries'][0]['timings']
assert not checker.is_valid(broken), 'the schema says yes to everything'
";

#[test]
fn har_files_are_what_their_schema_says() {
    let server = server();
    let dir = TempDir::new();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (plain, secure) =
        (format!("http://127.0.0.1:{}/", server.port()), format!("https://localhost:{}/", server.port_of(2)));
    let files = [path("plain.har"), path("secure.har"), path("nobody.har")];
    printed(&["bench", "page", "--har", &files[0], &plain], 0);
    printed(&["bench", "page", "-k", "--har", &files[1], &secure], 0);
    printed(&["bench", "page", "--har", &files[2], "http://127.0.0.1:1/"], 1);
    python(HAR, &files.each_ref().map(String::as_str));
}

/// The schema is one, takes what we take, and refuses what we refuse.
const SCHEMA: &str = "
import json, sys, tomllib, jsonschema
schema = json.load(open(sys.argv[1]))
kind = jsonschema.validators.validator_for(schema)
assert kind is not jsonschema.validators._LATEST_VERSION or '$schema' in schema
kind.check_schema(schema)
checker = kind(schema)
for path in sys.argv[2:]:
    faults = [f'{list(e.path)}: {e.message}' for e in checker.iter_errors(tomllib.load(open(path, 'rb')))]
    good = '/good-' in path
    assert good == (not faults), f'{path}: {faults}'
";

/// One step of one user.
const STEP: &str = "[[user]]\n[[user.step]]\nrequest = \"GET http://h/\"\n";

/// Scenarios by name, and whether they are sound.
fn scenarios() -> impl Iterator<Item = (&'static str, String, bool)> {
    let good = sound().into_iter().map(|(name, text)| (name, text, true));
    good.chain(unsound().into_iter().map(|(name, text)| (name, text, false)))
}

fn sound() -> Vec<(&'static str, String)> {
    let step = STEP;
    vec![
        ("shop", scenario::SHOP.replace("users = 6", "target = \"http://h\"\nusers = 6")),
        ("replay", "target = \"http://h\"\n[replay]\nlog = \"access.log\"\nspeed = 2.5\n".to_owned()),
        ("stages", format!("[[stage]]\nusers = 0\nover = \"1s\"\n[[stage]]\nusers = 2\nhold = 1.5\n{step}")),
        ("times", format!("duration = \"1.5m\"\nramp = 0\ntimeout = 2\n{step}think = \"1s..3.5s\"\n")),
        ("pause", format!("{step}think = \"exp:.5\"\ncheck = {{ status = [200, 302], within = \"2s\" }}\n")),
        (
            "promises",
            format!(
                "thresholds = [\"p99.9<5s\", \"errors < 1 %\", \"GET http://h/: max > 0.5\", \"rate > 1e3\", \"count>5\"]\n{step}"
            ),
        ),
        ("upload", format!("{step}upload = \"access.log\"\nheaders = {{ A = \"b c\", D = 5 }}\n")),
        ("files", format!("{step}form = {{ a = 1 }}\nfiles = {{ f = \"access.log\" }}\n")),
        ("save", format!("{step}save = {{ a = \"json:$.a\", b = \"status\", c = \"regex:a(b)\" }}\n")),
        (
            "arrivals",
            format!("duration = \"1m\"\narrivals = {{ rate = 2.5, distribution = \"poisson\" }}\n{step}"),
        ),
        ("rates", format!("[[stage]]\nrate = 20\nover = \"1s\"\n[[stage]]\nrate = 0\nover = 2\n{step}")),
        ("two-kinds", format!("[[stage]]\nusers = 1\nrate = 1\nhold = 1\n[[stage]]\nusers = 1\nhold = 1\n{step}")),
        ("own-stages", format!("{step}[[user.stage]]\nusers = 1\nhold = 1\n")),
        (
            "blocks",
            "[[user]]\n[[user.step]]\nrepeat = 2\norder = \"random\"\ntags = \"a\"\n[[user.step.step]]\n[[user.step.step.step]]\nrequest = \"http://h/\"\ncheck = { contains = [\"a\", \"b\"], lacks = \"c\" }\n"
                .to_owned(),
        ),
        ("columns", format!("[[data]]\nname = \"p\"\nfile = \"people.csv\"\ncolumns = [\"a\"]\ndelimiter = \";\"\n{step}")),
        ("path", "target = \"HTTPS://h\"\n[[user]]\n[[user.step]]\nrequest = \"GET /a b\"\n".to_owned()),
    ]
}

fn unsound() -> Vec<(&'static str, String)> {
    let step = STEP;
    vec![
        ("key", format!("usrs = 5\n{step}")),
        ("type", format!("users = \"five\"\n{step}")),
        ("below", format!("users = 0\n{step}")),
        ("choice", format!("http = \"3\"\n{step}")),
        ("step", format!("{step}thnik = \"1s\"\n")),
        ("check", format!("{step}check = {{ stauts = 200 }}\n")),
        ("request", "[[user]]\n[[user.step]]\nname = \"a\"\n".to_owned()),
        ("data", format!("[[data]]\nname = \"a\"\n{step}")),
        ("log", "target = \"http://h\"\n[replay]\nspeed = 1.0\n".to_owned()),
        ("nobody", "target = \"http://h\"\n".to_owned()),
        ("think", format!("{step}think = \"fast\"\n")),
        ("time", format!("duration = \"1.2.3s\"\n{step}")),
        ("minus", format!("duration = -1\n{step}")),
        ("none", format!("duration = \"0s\"\n{step}")),
        ("weeks", format!("duration = 700000\n{step}")),
        ("promise", format!("thresholds = [\"p99\"]\n{step}")),
        ("share", format!("thresholds = [\"errors < x%\"]\n{step}")),
        ("many", format!("users = 100000\n{step}")),
        ("beside", format!("users = 5\n[[stage]]\nusers = 1\nhold = 1\n{step}")),
        ("nobody-ever", format!("[[stage]]\nusers = 0\nhold = 1\n{step}")),
        ("minus-users", format!("[[stage]]\nusers = -1\nhold = 1\n{step}")),
        ("bodies", format!("{step}body = \"a\"\njson = 1\n")),
        ("form-and-upload", format!("{step}form = {{ a = 1 }}\nupload = \"access.log\"\n")),
        ("status", format!("{step}check = {{ status = 99999 }}\n")),
        ("header", format!("{step}headers = {{ \"A b\" = \"x\" }}\n")),
        ("line", format!("{step}headers = {{ A = \"x\\ny\" }}\n")),
        ("source", format!("{step}save = {{ a = \"xpath:/\" }}\n")),
        ("target", "[replay]\nlog = \"access.log\"\n".to_owned()),
        ("both", format!("target = \"http://h\"\n[replay]\nlog = \"access.log\"\n{step}")),
        ("ftp", format!("target = \"ftp://h\"\n{step}")),
        ("method", "[[user]]\n[[user.step]]\nrequest = \"get http://h/\"\n".to_owned()),
        ("relative", "target = \"http://h\"\n[[user]]\n[[user.step]]\nrequest = \"GET a\"\n".to_owned()),
        ("steps", "target = \"http://h\"\n[[user]]\nname = \"a\"\n".to_owned()),
        ("arrivals-and-users", format!("users = 5\narrivals = {{ rate = 1 }}\n{step}")),
        ("no-arrivals", format!("arrivals = {{ rate = 0 }}\n{step}")),
        ("burst", format!("arrivals = {{ rate = 1, burst = 3 }}\n{step}")),
        ("nobody-comes", format!("[[stage]]\nrate = 0\nhold = 1\n{step}")),
        (
            "body-of-a-block",
            "[[user]]\n[[user.step]]\nrequest = \"http://h/\"\n[[user.step.step]]\nrequest = \"http://h/\"\n"
                .to_owned(),
        ),
        ("stage", format!("[[stage]]\nover = \"1s\"\n{step}")),
    ]
}

#[test]
fn the_schema_of_scenarios_takes_what_we_take() {
    let dir = TempDir::new();
    let write = |name: &str, text: &str| scenario::write(dir.path(), name, text);
    write("people.csv", "name\nann\n");
    write("access.log", "h - - [21/Nov/2026:05:52:57 +0000] \"GET / HTTP/1.1\" 200 5\n");
    let schema = write("schema.json", &printed(&["bench", "schema"], 0));
    let mut files = vec![schema];
    for (name, text, is_good) in scenarios() {
        let file = write(&format!("{}-{name}.toml", if is_good { "good" } else { "bad" }), &text);
        let output = run(&["bench", "run", "--check", &file]);
        assert_eq!(output.status.success(), is_good, "{name}: {output:?}");
        files.push(file);
    }
    python(SCHEMA, &files.iter().map(String::as_str).collect::<Vec<_>>());
}
