//! Asking authorities about certificates (RFC 6960): the server's own, to send the answer along, and clients'.
//!
//! What an answer means is decided by `brisk_tls::ocsp`; here it is fetched, kept and acted on. A client whose
//! certificate cannot be asked about is refused; the server's own certificate is shown without an answer.

use super::answers::{Answers, Asking, Stapler};
use super::rules::Rules;
use super::source::Source;
use crate::limits::OCSP_RESPONSE_BYTES_MAX;
use brisk_net::connect::{Destination, Options, finish, start};
use brisk_net::{Stream, Tls, clock, timeout};
use brisk_resolver::{Log, Resolver};
use brisk_tls::ocsp::{self, Status};
use brisk_tls::{Certificate, Purpose};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// nginx's time-out for responders.
const TIMEOUT: Duration = Duration::from_mins(1);
/// An answer is asked for anew after this time, even if it holds for longer, and not before the other.
// nginx's numbers: an hour bounds how long a revocation goes unnoticed, five minutes what a responder without answers is asked.
const REFRESH_SECS: (i64, i64) = (300, 3600);

/// `resolver` and `resolver_timeout`: by whom responders are found.
#[derive(Clone)]
pub struct Names {
    /// `None`: responders have addresses only.
    pub resolver: Option<Arc<Resolver>>,
    /// How long a look-up may take.
    pub timeout: Duration,
}

/// Asks for answers that are missing or old; `log` gives where errors are told. Handshakes do not wait: what is not there yet is not sent.
pub fn refresh(sources: &[Arc<Source>], names: &Names, log: impl Fn() -> Log) {
    let now = clock::now().unix_secs;
    for source in sources {
        let Some(stapler) = &source.stapler else { continue };
        // One question at a time for all threads: the first that finds it due asks.
        if now < stapler.due.load(Ordering::Relaxed) || stapler.is_busy.swap(true, Ordering::AcqRel) {
            continue;
        }
        let (source, names, log) = (source.clone(), names.clone(), log());
        let question = Question(source.clone());
        brisk_net::spawn(async move {
            // Given back also where the task ends before its answer has come.
            let _question = question;
            let Some(stapler) = &source.stapler else { return };
            let fresh = fetch(&source, stapler, &names).await;
            let now = clock::now().unix_secs;
            let next = match fresh {
                Ok((response, until)) => {
                    let _ = source.staple(Some(response));
                    until.map_or(REFRESH_SECS.1, |until| (until - now).clamp(REFRESH_SECS.0, REFRESH_SECS.1))
                }
                Err(why) => {
                    log(format_args!("{why} while requesting certificate status"));
                    // Asked again soon, but not with each handshake.
                    REFRESH_SECS.0
                }
            };
            stapler.due.store(now + next, Ordering::Relaxed);
        });
    }
}

/// A question about this certificate is under way; the next one may be asked when it is dropped.
struct Question(Arc<Source>);

impl Drop for Question {
    fn drop(&mut self) {
        if let Some(stapler) = &self.0.stapler {
            stapler.is_busy.store(false, Ordering::Release);
        }
    }
}

async fn fetch(source: &Source, stapler: &Stapler, names: &Names) -> Result<(Vec<u8>, Option<i64>), String> {
    let certified = source.get()?;
    let chain: Vec<&[u8]> = certified.chain().collect();
    let leaf = *chain.first().ok_or("no certificate")?;
    // The chain that is sent first: it is what clients will verify with.
    let known = chain[1..].iter().copied().chain(stapler.issuers.iter().map(|der| &der[..]));
    let issuer = known.into_iter().find(|issuer| brisk_tls::is_issuer(leaf, issuer));
    // The request hashes the issuer's name and key (RFC 6960 §4.1.1), so without it nothing can be asked.
    let issuer = issuer.ok_or("\"ssl_stapling\" ignored, issuer certificate not found")?;
    let response = ask(stapler.responder.as_deref(), leaf, issuer, names).await?;
    let answer = ocsp::check(&response, leaf, issuer, stapler.verify, clock::now().unix_secs)?;
    // Only good answers are sent along: any other would make clients refuse the certificate on the authority of this
    // server.
    match answer.status {
        Status::Good => Ok((response, answer.until)),
        Status::Revoked => Err("certificate status \"revoked\" in the OCSP response".to_string()),
        Status::Unknown => Err("certificate status \"unknown\" in the OCSP response".to_string()),
    }
}

