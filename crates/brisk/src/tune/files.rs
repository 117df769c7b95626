//! The files that settings stand in, what of them can be turned, and what they say at a point of the search.

use crate::doctor::files::Read;
use crate::limits::TUNE_DIALS_MAX;
use brisk_tune::audit;
use brisk_tune::edit::{self, File, Language, Refused, Wanted};
use brisk_tune::journal::checksum;
use brisk_tune::knob::{self, Knob, Levels, Needs, Risk};
use brisk_tune::search::{Dimension, Point};
use serde_json::{Value, json};

/// Which files a language's settings stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Server,
    Php,
    Pools,
    Apache,
    Database,
}

/// All files of a site that the tuner knows how to change, as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    pub server: Vec<File>,
    pub php: Vec<File>,
    pub pools: Vec<File>,
    pub apache: Vec<File>,
    pub database: Vec<File>,
}

impl Files {
    /// Those that the doctor has read. Pools that the server does not use are left out.
    pub fn of(read: &Read) -> Result<Files, String> {
        let all = |range: &std::ops::Range<usize>| -> Result<Vec<File>, String> {
            read.files[range.clone()].iter().map(|name| file(name)).collect()
        };
        Ok(Files {
            server: all(&read.server)?,
            php: all(&read.php)?,
            pools: all(&read.pools)?,
            apache: all(&read.apache)?,
            database: all(&read.database)?,
        })
    }

    /// A sum over each file's bytes, by its name: whether one was changed since.
    pub fn sums(&self) -> Value {
        let sum = |file: &File| (file.name.clone(), json!(format!("{:016x}", checksum(&file.text))));
        Value::Object(self.all().map(sum).collect())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &File> {
        [&self.server, &self.php, &self.pools, &self.apache, &self.database].into_iter().flatten()
    }

    fn group(&self, group: Group) -> &Vec<File> {
        match group {
            Group::Server => &self.server,
            Group::Php => &self.php,
            Group::Pools => &self.pools,
            Group::Apache => &self.apache,
            Group::Database => &self.database,
        }
    }

    fn group_mut(&mut self, group: Group) -> &mut Vec<File> {
        match group {
            Group::Server => &mut self.server,
            Group::Php => &mut self.php,
            Group::Pools => &mut self.pools,
            Group::Apache => &mut self.apache,
            Group::Database => &mut self.database,
        }
    }

    /// Those that differ, as they are here and there.
    pub fn differing<'a>(&'a self, other: &'a Files) -> impl Iterator<Item = (&'a File, &'a File)> {
        self.all().zip(other.all()).filter(|(one, other)| one.text != other.text)
    }
}

fn file(name: &str) -> Result<File, String> {
    let failed = |error| format!("open() \"{name}\" failed ({})", brisk_conf::os_text(&error));
    Ok(File { name: name.to_owned(), text: std::fs::read(name).map_err(failed)? })
}

/// A setting that is tried.
#[derive(Clone, Debug)]
pub struct Dial {
    pub knob: &'static Knob,
    /// Where it stands here: a pool's settings may stand in a block of Brisk's configuration.
    language: Language,
    group: Group,
    pub levels: Levels,
}

impl Dial {
    /// The files with this value, and with what it needs beside it.
    fn changed(&self, texts: &[File], value: &str, pool: &str) -> Result<Vec<File>, Refused> {
        let wanted = |name| Wanted { language: self.language, name, pool };
        let mut texts = edit::apply(texts, &edit::set(texts, &wanted(self.knob.name), value)?)?;
        let needed = if value == self.knob.default { &[] } else { self.knob.companions };
        for companion in needed {
            let edits = edit::add(&texts, &wanted(companion.name), companion.value, companion.repeats)?;
            texts = edit::apply(&texts, &edits)?;
        }
        Ok(texts)
    }
}

/// What becomes of a setting.
enum Fate {
    Tried(Dial),
    /// With its present value.
    Proposed(String),
    LeftOut(String),
    /// It belongs to other sites.
    Unmentioned,
}

