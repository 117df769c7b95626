//! `brisk man`: manual pages, from the same rows as `--help`.

use brisk_cli::{Call, Entry};
use brisk_load::output;
use clap::{Command, CommandFactory as _, Parser, ValueHint};
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};

pub const MAN: Entry = Entry { name: "man", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// What the page of the server says besides its options.
const SERVER: &str = include_str!("server.man");

/// Prints the manual page of a command.
#[derive(Debug, Parser)]
#[command(after_help = "For example: brisk man bench run | man -l -")]
struct Args {
    /// The command; without one, the server itself
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
    /// Write the pages of all commands into this folder, in man1 and man8
    #[arg(long, value_name = "DIR", conflicts_with = "words", value_hint = ValueHint::DirPath)]
    all: Option<PathBuf>,
}

fn main(call: &Call<'_>) -> i32 {
    let args: Args = match call.parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let mut brisk = call.root().definition("brisk");
    brisk.build();
    if let Some(folder) = &args.all {
        let written = write_all(&brisk, folder);
        return call.carry_out(written.map(|()| 0).map_err(|error| format!("{}: {error}", folder.display())));
    }
    let mut found = &brisk;
    for word in &args.words {
        match found.get_subcommands().find(|command| command.get_name() == word) {
            Some(inner) => found = inner,
            None => return call.refuse(format_args!("no command \"{word}\"")),
        }
    }
    match page(found) {
        Ok(page) => {
            output::write(&page);
            0
        }
        Err(error) => call.carry_out(Err(error.to_string())),
    }
}

/// The name of a command's page: brisk-bench-run.
fn name_of(command: &Command) -> String {
    command.get_bin_name().unwrap_or("brisk").replace(' ', "-")
}

/// The server is for administrators, its commands are for all.
fn section_of(command: &Command) -> &'static str {
    if command.get_name() == "brisk" { "8" } else { "1" }
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let (name, section) = (name_of(command), section_of(command));
    let mut page = Vec::new();
    let man = Man::new(command.clone().display_name(name.clone()))
        .title(name.to_uppercase())
        .section(section)
        .source(concat!("Brisk ", env!("CARGO_PKG_VERSION")))
        .manual(if section == "8" { "System administration" } else { "Brisk" })
        .date(date());
    man.render(&mut page)?;
    // What clap calls "extra" is named after what it is, and the commands' pages are in a section of their own.
    let text = String::from_utf8_lossy(&page).replace("\n.SH EXTRA\n", "\n.SH NOTES\n");
    let text = if section == "8" { text.replace("(8)\n", "(1)\n") + SERVER } else { text };
    Ok(text.into_bytes())
}

/// The day on which pages are made; for builds that can be repeated, the one that `SOURCE_DATE_EPOCH` says.
fn date() -> String {
    let told = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let secs = told.unwrap_or_else(|| brisk_net::clock::refresh().unix_secs);
    brisk_server::log::stamp(secs).chars().take_while(|c| *c != ' ').collect::<String>().replace('/', "-")
}

fn write_all(command: &Command, folder: &Path) -> io::Result<()> {
    let section = section_of(command);
    let place = folder.join(format!("man{section}"));
    std::fs::create_dir_all(&place)?;
    std::fs::write(place.join(format!("{}.{section}", name_of(command))), page(command)?)?;
    command.get_subcommands().try_for_each(|inner| write_all(inner, folder))
}
