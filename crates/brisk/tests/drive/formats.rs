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

#[test]
fn the_schema_of_scenarios_takes_what_we_take() {
    let dir = TempDir::new();
    let write = |name: &str, text: &str| scenario::write(dir.path(), name, text);
    write("people.csv", "name\nann\n");
    write("access.log", "h - - [21/Nov/2026:05:52:57 +0000] \"GET / HTTP/1.1\" 200 5\n");
    let schema = write("schema.json", &printed(&["bench", "schema"], 0));
    let step = "[[user]]\n[[user.step]]\nrequest = \"GET http://h/\"\n";
    let mut files = vec![schema];
    for (name, text, is_good) in [
        ("shop", scenario::SHOP.replace("users = 6", "target = \"http://h\"\nusers = 6"), true),
        ("replay", "target = \"http://h\"\n[replay]\nlog = \"access.log\"\nspeed = 2.5\n".to_owned(), true),
        ("stages", format!("[[stage]]\nusers = 0\nover = \"1s\"\n{step}"), true),
        ("key", format!("usrs = 5\n{step}"), false),
        ("type", format!("users = \"five\"\n{step}"), false),
        ("below", format!("users = 0\n{step}"), false),
        ("choice", format!("http = \"3\"\n{step}"), false),
        ("step", format!("{step}thnik = \"1s\"\n"), false),
        ("check", format!("{step}check = {{ stauts = 200 }}\n"), false),
        ("request", "[[user]]\n[[user.step]]\nname = \"a\"\n".to_owned(), false),
        ("data", format!("[[data]]\nname = \"a\"\n{step}"), false),
        ("log", "target = \"http://h\"\n[replay]\nspeed = 1.0\n".to_owned(), false),
        ("nobody", "target = \"http://h\"\n".to_owned(), false),
        ("stage", format!("[[stage]]\nover = \"1s\"\n{step}"), false),
    ] {
        let file = write(&format!("{}-{name}.toml", if is_good { "good" } else { "bad" }), &text);
        let output = run(&["bench", "run", "--check", &file]);
        assert_eq!(output.status.success(), is_good, "{name}: {output:?}");
        files.push(file);
    }
    python(SCHEMA, &files.iter().map(String::as_str).collect::<Vec<_>>());
}
