//! Where a configuration is at home: paths and names that it is resolved against.

use brisk_conf::Directive;

/// Paths and names a configuration is resolved against.
#[derive(Clone, Debug)]
pub struct Environment {
    /// `-p`: relative paths of logs, roots and the pid file start here. Ends with a slash.
    pub prefix: String,
    /// Where the server's own folders and files are while nothing else is configured.
    pub places: Places,
    /// The main file's folder: relative `include`s start here. Ends with a slash.
    /// nginx reads `include` from beside the main file, and everything else from the prefix.
    pub conf_prefix: String,
    /// `-e`: where errors go until `error_log` says otherwise. Empty without `-e`: to the terminal, and to the log folder
    /// once the server runs in the background.
    /// A worker in the background has no terminal.
    pub error_log: String,
    /// The host's name, lower case.
    pub hostname: String,
    /// `-t`: nothing is bound or started; checks that need the running system are done by the program.
    pub test: bool,
}

/// Where a server keeps its own folders and files while no directive says where. Each ends with a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Temporary files, and what must outlive a restart.
    pub state: String,
    /// What can be made again.
    pub cache: String,
    /// Logs without a path of their own.
    pub logs: String,
    /// The pid file.
    pub run: String,
}

impl Places {
    /// Everything below the prefix, as nginx has it.
    pub fn below(prefix: &str) -> Places {
        Places {
            state: prefix.into(),
            cache: prefix.into(),
            logs: format!("{prefix}logs/"),
            run: format!("{prefix}logs/"),
        }
    }
}

impl Environment {
    /// For tests and fuzzers: below a folder that is not there, and nothing is bound or started.
    pub fn nowhere() -> Environment {
        Environment {
            prefix: "/p/".into(),
            places: Places::below("/p/"),
            conf_prefix: "/p/conf/".into(),
            error_log: "stderr".into(),
            hostname: "machine".into(),
            test: true,
        }
    }

    /// The pid file that these directives of the main file name, or the usual one. No two servers that run have the same (a start with one
    /// that is in use is refused), so what is derived from it is one server's alone.
    pub fn pid_file(&self, tree: &[Directive]) -> String {
        let told = tree.iter().find(|directive| directive.name() == "pid");
        match told.and_then(|directive| directive.args.first()) {
            Some(path) => self.full(path.str()),
            None => format!("{}brisk.pid", self.places.run),
        }
    }

    /// A path of the configuration, made absolute.
    pub fn full(&self, path: &str) -> String {
        if path.starts_with('/') { path.to_string() } else { format!("{}{path}", self.prefix) }
    }
}
