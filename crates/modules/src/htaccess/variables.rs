//! Variables of Apache's language, for the configuration.

use super::carried::{Carried, Present};
use super::facts::document_root;
use brisk_net::clock;
use brisk_server::vars::{Variable, VariableGet};

/// Variables of Apache's language.
pub static VARIABLES: &[Variable] = &[
    Variable {
        name: "apache_script_filename",
        get: VariableGet::Fixed(|r, out| {
            let place = Present::of(r).map(|present| present.place);
            place.inspect(|place| out.extend_from_slice(&place.file)).is_some()
        }),
        doc: "The file that a request leads to, as the rules of Apache's language have judged it.",
        ..Variable::SILENT
    },
    Variable {
        name: "apache_script_name",
        get: VariableGet::Fixed(|r, out| {
            let asked = Carried::asked(r);
            let place = Present::of(r).map(|present| present.place);
            let name = place.as_ref().and_then(|place| asked.strip_suffix(place.path_info.as_slice()));
            out.extend_from_slice(name.unwrap_or(&asked));
            true
        }),
        doc: "The part of the URI's path that leads to the file.",
        ..Variable::SILENT
    },
    Variable {
        name: "apache_path_info",
        get: VariableGet::Fixed(|r, out| {
            let place = Present::of(r).map(|present| present.place);
            place.inspect(|place| out.extend_from_slice(&place.path_info)).is_some()
        }),
        doc: "What is behind the file in the URI's path.",
        ..Variable::SILENT
    },
    Variable {
        name: "apache_document_root",
        get: VariableGet::Fixed(|r, out| {
            out.extend_from_slice(&document_root(r));
            true
        }),
        doc: "The folder of DocumentRoot, which no Alias changes.",
        ..Variable::SILENT
    },
    Variable {
        name: "apache_proxy_url",
        get: VariableGet::Fixed(|r, out| {
            let carried = Carried::of(r);
            let carried = carried.borrow();
            carried.said.proxy_url.as_ref().inspect(|url| out.extend_from_slice(url)).is_some()
        }),
        doc: "The URL that a RewriteRule with the flag P sends the request to.",
        ..Variable::SILENT
    },
    Variable {
        name: "apache_request_us",
        get: VariableGet::Fixed(|r, out| {
            let took_ms = clock::mono_ms().saturating_sub(r.progress.started.mono_ms);
            out.extend_from_slice((took_ms * 1000).to_string().as_bytes());
            true
        }),
        doc: "Microseconds since the first bytes of the request, counted in whole milliseconds (%D in Apache's logs).",
        ..Variable::SILENT
    },
    Variable {
        name: "apache_env_*",
        get: VariableGet::Family(|r, name, out| {
            let carried = Carried::of(r);
            let carried = carried.borrow();
            let found =
                carried.said.env.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
            found.inspect(|(_, value)| out.extend_from_slice(value)).is_some()
        }),
        doc: "The variable of this name that SetEnv, SetEnvIf or a rule of Apache's has set for the request.",
        ..Variable::SILENT
    },
];
