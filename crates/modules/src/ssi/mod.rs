//! `ngx_http_ssi_module`: commands in pages (server side includes).

mod commands;
mod dialect;
mod expression;
mod include;
mod page;
pub mod parser;
mod time;

use crate::coding::rules::weaken_etag;
use crate::limits::APACHE_VALUE_BYTES_MAX;
use crate::media_types::{MediaTypes, types_row};
use brisk_conf::{Context, Risk};
use brisk_http::status;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::gather;
use brisk_server::limits::{GATHERED_BYTES_MAX, SSI_MEMORY_BYTES_MAX};
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Filter, Plan, Stage};
use brisk_server::request::Request;
use brisk_server::response::Body;
use brisk_server::vars::{Variable, VariableGet};

pub use dialect::{Apache, Dialect};
use page::Page;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "ssi",
    rows: ROWS,
    variables: VARIABLES,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    directive("ssi")
        .doc("Whether the SSI commands in responses are carried out. Includes of one page run at the same time; if may stand inside if.")
        .in_(Context::HSLI)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("ssi on;")
        .sets(|cx, on| cx.conf::<Conf>().on = on),
    // Off: a page changes with what it includes, of which its own time says nothing.
    directive("ssi_last_modified")
        .doc("Whether Last-Modified is kept, and ETag as a weak one; they are removed otherwise.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .example("ssi_last_modified on;")
        .sets(|cx, on| cx.conf::<Conf>().last_modified = on),
    directive("ssi_min_file_chunk")
        .doc("From this size on, parts of files between commands are sent without being copied.")
        .in_(Context::HSL)
        .takes_size()
        .default("1k")
        .risk(Risk::Safe)
        .example("ssi_min_file_chunk 4k;")
        .sets(|cx, bytes| cx.conf::<Conf>().min_file_chunk = bytes),
    directive("ssi_silent_errors")
        .doc("Whether commands that fail leave nothing in the page, instead of \"[an error occurred while processing the directive]\".")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .example("ssi_silent_errors on;")
        .sets(|cx, on| cx.conf::<Conf>().silent_errors = on),
    types_row!(Conf, "ssi_types", "text/html", "in which commands are looked for"),
    directive("ssi_value_length")
        .doc("The longest value of a parameter of a command, in bytes.")
        .in_(Context::HSL)
        .takes_size()
        .default("256")
        .risk(Risk::Resource)
        .example("ssi_value_length 1024;")
        .sets(|cx, bytes| cx.conf::<Conf>().value_length = bytes as usize),
    directive("ssi_ignore_recycled_buffers")
        .doc("A property of buffers.")
        .in_(Context::HSL)
        .takes("on | off")
        .example("ssi_ignore_recycled_buffers on;")
        .ignored("buffers are not recycled"),
];

static VARIABLES: &[Variable] = &[
    Variable {
        name: "date_gmt",
        get: VariableGet::Fixed(|r, out| date(r, false, out)),
        doc: "The present time in GMT, as the page's last config timefmt wants it.",
        ..Variable::SILENT
    },
    Variable {
        name: "date_local",
        get: VariableGet::Fixed(|r, out| date(r, true, out)),
        doc: "The present time in the server's zone, as the page's last config timefmt wants it.",
        ..Variable::SILENT
    },
];

/// `config timefmt` of a page, as its request keeps it.
#[derive(Default)]
struct TimeFormat(Option<String>);

fn time_format(r: &mut Request, format: String) {
    r.state.visit.get_mut::<TimeFormat>().0 = Some(format);
}

fn date(r: &Request, is_local: bool, out: &mut Vec<u8>) -> bool {
    let set = r.state.visit.get::<TimeFormat>();
    let format = set.and_then(|set| set.0.as_deref());
    time::write(format.unwrap_or(time::DEFAULT), r.now().unix_secs, is_local, out)
}

#[derive(Clone, Default)]
pub struct Conf {
    on: bool,
    last_modified: bool,
    min_file_chunk: u64,
    silent_errors: bool,
    types: Arc<MediaTypes>,
    value_length: usize,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    if conf.on {
        plan.add_filter(Stage::Inclusion, Arc::new(conf.clone()));
    }
}