/// What can be tried of a site, and what cannot.
#[derive(Clone, Debug, Default)]
pub struct Dials {
    pub all: Vec<Dial>,
    /// Settings that could help, and may lose data, hide what happened or show old pages, or count for the whole machine: with the present value.
    pub proposals: Vec<(&'static Knob, String)>,
    /// Why others are left out, by name.
    left_out: Vec<(&'static str, String)>,
    /// The pool whose settings are meant.
    pub pool: String,
}

/// What may be tried.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// The limit's slug.
    pub cause: &'a str,
    /// Risks that are allowed beside none.
    pub allowed: &'a [Risk],
    /// Only these, whatever the limit is; empty: those that the limit and the audit ask for.
    pub only: &'a [String],
    pub pool: Option<&'a str>,
    pub steps: Steps,
}

/// How far values lie from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// They cover the whole range.
    Wide,
    /// Each is within a quarter of the one before; only settings that count after a reload of the web server.
    Small,
}

impl Dials {
    /// Chooses them. The error names a setting or a pool that does not exist.
    pub fn choose(read: &Read, files: &Files, choice: &Choice<'_>) -> Result<Dials, String> {
        let findings = audit::audit(&read.site);
        let findings: Vec<&str> = findings.iter().map(|finding| finding.check.slug).collect();
        let wanted: Vec<&'static Knob> = if choice.only.is_empty() {
            knob::eligible(choice.cause, &findings, read.site.is_brisk)
        } else {
            let find = |name: &String| {
                knob::find(name).ok_or_else(|| {
                    format!("there is no setting \"{name}\" among those that can be tried; docs/tuning.md says which there are")
                })
            };
            choice.only.iter().map(find).collect::<Result<_, _>>()?
        };
        let mut dials = Dials { pool: pool_of(read, choice.pool)?, ..Dials::default() };
        for knob in wanted {
            dials.add(knob, read, files, choice, TUNE_DIALS_MAX);
        }
        Ok(dials)
    }

    /// Adds those that another limit asks for and that nothing was said of yet. The search tries [`TUNE_DIALS_MAX`] of all.
    pub fn add_for(&mut self, cause: &str, read: &Read, files: &Files, choice: &Choice<'_>) {
        let choice = &Choice { cause, ..*choice };
        for knob in knob::eligible(cause, &[], read.site.is_brisk) {
            let is_tried = self.all.iter().any(|dial| dial.knob.name == knob.name);
            if !is_tried && !self.proposals.iter().any(|(proposed, _)| proposed.name == knob.name) {
                self.add(knob, read, files, choice, 2 * TUNE_DIALS_MAX);
            }
        }
    }

    fn add(&mut self, knob: &'static Knob, read: &Read, files: &Files, choice: &Choice<'_>, most: usize) {
        // An earlier look may have left it out.
        self.left_out.retain(|(name, _)| *name != knob.name);
        match self.fate(knob, read, files, choice) {
            Fate::Tried(_) if self.all.len() >= most => {
                self.left_out.push((knob.name, format!("{most} others come first")));
            }
            Fate::Tried(dial) => self.all.push(dial),
            Fate::Proposed(now) => self.proposals.push((knob, now)),
            Fate::LeftOut(why) => self.left_out.push((knob.name, why)),
            Fate::Unmentioned => {}
        }
    }

    fn fate(&self, knob: &'static Knob, read: &Read, files: &Files, choice: &Choice<'_>) -> Fate {
        if knob.language == Language::Sysctl && choice.steps == Steps::Wide {
            // It counts for all that runs on the machine, which a copy is not.
            let now = read.site.machine.sysctl(knob.name);
            return Fate::Proposed(now.map_or_else(|| knob.default.to_owned(), |now| now.to_string()));
        }
        let Some((group, language)) = place_of(knob, read) else {
            // Rows of other servers' languages are no news, unless one is asked for.
            return if choice.only.is_empty() {
                Fate::Unmentioned
            } else {
                Fate::LeftOut("no file of its kind belongs to the copy".to_owned())
            };
        };
        if choice.steps == Steps::Small
            && (group != Group::Server || knob.needs != Needs::Reload || !knob.is_for_brisk)
        {
            return Fate::LeftOut("it cannot be changed while the site runs".to_owned());
        }
        let wanted = Wanted { language, name: knob.name, pool: &self.pool };
        let texts = files.group(group);
        if let Ok(Some(value)) = edit::read_in_location(texts, &wanted)
            && value != knob.default
        {
            return Fate::LeftOut("it stands in locations alone, which are left as they are".to_owned());
        }
        if let Some(why) = self.unfit(knob, read, files, choice) {
            return why;
        }
        let now = edit::read(texts, &wanted).map_err(|refused| refused.to_string());
        let levels = now.and_then(|now| {
            let (now, machine) = (now.as_deref(), &read.site.machine);
            let levels = match choice.steps {
                Steps::Wide => knob.levels(now, machine),
                Steps::Small => knob.ladder(now, machine),
            };
            levels.map_err(|unreadable| unreadable.to_string())
        });
        let levels = match levels {
            Ok(levels) => levels,
            Err(why) => return Fate::LeftOut(why),
        };
        let original = &levels.texts[levels.original];
        if choice.only.is_empty() && knob.is_settled(levels.original) {
            return Fate::Unmentioned;
        }
        if !knob.companions.is_empty() && original != knob.default {
            return Fate::LeftOut("it is on already".to_owned());
        }
        if knob.risk != Risk::Safe && !choice.allowed.contains(&knob.risk) {
            // Where the application alone can mend it, there is no other advice.
            let is_advice = !knob.causes.contains(&choice.cause) || knob::why_none(choice.cause).is_none();
            return if is_advice { Fate::Proposed(original.clone()) } else { Fate::Unmentioned };
        }
        // Every value must have a place; which one it is does not matter for that.
        let other = levels.texts.iter().find(|text| !text.is_empty() && *text != original);
        let Some(other) = other else { return Fate::Unmentioned };
        match edit::set(texts, &wanted, other) {
            Ok(_) => Fate::Tried(Dial { knob, language, group, levels }),
            Err(refused) => Fate::LeftOut(refused.to_string()),
        }
    }

    /// Of a setting that changes nothing here, or that is unsafe beside what stands here.
    fn unfit(&self, knob: &Knob, read: &Read, files: &Files, choice: &Choice<'_>) -> Option<Fate> {
        let stands = |name: &&str| read.site.server.as_ref().is_some_and(|site| !site.found(name).is_empty());
        if !knob.needs_any.is_empty() && !knob.needs_any.iter().any(stands) {
            // Rows for other ways are no news, unless one is asked for.
            let why = || format!("the configuration has no {}", knob.needs_any.join(" and no "));
            let is_asked = !choice.only.is_empty();
            return Some(if is_asked { Fate::LeftOut(why()) } else { Fate::Unmentioned });
        }
        if let Some(name) = knob.not_with.iter().find(|name| stands(name)) {
            let why =
                format!("the configuration has {name}, with which it may give visitors pages of others");
            return Some(Fate::LeftOut(why));
        }
        let (other, value) = knob.idle_with.filter(|_| choice.only.is_empty())?;
        let is_idle = self.value_now(other, read, files).as_deref() == Some(value);
        is_idle.then(|| Fate::LeftOut(format!("it does nothing while {other} is {value}")))
    }

    /// What a setting is at present: as its file says, or as it is where no file does.
    fn value_now(&self, name: &str, read: &Read, files: &Files) -> Option<String> {
        let knob = knob::find(name)?;
        let (group, language) = place_of(knob, read)?;
        let wanted = Wanted { language, name, pool: &self.pool };
        let texts = files.group(group);
        let written = edit::read(texts, &wanted).ok()?;
        let written = written.or_else(|| edit::read_in_location(texts, &wanted).ok().flatten());
        Some(written.unwrap_or_else(|| knob.default.to_owned()))
    }

    /// Why others are left out, a line each.
    pub fn notes(&self) -> Vec<String> {
        self.left_out.iter().map(|(name, why)| format!("{name}: {why}")).collect()
    }

    /// As the search sees them.
    pub fn dimensions(&self) -> Vec<Dimension> {
        let dimension = |dial: &Dial| Dimension {
            name: dial.knob.name.to_string(),
            places: dial.levels.places.clone(),
            original: dial.levels.original,
            is_ordered: dial.levels.is_ordered,
            usual: dial.levels.usual,
        };
        self.all.iter().map(dimension).collect()
    }

    /// The site as it is.
    pub fn original(&self) -> Point {
        self.all.iter().map(|dial| dial.levels.original).collect()
    }

    /// The value of a setting at a level, as written.
    pub fn text(&self, dial: usize, level: usize) -> &str {
        &self.all[dial].levels.texts[level]
    }

    /// The files at a point of the search.
    pub fn files_at(&self, files: &Files, point: &Point) -> Result<Files, String> {
        let mut files = files.clone();
        for (dial, level) in self.all.iter().zip(point) {
            if *level == dial.levels.original {
                continue;
            }
            let text = &dial.levels.texts[*level];
            let texts = files.group_mut(dial.group);
            *texts = dial.changed(texts, text, &self.pool).map_err(|refused| refused.to_string())?;
        }
        Ok(files)
    }

    /// The point with these values; `None`: a setting or a value is not among what can be tried.
    pub fn point_of(&self, settings: &[(String, String)]) -> Option<Point> {
        let mut point = self.original();
        for (name, value) in settings {
            let index = self.all.iter().position(|dial| dial.knob.name == name)?;
            point[index] = self.all[index].levels.texts.iter().position(|text| text == value)?;
        }
        Some(point)
    }

    /// What differs between two points: `pm.max_children 5 -> 12`.
    pub fn difference(&self, a: &Point, b: &Point) -> String {
        let all = self.all.iter().enumerate().filter(|(index, _)| a[*index] != b[*index]);
        let all = all.map(|(index, dial)| {
            format!("{} {} -> {}", dial.knob.name, self.text(index, a[index]), self.text(index, b[index]))
        });
        let all: Vec<String> = all.collect();
        if all.is_empty() { "the same twice, for the noise".to_owned() } else { all.join(", ") }
    }

    /// Proposals as steps of the report.
    pub fn proposed(&self) -> impl Iterator<Item = Value> {
        self.proposals.iter().map(|(knob, now)| {
            json!({
                "knob": knob.name, "from": now, "to": Value::Null, "verdict": "proposal", "ratio": Value::Null,
                "low": Value::Null, "high": Value::Null, "risk": knob.risk.name(), "source": knob.source,
            })
        })
    }
}

