//! Options that say what is asked for. They mean the same in every command.

use std::fs;

use super::args;
use crate::limits::BODY_BYTES_MAX;
use crate::plan::{RequestOptions, Resolve};
use crate::proxy::Proxy;
use crate::request::{FormField, multipart};

/// The `Content-Type` of a body that says nothing else, as of curl and browsers.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// What is sent with each request.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What")]
pub struct RequestArgs {
    /// Method [default: GET; POST with a body]
    #[arg(short = 'X', long, visible_alias = "request", value_name = "NAME")]
    method: Option<String>,
    /// Further header line; "Name:" leaves out one that would be sent
    #[arg(short = 'H', long = "header", value_name = "LINE")]
    headers: Vec<String>,
    /// Log in with this name and password (Basic)
    #[arg(short, long, value_name = "NAME:PASSWORD", value_parser = args::login)]
    user: Option<String>,
    /// This name and port are at this address
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = args::resolve)]
    resolve: Vec<Resolve>,
    /// Ask through this HTTP proxy: https and HTTP/2 by CONNECT
    #[arg(short = 'x', long, value_name = "[NAME:PASSWORD@]HOST:PORT", value_parser = Proxy::parse)]
    proxy: Option<Proxy>,
    /// Cookies, e.g. "a=1; b=2"
    #[arg(short = 'b', long = "cookie", value_name = "TEXT")]
    cookies: Vec<String>,
    /// Request body (makes it a POST); @FILE takes it from a file
    #[arg(long, visible_alias = "data", value_name = "TEXT")]
    body: Vec<String>,
    /// PUT this file
    #[arg(short = 'T', long, value_name = "FILE")]
    upload: Vec<String>,
    /// A form field; NAME=@FILE uploads a file
    #[arg(short = 'F', long, value_name = "NAME=VALUE")]
    form: Vec<String>,
}

impl RequestArgs {
    /// What is asked at each target, without the cookies. The error says what cannot be sent.
    pub fn options(&self) -> Result<RequestOptions, String> {
        // Many fields are one form.
        let bodies = [("--body", self.body.len()), ("-T", self.upload.len()), ("-F", self.form.len().min(1))];
        let bodies: Vec<&str> =
            bodies.into_iter().flat_map(|(name, count)| std::iter::repeat_n(name, count)).collect();
        if let [first, second, ..] = bodies[..] {
            return Err(format!("{first} and {second} both make a body: choose one of them"));
        }
        let mut request = RequestOptions {
            headers: self.headers.clone(),
            resolve: self.resolve.clone(),
            proxy: self.proxy.clone(),
            ..RequestOptions::default()
        };
        request.headers.extend(self.user.iter().map(|login| format!("Authorization: {login}")));
        if let Some(body) = self.body.first() {
            request.body = body_of(body)?.into();
            if request.header("content-type").is_none() {
                request.headers.push(format!("Content-Type: {FORM}"));
            }
            "POST".clone_into(&mut request.method);
        }
        if let Some(path) = self.upload.first() {
            request.body = read_file(path)?.into();
            "PUT".clone_into(&mut request.method);
        }
        if !self.form.is_empty() {
            let fields: Vec<FormField> =
                self.form.iter().map(|text| form_field(text)).collect::<Result<_, _>>()?;
            let (kind, body) = multipart(&fields);
            request.headers.push(format!("Content-Type: {kind}"));
            request.body = body.into();
            "POST".clone_into(&mut request.method);
        }
        request.headers.retain(|line| line.split_once(':').is_none_or(|(_, value)| !value.trim().is_empty()));
        if let Some(method) = &self.method {
            request.method.clone_from(method);
        }
        request.check().map_err(|error| error.to_string())?;
        Ok(request)
    }

    /// The cookies as they were given.
    pub fn cookies(&self) -> &[String] {
        &self.cookies
    }

    /// The header line of the cookies, if there are any.
    pub fn cookie_line(&self) -> Option<String> {
        (!self.cookies.is_empty()).then(|| format!("Cookie: {}", self.cookies.join("; ")))
    }
}

/// A body as it stands on a command line: the text, or with `@` what is in that file.
pub fn body_of(text: &str) -> Result<Vec<u8>, String> {
    match text.strip_prefix('@') {
        Some(path) => read_file(path),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// A file that is sent or read as a whole.
pub fn read_file(path: &str) -> Result<Vec<u8>, String> {
    let length = fs::metadata(path).map_err(|error| format!("cannot read {path}: {error}"))?.len();
    if length > BODY_BYTES_MAX {
        return Err(format!("{path} is larger than {BODY_BYTES_MAX} bytes"));
    }
    fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))
}

fn form_field(text: &str) -> Result<FormField, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("\"{text}\" is not NAME=VALUE"))?;
    let name = name.to_owned();
    Ok(match value.strip_prefix('@') {
        None => FormField { name, file_name: None, value: value.as_bytes().to_vec() },
        Some(path) => {
            let file_name = path.rsplit('/').next().map(str::to_owned);
            FormField { name, file_name, value: read_file(path)? }
        }
    })
}
