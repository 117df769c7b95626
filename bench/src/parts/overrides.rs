//! What `.htaccess` files cost a static file: WordPress's own in the site's folder and one on each of six levels below it, beside the same
//! server that reads none, and beside Apache in both ways.

use std::fs;
use std::io;

use super::{Findings, Measured, brisk, named, ours_over_peer, peer_over_ours};
use crate::conf::{APACHE_MODULES, Conf};
use crate::lab::Lab;
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::{Prepared, Program, Spec};

/// What WordPress writes for its pages.
const WORDPRESS: &str = "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\n\
    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteBase /wp/\nRewriteRule ^index\\.php$ - [L]\n\
    RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /wp/index.php [L]\n</IfModule>\n\
    # END WordPress\n";
/// What the folders below have.
const LEVEL: &str = "Options -Indexes\n";
const LEVELS: usize = 6;
/// Apache has a process for each.
const CONNECTIONS: usize = 8;
const ON: &str = "brisk";
const OFF: &str = "brisk, off";
const APACHE_ON: &str = "apache";
const APACHE_OFF: &str = "apache, off";

/// A file of 100 bytes on the seventh level.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let mut folder = lab.docroot.join("wp");
    let mut path = "/wp".to_owned();
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(".htaccess"), WORDPRESS)?;
    for level in 1..=LEVELS {
        let name = format!("level{level}");
        folder.push(&name);
        path.extend(["/", name.as_str()]);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(".htaccess"), LEVEL)?;
    }
    fs::copy(lab.docroot.join("small.txt"), folder.join("small.txt"))?;
    path.push_str("/small.txt");
    let servers: Vec<Prepared> = [
        ours(ON, "directory_overrides on;\n"),
        ours(OFF, ""),
        apache(lab, APACHE_ON, "All"),
        apache(lab, APACHE_OFF, "None"),
    ]
    .iter()
    .map(|spec| spec.prepare(lab))
    .collect::<io::Result<_>>()?;
    let case = |server| Case {
        server,
        requests: vec![Request::path(&path)],
        connections: CONNECTIONS,
        unit_bytes: None,
        tls: Tls::Off,
        streams: None,
    };
    let samples = interleave(lab, &servers.iter().map(case).collect::<Vec<_>>())?;
    let names = servers.iter().map(|server| server.name.clone());
    let measured: Vec<Measured> =
        names.zip(samples).map(|(server, samples)| Measured { server, samples }).collect();
    let mut findings = Findings::default();
    measured.iter().for_each(|one| findings.add("file on the seventh level", one));
    if let (Some(on), Some(off)) = (named(&measured, ON), named(&measured, OFF)) {
        findings.checks.push(ours_over_peer(
            "seven .htaccess files / none (peer: ours)".into(),
            on,
            off,
            1.03,
        ));
    }
    if let (Some(ours), Some(peer)) = (named(&measured, ON), named(&measured, APACHE_ON)) {
        findings.checks.push(peer_over_ours("seven .htaccess files: apache / ours".into(), ours, peer, 6.0));
    }
    Ok(findings)
}

fn ours(name: &str, site: &str) -> Spec {
    Spec { name: name.to_owned(), ..brisk(Conf { site: site.to_owned(), ..Conf::default() }) }
}

fn apache(lab: &Lab, name: &str, allowed: &str) -> Spec {
    let root = lab.docroot.display();
    let apache = format!(
        "LoadModule rewrite_module {APACHE_MODULES}/mod_rewrite.so\nDocumentRoot {root}\nStartServers {CONNECTIONS}\n\
         MinSpareServers {CONNECTIONS}\nMaxSpareServers {CONNECTIONS}\nMaxRequestWorkers {CONNECTIONS}\n\
         <Directory {root}>\nOptions FollowSymLinks\nAllowOverride {allowed}\nRequire all granted\n</Directory>\n"
    );
    Spec::new(name, Program::Apache, Conf { apache, ..Conf::default() })
}