/// In which files a setting stands, and in which language; `None`: in none that belong to the copy.
fn place_of(knob: &Knob, read: &Read) -> Option<(Group, Language)> {
    let is_there = |range: &std::ops::Range<usize>| !range.is_empty();
    match knob.language {
        Language::Nginx { .. } | Language::NginxParameter { .. } => {
            is_there(&read.server).then_some((Group::Server, knob.language))
        }
        Language::Pool if read.has_own_pools() && !is_there(&read.pools) => {
            Some((Group::Server, Language::Nginx { block: POOL_BLOCK }))
        }
        Language::Pool => is_there(&read.pools).then_some((Group::Pools, knob.language)),
        Language::Php => is_there(&read.php).then_some((Group::Php, knob.language)),
        Language::Apache => is_there(&read.apache).then_some((Group::Apache, knob.language)),
        Language::Database => is_there(&read.database).then_some((Group::Database, knob.language)),
        Language::Sysctl => None,
    }
}

/// The block of a pool in Brisk's configuration.
const POOL_BLOCK: &str = "php_pool";

/// A setting of the database's option files, as its server reads them.
pub fn option_of(read: &Read, name: &str) -> Option<String> {
    Some(read.site.database.get_in(edit::DATABASE_SECTIONS, name)?.value.clone())
}