impl Filter for Conf {
    fn reads(&self, r: &Request) -> bool {
        self.types.has(r.resp.content_type.as_deref().unwrap_or_default())
    }

    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        if self.reads(r) {
            self.carry_out(r, Dialect::Nginx);
        }
    }
}

/// Carries out the commands of a page in Apache's dialect.
pub fn carry_out_as_apache(r: &mut Request, apache: Rc<dyn Apache>) {
    let conf =
        Conf { on: true, min_file_chunk: 1024, value_length: APACHE_VALUE_BYTES_MAX, ..Conf::default() };
    conf.carry_out(r, Dialect::Apache(apache));
}

impl Conf {
    fn carry_out(&self, r: &mut Request, dialect: Dialect) {
        let resp = &r.resp;
        let is_empty = resp.content_length == Some(0) || status::is_bodiless(resp.status);
        // Coded text cannot be read; `gunzip` comes before this stage.
        let is_coded = resp.is_coded();
        if is_empty || is_coded {
            return;
        }
        // Includes and their variables are not known before the page is read.
        r.note(Declared::ANYTHING);
        r.resp.content_length = None;
        // The page's length and its ranges are those of what is sent, which is not known yet.
        r.resp.clear_ranges();
        // The time of the file says nothing of what is included: by default a page has none, so that it is not
        // taken for unchanged.
        if self.last_modified {
            weaken_etag(&mut r.resp);
        } else {
            r.resp.clear_last_modified();
            r.resp.etag = None;
        }
        if r.is_head() {
            // Commands are not carried out for a body that nobody gets.
            return;
        }
        let body = std::mem::take(&mut r.resp.body);
        let page = Box::new(Page::new(r, self.clone(), dialect, body));
        // An included page is pulled by the one that includes it: otherwise pages within pages would fill the stack.
        r.resp.body =
            if r.route.depth > 0 { Body::Stream(page) } else { gather::at_once(page, GATHERED_BYTES_MAX) };
        // Known if nothing had to be waited for.
        r.resp.content_length = r.resp.body.len();
    }
}

/// Values by name: a page may have thousands.
type Named<T> = RefCell<HashMap<Box<[u8]>, T>>;

/// What the pages of one request share, however deeply they are included.
#[derive(Default)]
pub struct Shared {
    /// By name in lower case.
    variables: Named<Vec<u8>>,
    blocks: Named<Arc<[u8]>>,
    /// The groups of the last expression that matched.
    captures: RefCell<Vec<Vec<u8>>>,
    /// Bytes of all of them.
    bytes: Cell<usize>,
    includes: Cell<u32>,
    /// What was done since others had their turn: parts of pages, and includes, which cost more.
    in_a_row: Cell<u32>,
}

/// Parts of pages read in a row before other connections have their turn.
const PARTS_IN_A_ROW: u32 = 512;
/// An include counts as so many.
const PARTS_OF_INCLUDE: u32 = 8;
/// What a variable or block occupies besides its name and value, about.
const ENTRY_BYTES: usize = 64;

impl Shared {
    /// Counts bytes that are to be kept; false if that is too much.
    fn take(&self, bytes: usize) -> bool {
        // All that a page keeps is one sum, so that a client's variables cannot fill memory.
        let sum = self.bytes.get() + bytes;
        if sum <= SSI_MEMORY_BYTES_MAX {
            self.bytes.set(sum);
        }
        sum <= SSI_MEMORY_BYTES_MAX
    }

    /// A part of a page is read.
    fn count_part(&self) {
        self.in_a_row.set(self.in_a_row.get() + 1);
    }

    fn count_include(&self) -> u32 {
        self.in_a_row.set(self.in_a_row.get() + PARTS_OF_INCLUDE);
        self.includes.set(self.includes.get() + 1);
        self.includes.get()
    }

    fn is_turn_over(&self) -> bool {
        let is_over = self.in_a_row.get() >= PARTS_IN_A_ROW;
        if is_over {
            self.in_a_row.set(0);
        }
        is_over
    }

