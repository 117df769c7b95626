//! Access rules on a request that is made up.

use super::*;
use crate::expr::Place;
use crate::syntax::{self, Node};
use crate::testing::{Request, Rust, RustPattern};
use crate::{Origin, Stop, Variable};

fn read(nodes: &[Node], methods: &Methods, reader: &mut Reader<RustPattern>) -> Result<(), String> {
    for node in nodes {
        let children = node.children.as_deref().unwrap_or_default();
        let section = match node.name.as_str() {
            "Require" => {
                reader.require(&node.args, methods.clone(), Place::Override, &Rust)?;
                continue;
            }
            "Limit" | "LimitExcept" => {
                let methods = Methods::of_section(node.is("LimitExcept"), node.words())?;
                read(children, &methods, reader)?;
                continue;
            }
            "RequireAll" => Section::All,
            "RequireNone" => Section::None,
            _ => Section::Any,
        };
        reader.begin(section);
        read(children, methods, reader)?;
        reader.end()?;
    }
    Ok(())
}

fn requirements(text: &str) -> Result<Option<Requirements<RustPattern>>, String> {
    let mut reader = Reader::default();
    read(&syntax::read(text.as_bytes(), 8192).unwrap(), &Methods::All, &mut reader)?;
    Ok(reader.finish())
}

/// GET from 192.0.2.77, which is pc.example.net.
fn request(user: &str) -> Request {
    let mut request = Request::default();
    for (variable, value) in [
        (Variable::RequestMethod, "GET"),
        (Variable::RemoteUser, user),
        (Variable::ScriptUser, "anna"),
        (Variable::ServerAddr, "192.0.2.1"),
    ] {
        request.variables.push((variable, value.into()));
    }
    request.env.push(("GOOD".into(), "1".into()));
    request
}

fn verdict(text: &str, user: &str) -> Verdict {
    requirements(text)
        .unwrap_or_else(|why| panic!("{text}: {why}"))
        .expect(text)
        .judge(&request(user))
        .expect(text)
}

#[test]
fn requirements_are_judged() {
    use Verdict::{Denied, Granted, NeedsUser, Neutral};
    for (text, user, wanted) in [
        ("Require all granted", "", Granted),
        ("Require all denied", "", Denied),
        ("Require ip 192.0.2 10.0.0.0/8", "", Granted),
        ("Require ip 10.0.0.0/8", "", Denied),
        ("Require host example.net", "", Granted),
        ("Require host ample.net", "", Denied),
        ("Require host nowhere # example.net", "", Denied),
        ("Require forward-dns home.example.net", "", Granted),
        ("Require local", "", Denied),
        ("Require env BAD GOOD", "", Granted),
        ("Require method POST", "", Denied),
        ("Require method GET", "", Granted),
        ("Require expr %{REQUEST_METHOD} == 'GET'", "", Granted),
        ("Require expr \"%{REQUEST_METHOD} == 'POST'\"", "", Denied),
        ("Require expr %{REMOTE_USER} == 'anna'", "", NeedsUser),
        ("Require expr %{REMOTE_USER} == 'anna'", "anna", Granted),
        ("Require valid-user", "", NeedsUser),
        ("Require valid-user", "anna", Granted),
        ("Require user bert", "", NeedsUser),
        ("Require user bert anna", "anna", Granted),
        ("Require user bert", "anna", Denied),
        ("Require group admins", "anna", Granted),
        ("Require group users", "anna", Denied),
        ("Require file-owner", "anna", Granted),
        ("Require file-owner", "bert", Denied),
        // Several: one is enough.
        ("Require ip 10\nRequire all granted", "", Granted),
        ("Require ip 10\nRequire valid-user", "", NeedsUser),
        ("<RequireAll>\nRequire all granted\nRequire ip 10\n</RequireAll>", "", Denied),
        ("<RequireAll>\nRequire all granted\nRequire not ip 10\n</RequireAll>", "", Granted),
        ("<RequireAll>\nRequire all granted\nRequire not ip 192.0.2.77\n</RequireAll>", "", Denied),
        ("<RequireAll>\nRequire valid-user\nRequire not ip 10\n</RequireAll>", "", NeedsUser),
        // Nothing of it grants.
        ("<RequireAll>\nRequire not ip 10\n</RequireAll>", "", Neutral),
        (
            "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 192.0.2.77\nRequire ip 10\n</RequireNone>\n</RequireAll>",
            "",
            Denied,
        ),
        (
            "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 11\nRequire ip 10\n</RequireNone>\n</RequireAll>",
            "",
            Granted,
        ),
        (
            "<RequireAny>\nRequire ip 10\n<RequireAll>\nRequire user anna\nRequire group admins\n</RequireAll>\n</RequireAny>",
            "anna",
            Granted,
        ),
        // Limited to other methods.
        ("<Limit POST PUT>\nRequire valid-user\n</Limit>", "", Granted),
        ("<Limit GET>\nRequire valid-user\n</Limit>", "", NeedsUser),
        ("<LimitExcept GET>\nRequire all denied\n</LimitExcept>", "", Granted),
        ("<LimitExcept POST>\nRequire all denied\n</LimitExcept>", "", Denied),
    ] {
        assert_eq!(verdict(text, user), wanted, "{text} for {user:?}");
    }
}

