//! What becomes of a request after the rules of a server, and after those of a directory.

use super::apply::{self, Verdict};
use super::context::Context;
use super::outcome::{Action, Effects, Meaning, Target};
use super::rule::Rules;
use super::uri;
use crate::{Facts, FileTest, Pattern, Stop, Variable};

/// The directory whose rules apply.
#[derive(Clone, Copy, Debug)]
pub struct Directory<'a> {
    /// Its folder in the file system, with a slash at its end.
    pub folder: &'a [u8],
    /// `RewriteBase`.
    pub base: Option<&'a [u8]>,
    /// `RewriteOptions AllowNoSlash`: rules apply to the folder's own path without its slash, too.
    pub allows_no_slash: bool,
    /// `RewriteOptions IgnoreContextInfo`: aliases and home folders do not tell the URI of a file.
    pub ignores_context: bool,
    /// `Options FollowSymLinks` or `SymLinksIfOwnerMatch`. Rules could go round what both forbid.
    pub follows_links: bool,
}

/// Applies the rules of a server or a virtual host to the path of a URI.
///
/// # Errors
/// A fact is to come, or there will be none: the request is answered with 500 then.
pub fn per_server<P: Pattern>(
    rules: &Rules<P>,
    target: Target,
    facts: &dyn Facts,
) -> Result<(Action, Effects), Stop> {
    let query = target.query.clone();
    let mut context = Context::new(facts, target, None);
    let verdict = apply::apply(rules, &mut context)?;
    let action = match verdict {
        Verdict::Unchanged => Action::Continue { query: context.target.query.clone() },
        Verdict::Answered(status) => Action::Status(status),
        Verdict::Changed { is_raw, status, is_passed_through, is_file_trusted } => {
            let elsewhere = elsewhere(&mut context, None, query.as_deref(), is_raw, status);
            match elsewhere {
                Some(action) => action,
                None if !context.target.path.starts_with(b"/") => Action::Status(400),
                None => {
                    let meaning =
                        if is_passed_through { Meaning::Uri } else { meaning(&context, is_file_trusted)? };
                    let Target { path, query, .. } = std::mem::take(&mut context.target);
                    Action::Path { path, query, meaning }
                }
            }
        }
    };
    Ok((action, context.effects))
}

/// Applies the rules of a directory to a file that the URI leads to.
///
/// # Errors
/// As [`per_server`].
pub fn per_directory<P: Pattern>(
    rules: &Rules<P>,
    directory: &Directory<'_>,
    target: Target,
    facts: &dyn Facts,
) -> Result<(Action, Effects), Stop> {
    let unchanged = |query| (Action::Continue { query }, Effects::default());
    let is_folder_itself = directory.folder.strip_suffix(b"/") == Some(&target.path);
    if is_folder_itself && !target.is_proxied && !directory.allows_no_slash {
        // A redirect to the path with a slash comes first.
        return Ok(unchanged(target.query));
    }
    if !directory.follows_links {
        return Ok((Action::Status(403), Effects::default()));
    }
    let (path, query) = (target.path.clone(), target.query.clone());
    let mut context = Context::new(facts, target, Some(directory.folder));
    let verdict = apply::apply(rules, &mut context)?;
    let action = match verdict {
        Verdict::Unchanged => Action::Continue { query: context.target.query.clone() },
        Verdict::Answered(status) => Action::Status(status),
        Verdict::Changed { is_raw, status, .. } => {
            let elsewhere = elsewhere(&mut context, Some(directory), query.as_deref(), is_raw, status);
            match elsewhere {
                Some(action) => action,
                None if !context.target.path.starts_with(b"/") => Action::Status(400),
                // The same file again would begin the same pass for ever.
                None if context.target.path == path => {
                    Action::Continue { query: context.target.query.clone() }
                }
                None => {
                    let uri = uri_of(&context, directory)?;
                    Action::Internal { uri, query: context.target.query.clone() }
                }
            }
        }
    };
    Ok((action, context.effects))
}

