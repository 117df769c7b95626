//! `brisk directives`, `brisk variables` and `brisk coverage`: the reference in the terminal, from the same rows as
//! `docs/`.

use brisk_load::output;
use brisk_modules::reference::{coverage, directives, variables};

/// `brisk directives`; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    match args {
        [] => output::print(directives::list()),
        [flag] if flag == "--markdown" => output::print(directives::markdown()),
        [name] if !name.starts_with('-') => match directives::one(name) {
            Some(text) => output::print(text),
            None => return unknown("directive", name, directives::all().map(|(_, row)| row.name)),
        },
        _ => return usage("directives [NAME | --markdown]"),
    }
    0
}

/// `brisk variables`; gives the exit code.
pub fn variables(args: &[String]) -> i32 {
    match args {
        [] => output::print(variables::list()),
        [flag] if flag == "--markdown" => output::print(variables::markdown()),
        [name] if !name.starts_with('-') => match variables::one(name) {
            Some(text) => output::print(text),
            None => return unknown("variable", name, variables::all().map(|(_, row)| row.name)),
        },
        _ => return usage("variables [NAME | --markdown]"),
    }
    0
}

/// `brisk coverage`: what becomes of each directive of nginx; gives the exit code.
pub fn coverage(args: &[String]) -> i32 {
    if !args.is_empty() {
        return usage("coverage");
    }
    output::print(coverage::tsv());
    0
}

fn usage(text: &str) -> i32 {
    output::note(format_args!("Usage: brisk {text}"));
    1
}

fn unknown<'a>(kind: &str, name: &str, names: impl Iterator<Item = &'a str>) -> i32 {
    let near = brisk_conf::diag::did_you_mean(name, names);
    let hint = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    output::note(format_args!("brisk: no {kind} \"{name}\"{hint}"));
    1
}
