//! What a directory's rules about addresses and users come to, in the order in which Apache asks them.

use crate::access::{Satisfy, Verdict};
use crate::overrides::Settings;
use crate::{Facts, Pattern, Stop, Variable};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes on.
    Granted,
    /// It is answered with 403.
    Forbidden,
    /// The user has to log in first; then the rules are asked once more, by [`after_login`].
    LogIn,
}

/// What is decided before anything is known of a user.
///
/// # Errors
/// A fact is to come, or a rule cannot be judged: 500.
pub fn before_login<P: Pattern>(settings: &Settings<P>, facts: &dyn Facts) -> Result<Decision, Stop> {
    let method = facts.variable(&Variable::RequestMethod)?.into_owned();
    let is_any = settings.compat.satisfies(&method) == Satisfy::Any;
    let lets_in = settings.compat.allows(facts)?;
    match (is_any, lets_in) {
        // Also where no line names an address: `Satisfy Any` with `Require valid-user` alone is open, as in Apache.
        (true, true) => return Ok(Decision::Granted),
        (false, false) => return Ok(Decision::Forbidden),
        _ => {}
    }
    let Some(requirements) = &settings.requirements else {
        // The addresses were refused, and there is no user that `Satisfy Any` could ask for.
        return Ok(if lets_in { Decision::Granted } else { Decision::Forbidden });
    };
    Ok(match requirements.judge(facts)? {
        Verdict::Granted => Decision::Granted,
        Verdict::NeedsUser => Decision::LogIn,
        Verdict::Denied | Verdict::Neutral => Decision::Forbidden,
    })
}

/// What is decided once the user is known: false is answered with 401.
///
/// # Errors
/// As [`before_login`].
pub fn after_login<P: Pattern>(settings: &Settings<P>, facts: &dyn Facts) -> Result<bool, Stop> {
    let Some(requirements) = &settings.requirements else { return Ok(true) };
    Ok(requirements.judge(facts)? == Verdict::Granted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;
    use crate::conditional::{self, Defines};
    use crate::directives::{Places, Standing};
    use crate::limits::OVERRIDE_LINE_BYTES_MAX;
    use crate::options::Options;
    use crate::overrides::Compiler;
    use crate::syntax;
    use crate::testing::{Request, Rust};

    struct Nothing;

    impl conditional::Server for Nothing {
        fn has_module(&self, _: &str) -> bool {
            true
        }

        fn has_file(&self, _: &[u8]) -> bool {
            false
        }

        fn env(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
    }

    fn decided(text: &str, user: &str) -> (Decision, bool) {
        let nodes = syntax::read(text.as_bytes(), OVERRIDE_LINE_BYTES_MAX).unwrap();
        let nodes = conditional::resolve(nodes, &Nothing, &Rust, &mut Defines::new()).unwrap();
        let standing = Standing::Override { classes: Places::ALL, list: &[] };
        let compiler =
            Compiler { patterns: &Rust, standing, options: Options::ALL, origins: &Origin::unknown };
        let settings = compiler.compile(&nodes).unwrap();
        let mut request = Request::default();
        request.variables.push((Variable::RequestMethod, "GET".into()));
        let before = before_login(&settings, &request).unwrap();
        request.variables.push((Variable::RemoteUser, user.into()));
        (before, after_login(&settings, &request).unwrap())
    }

    #[test]
    fn addresses_and_users() {
        use Decision::{Forbidden, Granted, LogIn};
        // The client is 192.0.2.77.
        for (text, wanted) in [
            ("", Granted),
            ("Require all denied", Forbidden),
            ("Require ip 192.0.2", Granted),
            ("Require ip 198.51.100", Forbidden),
            ("Require valid-user", LogIn),
            ("Require valid-user\nRequire ip 192.0.2", Granted),
            ("<RequireAll>\nRequire valid-user\nRequire ip 198.51.100\n</RequireAll>", Forbidden),
            ("Deny from all", Forbidden),
            ("Deny from all\nSatisfy Any", Forbidden),
            ("Deny from all\nRequire valid-user", Forbidden),
            ("Deny from all\nRequire valid-user\nSatisfy Any", LogIn),
            ("Deny from all\nAllow from 192.0.2\nRequire valid-user\nSatisfy Any", Granted),
            ("Order Deny,Allow\nDeny from all\nRequire all granted", Forbidden),
            ("Order Allow,Deny\nAllow from all\nRequire all denied", Forbidden),
            ("Order Allow,Deny", Forbidden),
            ("Satisfy Any\nRequire all denied", Granted),
        ] {
            assert_eq!(decided(text, "").0, wanted, "{text}");
        }
        assert!(decided("Require user a b", "b").1);
        assert!(!decided("Require user a b", "c").1);
    }
}