/// A path that leads to a back end or another host, or that must not be used.
fn elsewhere(
    context: &mut Context<'_>,
    directory: Option<&Directory<'_>>,
    old_query: Option<&[u8]>,
    is_raw: bool,
    status: u16,
) -> Option<Action> {
    let target = &mut context.target;
    let scheme = uri::scheme(&target.path);
    let is_escaped = scheme.is_some() && !is_raw;
    if !is_escaped && target.query.as_deref().is_some_and(uri::has_controls) {
        // Apache: AH10410, AH10411 (CVE-2023-25690).
        return Some(Action::Status(403));
    }
    if let Some(url) = target.path.strip_prefix(b"proxy:") {
        let mut url = url.to_vec();
        // A directory's rules have put it there already.
        if directory.is_none() {
            url.extend_from_slice(&target.path_info);
        }
        let query = target.query.take();
        if is_raw && let Some(query) = &query {
            url.push(b'?');
            url.extend_from_slice(query);
        }
        return Some(Action::Proxy { url, query: query.filter(|_| !is_raw), is_raw });
    }
    let (scheme, _) = scheme?;
    let mut location = target.path.clone();
    if let Some((folder, base)) = directory.and_then(|directory| Some((directory.folder, directory.base?))) {
        location = with_base(&location, scheme, folder, base);
    }
    if !is_raw {
        location = uri::escaped(&location, scheme);
    }
    if let Some(query) = &target.query {
        location.push(b'?');
        // What the client has sent is encoded already.
        if is_raw || old_query == Some(query) {
            location.extend_from_slice(query);
        } else {
            location.extend(crate::escape::uri(query));
        }
    }
    let status = if matches!(status, 300..=303 | 305 | 307 | 308) { status } else { 302 };
    Some(Action::Redirect { status, location })
}

/// A URL whose path begins with the directory's folder, with `RewriteBase` in its place.
fn with_base(url: &[u8], scheme: usize, folder: &[u8], base: &[u8]) -> Vec<u8> {
    let Some(slash) = url[scheme..].iter().position(|&byte| byte == b'/') else { return url.to_vec() };
    let (start, path) = url.split_at(scheme + slash + 1);
    let strip = |path| -> &[u8] { <[u8]>::strip_prefix(path, b"/").unwrap_or(path) };
    match uri::replace_prefix(path, strip(folder), strip(base)) {
        Some(path) => [start, &path].concat(),
        None => url.to_vec(),
    }
}

/// The URI of a file that rules of a directory have named.
fn uri_of(context: &Context<'_>, directory: &Directory<'_>) -> Result<Vec<u8>, Stop> {
    let path = &context.target.path;
    let replaced = match directory.base {
        Some(base) => uri::replace_prefix(path, directory.folder, base),
        None => {
            let root = context.facts.variable(&Variable::DocumentRoot)?;
            let root = root.strip_suffix(b"/").unwrap_or(&root);
            path.strip_prefix(root).filter(|rest| rest.starts_with(b"/")).map(<[u8]>::to_vec)
        }
    };
    if let Some(uri) = replaced {
        return Ok(uri);
    }
    let root = context.facts.variable(&Variable::ContextDocumentRoot)?;
    let prefix = context.facts.variable(&Variable::ContextPrefix)?;
    let aliased = if directory.ignores_context || root.is_empty() {
        None
    } else {
        uri::replace_prefix(path, &root, &prefix)
    };
    Ok(aliased.unwrap_or_else(|| path.clone()))
}

/// Whether a path is a file's or one below `DocumentRoot`: a file's if its first folder is there, and if that folder cannot have
/// come from the request (Apache: `UnsafePrefixStat`, CVE-2024-38475).
fn meaning(context: &Context<'_>, is_file_trusted: bool) -> Result<Meaning, Stop> {
    let path = &context.target.path;
    let first = path[1..].iter().position(|&byte| byte == b'/').map_or(path.as_slice(), |at| &path[..=at]);
    if context.is_reduced || first == b"/" || !context.facts.file(first, FileTest::Exists)? {
        return Ok(Meaning::DocumentRoot);
    }
    let begins = |variable| -> Result<bool, Stop> {
        let root = context.facts.variable(&variable)?;
        Ok(!root.is_empty() && path.starts_with(&root))
    };
    let is_file = is_file_trusted
        || context.literal_prefix.starts_with(first)
        || begins(Variable::DocumentRoot)?
        || begins(Variable::ContextDocumentRoot)?;
    Ok(if is_file { Meaning::File } else { Meaning::DocumentRoot })
}