/// Asks about a client whose certificate is trusted otherwise; gives what is wrong with it. What goes wrong in asking is for the log.
pub async fn revocation(
    rules: &Rules,
    tls: &Tls,
    names: &Names,
    log: impl Fn(fmt::Arguments<'_>),
) -> Option<&'static str> {
    let asking = rules.ocsp.as_ref()?;
    for (cert, issuer) in pairs(rules, asking, tls) {
        match status(asking, &cert, &issuer, names).await {
            Ok(false) => {}
            Ok(true) => return Some("certificate revoked"),
            Err(why) => {
                log(format_args!("{why} while requesting certificate status"));
                return Some(UNANSWERED);
            }
        }
    }
    None
}

/// What is wrong with a certificate about which nothing is known.
pub const UNANSWERED: &str = "certificate status request failed";

/// The certificates of the client's chain that can be asked about, each with its issuer.
fn pairs(rules: &Rules, asking: &Asking, tls: &Tls) -> Vec<(Vec<u8>, Vec<u8>)> {
    let Some(trust) = &rules.trust else { return Vec::new() };
    tls.session(|session| {
        let Some((leaf, extra)) = session.peer_certificates().split_first() else { return Vec::new() };
        let now = clock::now().unix_secs;
        // The chain as it was verified, not as the client has sent it: each certificate with the issuer that has
        // signed it.
        // Verified once more, since the verdict does not keep its chain; it is asked for once per connection.
        let Ok(chain) = trust.verify(leaf, extra, Purpose::Client, rules.depth, now) else {
            return Vec::new();
        };
        let chain = chain.certificates();
        let pairs = chain.windows(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        // A root is not checked here: it ends the chain, and no pair begins with it.
        if asking.leaf { pairs.take(1).collect() } else { pairs.collect() }
    })
}

/// Whether a certificate is revoked.
async fn status(asking: &Asking, cert: &[u8], issuer: &[u8], names: &Names) -> Result<bool, String> {
    // By both: two authorities may give the same number.
    let id = brisk_tls::context_id(&[issuer, cert].concat());
    let answers = asking.cache.as_ref().map(|zone| zone.state::<Answers>());
    let now = clock::now().unix_secs;
    if let Some(known) = answers.and_then(|answers| answers.get(&id, now)) {
        return Ok(known);
    }
    let response = ask(asking.responder.as_deref(), cert, issuer, names).await?;
    // Always with its signature: this answer decides about access, and it comes over plain HTTP.
    let answer = ocsp::check(&response, cert, issuer, true, now)?;
    let revoked = match answer.status {
        Status::Good => false,
        Status::Revoked => true,
        // Unknown is no permission: nothing fails open.
        Status::Unknown => return Err("certificate status \"unknown\" in the OCSP response".to_string()),
    };
    // An answer without an end of its validity is not kept (RFC 6960 §4.2.2.1).
    if let (Some(answers), Some(until)) = (answers, answer.until) {
        // Kept until the answer's own `nextUpdate`, also a revocation.
        answers.put(id, revoked, until, now);
    }
    Ok(revoked)
}

/// One exchange with a responder; gives the response's bytes.
async fn ask(responder: Option<&str>, cert: &[u8], issuer: &[u8], names: &Names) -> Result<Vec<u8>, String> {
    // The certificate's own address only if none is configured: a client's certificate could name any host, and this server would call there.
    let named = Certificate::parse(cert).ok().and_then(|cert| cert.ocsp_url().map(str::to_string));
    let url = responder.map(str::to_string).or(named).ok_or("no OCSP responder URL in the certificate")?;
    let request = ocsp::request(cert, issuer).ok_or("malformed certificate")?;
    let (host, port, path) = parts(&url).ok_or_else(|| format!("invalid URL in OCSP responder \"{url}\""))?;
    let address = resolve(host, names).await?;
    // GET with the request in its path (RFC 6960 appendix A.1), which caches between here and there may answer.
    let path = format!("{path}/{}", brisk_tls::base64_for_url(&request));
    // HTTP/1.0: the end of the connection ends the answer, and no chunks need to be understood.
    let head = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    let exchange = async {
        let failed = |error: &dyn std::fmt::Display| format!("OCSP responder {url}: {error}");
        let io = start(Destination::Ip(SocketAddr::new(address, port)), &Options::default())
            .map_err(|error| failed(&error.error))?;
        io.writable().await;
        finish(&io).map_err(|error| failed(&error.error))?;
        let stream = Stream::from(io);
        stream.write_all(head.as_bytes()).await.map_err(|error| failed(&error))?;
        let (mut answer, mut buf) = (Vec::new(), vec![0; 8192]);
        loop {
            match stream.read(&mut buf).await.map_err(|error| failed(&error))? {
                0 => return Ok(answer),
                // Bounded before it is stored: the responder may be named by the client's certificate.
                count if answer.len() + count > OCSP_RESPONSE_BYTES_MAX => {
                    return Err("OCSP responder sent too big response".to_string());
                }
                count => answer.extend_from_slice(&buf[..count]),
            }
        }
    };
    // For all of it: a responder that trickles would hold a handshake's client for ever.
    let answer = timeout(TIMEOUT, exchange).await.map_err(|_| "OCSP responder timed out".to_string())??;
    body(&answer)
}

/// The body of a response of status 200.
fn body(answer: &[u8]) -> Result<Vec<u8>, String> {
    let invalid = || "OCSP responder sent invalid response".to_string();
    let find =
        |end: &[u8]| answer.windows(end.len()).position(|window| window == end).map(|at| at + end.len());
    let at = find(b"\r\n\r\n").or_else(|| find(b"\n\n")).ok_or_else(invalid)?;
    let head = String::from_utf8_lossy(&answer[..at]).to_ascii_lowercase();
    let status = head.split_ascii_whitespace().nth(1).unwrap_or_default();
    if !head.starts_with("http/1.") || status != "200" {
        return Err(format!("OCSP responder sent invalid status {status}"));
    }
    if !head
        .lines()
        .any(|line| line.starts_with("content-type:") && line.contains("application/ocsp-response"))
    {
        return Err("OCSP responder sent invalid \"Content-Type\" header".to_string());
    }
    Ok(answer[at..].to_vec())
}

/// Host, port and path of an `http://` URL; the path without its last slash.
fn parts(url: &str) -> Option<(&str, u16, &str)> {
    let rest = url.strip_prefix("http://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, 80),
    };
    (!host.is_empty()).then_some((host, port, path.trim_end_matches('/')))
}

async fn resolve(host: &str, names: &Names) -> Result<IpAddr, String> {
    if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse() {
        return Ok(address);
    }
    let Some(resolver) = &names.resolver else {
        return Err(format!("no resolver defined to resolve {host}"));
    };
    let log: brisk_resolver::Log = Rc::new(|_| ());
    let found =
        resolver.lookup(host, names.timeout, &log).await.map_err(|error| format!("{host} {error}"))?;
    found.addresses.first().copied().ok_or_else(|| format!("{host} could not be resolved"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        assert_eq!(parts("http://127.0.0.1:8081"), Some(("127.0.0.1", 8081, "")));
        assert_eq!(parts("http://ocsp.example.com/a/b/"), Some(("ocsp.example.com", 80, "/a/b")));
        assert_eq!(parts("http://[::1]:81/x"), Some(("[::1]", 81, "/x")));
        assert_eq!(parts("http://[::1]"), Some(("[::1]", 80, "")));
        for url in ["https://a", "http://", "http://a:port/"] {
            assert_eq!(parts(url), None, "{url}");
        }
    }

    #[test]
    fn responses_are_read_strictly() {
        let good = b"HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\n\r\nbytes";
        assert_eq!(body(good), Ok(b"bytes".to_vec()));
        for bad in [
            &b"HTTP/1.1 404 no\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            b"x",
            b"",
        ] {
            assert!(body(bad).is_err());
        }
    }
}
