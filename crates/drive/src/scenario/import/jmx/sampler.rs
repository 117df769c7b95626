//! HTTP samplers: the request of a step.

use super::Scope;
use super::tree::Element;
use super::values::Values;
use crate::scenario::import::written::toml_text;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Where most requests go: the target of the scenario.
#[derive(Debug, Default)]
pub struct Targets(BTreeMap<String, usize>);

impl Targets {
    /// The server that most samplers ask.
    pub fn most(&self) -> Option<&str> {
        self.0.iter().max_by_key(|(_, count)| **count).map(|(name, _)| name.as_str())
    }
}

/// What a sampler asks for.
#[derive(Debug)]
pub struct Request {
    /// `http://host:port`; `None`: whatever the target is.
    pub server: Option<String>,
    /// Path and query, or a whole URL in a value.
    pub path: String,
    /// The method.
    pub method: String,
    /// Further lines of the step.
    pub lines: Vec<String>,
    /// Whether answers that lead elsewhere are followed.
    pub follows_redirects: bool,
}

struct Argument {
    name: String,
    value: String,
    is_encoded_by_jmeter: bool,
}

/// What a sampler, or its defaults, say of requests and a step does not do. Each begins with its line.
pub fn left_out(element: &Element<'_>) -> Vec<String> {
    let text = |name: &str| element.text(&format!("HTTPSampler.{name}"));
    let mut found = Vec::new();
    if ["connect_timeout", "response_timeout"].iter().any(|name| !matches!(text(name), "" | "0")) {
        found.push(element.fault("its time limits are left out: timeout in a scenario is one for all steps"));
    }
    if !text("proxyHost").is_empty() {
        found.push(element.fault("its proxy is left out: brisk bench run has -x HOST:PORT"));
    }
    if text("use_keepalive") == "false" {
        found.push(element.fault("its connection is kept for the next request"));
    }
    found
}

/// Reads a sampler. The error begins with its line.
pub fn request(
    sampler: &Element<'_>,
    scope: &Scope<'_>,
    values: &Values,
    targets: &mut Targets,
) -> Result<Request, String> {
    // What the sampler does not say, the nearest defaults do.
    let text = |name: &str| {
        let own = sampler.text(name);
        if own.is_empty() {
            scope
                .defaults
                .iter()
                .rev()
                .map(|element| element.text(name))
                .find(|text| !text.is_empty())
                .unwrap_or_default()
        } else {
            own
        }
    };
    let places = |text: &str| values.places(text).map_err(|why| sampler.fault(why));
    let method = match sampler.text("HTTPSampler.method") {
        "" => "GET".to_owned(),
        method => method.to_owned(),
    };
    let mut path = places(text("HTTPSampler.path"))?;
    let server = server(&text, values, &path).map_err(|why| sampler.fault(why))?;
    if let Some(server) = &server {
        *targets.0.entry(server.clone()).or_default() += 1;
    }
    if !path.starts_with(['/', '{']) && !path.starts_with("http://") && !path.starts_with("https://") {
        path.insert(0, '/');
    }
    let mut arguments = Vec::new();
    for element in scope.defaults.iter().chain([sampler]) {
        for argument in element.list("Arguments.arguments") {
            arguments.push(Argument {
                name: places(argument.text("Argument.name"))?,
                value: places(argument.text("Argument.value"))?,
                is_encoded_by_jmeter: argument.is("HTTPArgument.always_encode"),
            });
        }
    }
    let mut lines = Vec::new();
    let mut headers = headers(scope, values)?;
    let is_raw = sampler.is("HTTPSampler.postBodyRaw");
    let has_body = matches!(method.as_str(), "POST" | "PUT" | "PATCH") || is_raw;
    let files = files(sampler, values)?;
    if has_body {
        lines.extend(body(sampler, is_raw, &arguments, &files, &mut headers)?);
    } else if !arguments.is_empty() {
        let _ = write!(path, "{}{}", if path.contains('?') { '&' } else { '?' }, query(&arguments));
    }
    if !headers.is_empty() {
        let pairs: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{} = {}", toml_text(name), toml_text(value)))
            .collect();
        lines.insert(0, format!("headers = {{ {} }}", pairs.join(", ")));
    }
    let follows_redirects =
        text("HTTPSampler.follow_redirects") != "false" || text("HTTPSampler.auto_redirects") == "true";
    Ok(Request { server, path, method, lines, follows_redirects })
}

/// `http://host:port`, if the plan names a host.
fn server<'d>(text: &dyn Fn(&str) -> &'d str, values: &Values, path: &str) -> Result<Option<String>, String> {
    let (host, port) = (text("HTTPSampler.domain"), text("HTTPSampler.port"));
    if host.is_empty() || path.starts_with("http://") || path.starts_with("https://") {
        return Ok(None);
    }
    let host = values.literal(host).or_else(|_| values.places(host))?;
    let port = values.literal(port).or_else(|_| values.places(port))?;
    let scheme = match values.literal(text("HTTPSampler.protocol"))?.to_ascii_lowercase().as_str() {
        "" | "http" => "http",
        "https" => "https",
        other => return Err(format!("the protocol {other} is not supported: http and https are")),
    };
    let usual = matches!((scheme, port.as_str()), (_, "") | ("http", "80") | ("https", "443"));
    Ok(Some(if usual { format!("{scheme}://{host}") } else { format!("{scheme}://{host}:{port}") }))
}