    /// Appends the value of a variable that the page has set; false if it is none of these.
    fn own(&self, name: &str, out: &mut Vec<u8>) -> bool {
        if let [digit @ b'0'..=b'9'] = name.as_bytes()
            && let Some(group) = self.captures.borrow().get(usize::from(digit - b'0'))
        {
            out.extend_from_slice(group);
            return true;
        }
        let variables = self.variables.borrow();
        match variables.get(&*name.to_ascii_lowercase().into_bytes()) {
            Some(value) => {
                out.extend_from_slice(value);
                true
            }
            None => false,
        }
    }

    /// Sets a variable, whose name is in lower case.
    fn set(&self, name: &[u8], value: Vec<u8>) -> Result<(), String> {
        let mut variables = self.variables.borrow_mut();
        let have = variables.get_mut(name);
        let freed = have.as_ref().map_or(0, |value| value.len());
        let room = if have.is_some() { value.len() } else { ENTRY_BYTES + name.len() + value.len() };
        // Counted down first: a value that replaces another needs room for the difference only.
        self.bytes.set(self.bytes.get() - freed);
        if !self.take(room) {
            self.bytes.set(self.bytes.get() + freed);
            return Err(format!("too many SSI variables: \"{}\"", String::from_utf8_lossy(name)));
        }
        match have {
            Some(slot) => *slot = value,
            None => {
                variables.insert(name.into(), value);
            }
        }
        Ok(())
    }

    /// Makes a variable known, empty if it is new.
    fn define(&self, name: &[u8]) -> Result<(), String> {
        let name = name.to_ascii_lowercase();
        let is_known = self.variables.borrow().contains_key(&*name);
        if is_known { Ok(()) } else { self.set(&name, Vec::new()) }
    }

    /// Keeps the groups of a match; named ones become variables.
    fn capture(&self, groups: &[Option<&[u8]>], names: &[Option<String>]) -> Result<(), String> {
        let groups: Vec<Vec<u8>> = groups.iter().map(|group| group.unwrap_or_default().to_vec()).collect();
        for (group, name) in groups.iter().zip(names) {
            if let Some(name) = name {
                self.set(&name.to_ascii_lowercase().into_bytes(), group.clone())?;
            }
        }
        *self.captures.borrow_mut() = groups;
        Ok(())
    }

    /// Keeps a block, whose content is counted already. The first of a name is the one that counts.
    fn add_block(&self, name: Box<[u8]>, content: Arc<[u8]>) -> Result<(), String> {
        if !self.take(ENTRY_BYTES + name.len()) {
            return Err(format!("too many SSI blocks: \"{}\"", String::from_utf8_lossy(&name)));
        }
        self.blocks.borrow_mut().entry(name).or_insert(content);
        Ok(())
    }

    fn block(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        self.blocks.borrow().get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::messages_in_location;

    #[test]
    fn parameters_are_checked() {
        messages_in_location(
            "ssi on; ssi_last_modified on; ssi_min_file_chunk 2k; ssi_silent_errors on; ssi_types text/css; ssi_value_length 1k;",
            &[],
        );
        messages_in_location(
            "ssi maybe;",
            &["invalid value \"maybe\" in \"ssi\" directive, it must be \"on\" or \"off\""],
        );
    }

    #[test]
    fn variables_have_bounds() {
        let shared = Shared::default();
        let most = SSI_MEMORY_BYTES_MAX - ENTRY_BYTES - 1;
        for _ in 0..10 {
            shared.set(b"a", vec![b'x'; most]).unwrap();
        }
        assert!(shared.set(b"b", Vec::new()).is_err());
        assert!(shared.set(b"a", vec![b'x'; SSI_MEMORY_BYTES_MAX + 1]).is_err());
        shared.set(b"a", Vec::new()).unwrap();
        shared.set(b"b", b"y".to_vec()).unwrap();
        // What is named costs memory, even if it is empty.
        let shared = Shared::default();
        let names = (0..SSI_MEMORY_BYTES_MAX / ENTRY_BYTES).map(|number| number.to_string().into_bytes());
        let kept =
            names.take_while(|name| shared.add_block(name.as_slice().into(), Arc::default()).is_ok()).count();
        assert!((SSI_MEMORY_BYTES_MAX / 80..SSI_MEMORY_BYTES_MAX / ENTRY_BYTES).contains(&kept), "{kept}");
    }
}