#[test]
fn rules_of_directories_join() {
    let rules = |text: &str| requirements(text).unwrap().unwrap();
    let (denied, granted) = (rules("Require all denied"), rules("Require all granted"));
    let joined = |below: &Requirements<_>, above, merging| {
        below.below(Some(above), merging).judge(&request("")).unwrap()
    };
    assert_eq!(joined(&granted, &denied, Merging::Off), Verdict::Granted);
    assert_eq!(joined(&granted, &denied, Merging::And), Verdict::Denied);
    assert_eq!(joined(&denied, &granted, Merging::Or), Verdict::Granted);
    assert_eq!(denied.below(None, Merging::And).judge(&request("")), Ok(Verdict::Denied));
}

#[test]
fn what_cannot_be_judged_grants_nothing() {
    let rules = requirements("Require expr ! ('x' =~ /FAIL/)").unwrap().unwrap();
    assert!(matches!(rules.judge(&request("")), Err(Stop::Failed(_))));
    for (text, wanted) in [
        ("Require all", "'Require all' requires an argument"),
        ("Require all maybe", "Argument for 'Require all' must be 'granted' or 'denied'"),
        ("Require nonsense", "Unknown Authz provider: nonsense"),
        ("Require ip 1.2.3.4.5", "ip address '1.2.3.4.5' appears to be invalid"),
        ("Require not ip 10", "negative Require directive has no effect in <RequireAny> directive"),
        (
            "<RequireNone>\nRequire ip 10\n</RequireNone>",
            "<RequireNone> directive has no effect in <RequireAny> directive",
        ),
        ("<RequireAll>\n</RequireAll>", "<RequireAll> directive contains no authorization directives"),
        ("Require expr (", "Cannot parse expression in require line: syntax error"),
        ("<Limit TRACE>\n</Limit>", "TRACE cannot be controlled by <Limit>"),
    ] {
        let error = requirements(text).err().unwrap_or_else(|| panic!("{text} was read"));
        assert!(error.starts_with(wanted), "{text}: {error}");
    }
}

#[test]
fn order_allow_and_deny() {
    let allows = |text: &str| -> Result<bool, String> {
        let mut compat = Compat::default();
        for node in syntax::read(text.as_bytes(), 8192).unwrap() {
            let word = node.words().next().unwrap_or_default();
            match node.name.as_str() {
                "Order" => compat.order(&word, Methods::All, Origin::default())?,
                "Satisfy" => compat.satisfy(&word, Methods::All)?,
                name => compat.line(name == "Allow", node.words(), &Methods::All, &Origin::default())?,
            }
        }
        Ok(compat.allows(&request("")).unwrap())
    };
    for (text, wanted) in [
        ("", true),
        ("Deny from all", false),
        ("Order deny,allow\nDeny from all\nAllow from 192.0.2", true),
        ("Order allow,deny", false),
        ("Order allow,deny\nAllow from all", true),
        ("Order Allow,Deny\nAllow from all\nDeny from 192.0.2.77", false),
        ("Order deny,allow\nDeny from 192.0.2.77\nAllow from 10.0.0.0/8", false),
        ("Order mutual-failure\nAllow from env=GOOD\nDeny from env=BAD", true),
        ("Order allow,deny\nAllow from env=!GOOD", false),
        ("Order allow,deny\nAllow from .example.net", true),
        ("Order allow,deny\nAllow from ample.net", false),
    ] {
        assert_eq!(allows(text), Ok(wanted), "{text}");
    }
    for text in ["Order deny", "Allow all", "Deny from 1.2.3.4/99", "Deny from a#b", "Satisfy some"] {
        allows(text).expect_err(text);
    }
    let mut compat = Compat::default();
    compat.satisfy(b"Any", Methods::Only(vec![b"POST".to_vec()])).unwrap();
    assert_eq!((compat.satisfies(b"GET"), compat.satisfies(b"POST")), (Satisfy::All, Satisfy::Any));
}