fn pool_of(read: &Read, named: Option<&str>) -> Result<String, String> {
    let mut pools: Vec<&str> =
        read.site.pools.sections().into_iter().filter(|name| !matches!(*name, "" | "global")).collect();
    if pools.is_empty()
        && let Some(server) = &read.site.server
    {
        pools = server.found(POOL_BLOCK).iter().filter_map(|args| args.first().map(String::as_str)).collect();
    }
    match (named, &pools[..]) {
        (Some(name), pools) if pools.contains(&name) => Ok(name.to_owned()),
        (Some(name), pools) => Err(format!("there is no pool \"{name}\"; there are: {}", pools.join(", "))),
        (None, []) => Ok(String::new()),
        (None, [one]) => Ok((*one).to_owned()),
        (None, many) => Err(format!(
            "there are several pools ({}): --pool says whose settings are tried",
            many.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::files;
    use brisk_testkit::TempDir;

    /// Why `fastcgi_cache` and `proxy_cache` are left out of a site; they are tried where they are not.
    fn left_out(conf: &str, allowed: &[Risk]) -> Vec<String> {
        let dir = TempDir::new();
        let path = |name: &str, text: &str| dir.write(name, text).display().to_string();
        let wanted = files::Wanted {
            server: Some(path("site.conf", conf)),
            php_ini: vec![path("php.ini", "")],
            fpm: vec![path("pool.conf", "[www]\n")],
            mysql: vec![path("my.cnf", "[mysqld]\n")],
        };
        let read = files::read(&wanted).unwrap();
        let choice = Choice { cause: "database-cpu", allowed, only: &[], pool: None, steps: Steps::Wide };
        let dials = Dials::choose(&read, &Files::of(&read).unwrap(), &choice).unwrap();
        let is_cache = |name: &&str| matches!(*name, "fastcgi_cache" | "proxy_cache");
        let tried = dials.all.iter().map(|dial| dial.knob.name).filter(is_cache).count();
        let proposed = dials.proposals.iter().map(|(knob, _)| knob.name).filter(is_cache).count();
        assert_eq!(if allowed.is_empty() { tried } else { proposed }, 0);
        let notes: Vec<String> =
            dials.notes().into_iter().filter(|note| is_cache(&note.split(':').next().unwrap())).collect();
        assert_eq!(tried + proposed + notes.len(), 2, "{notes:?}");
        notes
    }

    /// A cache is neither tried nor proposed where a line of the site's would have it keep what is personal.
    #[test]
    fn caches_of_pages_are_left_out_where_the_site_would_override_what_makes_them_safe() {
        let site = |line: &str| {
            format!(
                "events {{ }} http {{ server {{ listen 80; location /a {{ proxy_pass http://127.0.0.1:1; }} \
                 location ~ \\.php$ {{ fastcgi_pass unix:/s; {line} }} }} }}"
            )
        };
        for allowed in [&[][..], &[Risk::Correctness][..]] {
            assert_eq!(left_out(&site("fastcgi_cache_lock on;"), allowed), [""; 0]);
            for line in [
                "fastcgi_ignore_headers Set-Cookie;",
                "fastcgi_no_cache $arg_a;",
                "fastcgi_cache_bypass $arg_a;",
                "fastcgi_cache_key $uri;",
                "fastcgi_cache_valid any 1h;",
                "fastcgi_cache_methods POST;",
            ] {
                let name = line.split(' ').next().unwrap();
                let notes = left_out(&site(line), allowed);
                assert_eq!(notes.len(), 1, "{notes:?}");
                assert!(notes[0].starts_with(&format!("fastcgi_cache: the configuration has {name}, ")));
                let notes = left_out(&site(&line.replace("fastcgi", "proxy")), allowed);
                assert!(notes.len() == 1 && notes[0].starts_with("proxy_cache: "), "{notes:?}");
            }
            for line in ["auth_request /a;", "auth_request off;"] {
                assert_eq!(left_out(&site(line), allowed).len(), 2, "{line}");
            }
            let clients = site("").replace("listen 80;", "listen 80; ssl_verify_client optional;");
            assert_eq!(left_out(&clients, allowed).len(), 2);
        }
    }
}