/// Header lines, those of the nearest manager last; and a login.
fn headers(scope: &Scope<'_>, values: &Values) -> Result<Vec<(String, String)>, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    for element in &scope.headers {
        let places = |text: &str| values.places(text).map_err(|why| element.fault(why));
        let mut put = |name: String, value: String| {
            found.retain(|(have, _)| !have.eq_ignore_ascii_case(&name));
            found.push((name, value));
        };
        if element.kind() == "AuthManager" {
            for login in element.list("AuthManager.auth_list") {
                let literal = |name: &str| values.literal(login.text(name)).map_err(|why| element.fault(why));
                let (user, password) =
                    (literal("Authorization.username")?, literal("Authorization.password")?);
                if !matches!(login.text("Authorization.mechanism"), "" | "BASIC" | "BASIC_DIGEST") {
                    return Err(element.fault("only Basic logins are supported"));
                }
                let login = BASE64_STANDARD.encode(format!("{user}:{password}"));
                put("Authorization".to_owned(), format!("Basic {login}"));
            }
        }
        for header in element.list("HeaderManager.headers") {
            let name = places(header.text("Header.name"))?;
            // Its length follows from the body.
            if !name.is_empty() && !name.eq_ignore_ascii_case("content-length") {
                put(name, places(header.text("Header.value"))?);
            }
        }
    }
    Ok(found)
}

/// Files to upload: the names of their fields, and their paths.
fn files(sampler: &Element<'_>, values: &Values) -> Result<Vec<(String, String)>, String> {
    let literal = |text: &str| values.literal(text).map_err(|why| sampler.fault(why));
    let list = sampler.list("HTTPFileArgs.files");
    let rows =
        list.iter().map(|file| Ok((literal(file.text("File.paramname"))?, literal(file.text("File.path"))?)));
    rows.filter(|row: &Result<_, String>| {
        row.as_ref().is_ok_and(|(_, path): &(String, String)| !path.is_empty()) || row.is_err()
    })
    .collect()
}

fn body(
    sampler: &Element<'_>,
    is_raw: bool,
    arguments: &[Argument],
    files: &[(String, String)],
    headers: &mut Vec<(String, String)>,
) -> Result<Vec<String>, String> {
    let table = |pairs: &mut dyn Iterator<Item = (&str, &str)>| {
        let pairs: Vec<String> =
            pairs.map(|(name, value)| format!("{} = {}", toml_text(name), toml_text(value))).collect();
        format!("{{ {} }}", pairs.join(", "))
    };
    let mut form = arguments.iter().map(|argument| (argument.name.as_str(), argument.value.as_str()));
    if let [(name, path)] = files
        && name.is_empty()
    {
        return Ok(vec![format!("upload = {}", toml_text(path))]);
    }
    if !files.is_empty() {
        let mut fields = files.iter().map(|(name, path)| (name.as_str(), path.as_str()));
        let mut lines = vec![format!("files = {}", table(&mut fields))];
        if !arguments.is_empty() {
            lines.push(format!("form = {}", table(&mut form)));
        }
        return Ok(lines);
    }
    if arguments.is_empty() {
        return Ok(Vec::new());
    }
    if is_raw || arguments.iter().all(|argument| argument.name.is_empty()) {
        let text: String = arguments.iter().map(|argument| argument.value.as_str()).collect();
        return Ok(vec![format!("body = {}", toml_text(&text))]);
    }
    if sampler.is("HTTPSampler.DO_MULTIPART_POST") {
        return Err(
            sampler.fault("multipart/form-data without a file is not supported: leave that choice out")
        );
    }
    let mut names = BTreeSet::new();
    let is_form = arguments.iter().all(|argument| {
        names.insert(argument.name.as_str())
            && (argument.is_encoded_by_jmeter || !argument.value.contains(['%', '&', '+']))
    });
    if is_form {
        return Ok(vec![format!("form = {}", table(&mut form))]);
    }
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        headers.push(("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
    }
    Ok(vec![format!("body = {}", toml_text(&query(arguments)))])
}

/// `a=1&b=2`, encoded where JMeter does.
fn query(arguments: &[Argument]) -> String {
    let encoded = |text: &str| {
        let mut out = String::new();
        let mut rest = text;
        // Places for values stay as they are.
        while let Some((before, inner, after)) = rest
            .split_once("{{")
            .and_then(|(before, rest)| rest.split_once("}}").map(|(inner, after)| (before, inner, after)))
        {
            let _ = write!(out, "{}{{{{{inner}}}}}", percent(before));
            rest = after;
        }
        out + &percent(rest)
    };
    let pairs: Vec<String> = arguments
        .iter()
        .map(|Argument { name, value, is_encoded_by_jmeter }| {
            let value = if *is_encoded_by_jmeter { encoded(value) } else { value.replace(' ', "%20") };
            if name.is_empty() { value } else { format!("{name}={value}") }
        })
        .collect();
    pairs.join("&")
}

fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~*".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
