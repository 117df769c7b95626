//! Debian's `envvars`: what `apache2ctl` puts into the environment.

/// Lines `export NAME=VALUE` of a shell's file. Variables in values are those of lines before, or empty: conditions are not carried out.
pub fn exports(text: &str) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let Some((name, value)) = line.trim().strip_prefix("export ").and_then(|rest| rest.split_once('='))
        else {
            continue;
        };
        let mut whole = String::new();
        let mut rest = value.trim().trim_matches(['"', '\'']);
        while let Some(at) = rest.find('$') {
            whole.push_str(&rest[..at]);
            let behind = rest[at + 1..].trim_start_matches('{');
            let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(behind.len());
            let known = out.iter().find(|(known, _)| known == &behind[..end]);
            whole.push_str(known.map_or("", |(_, value)| value));
            rest = behind[end..].trim_start_matches('}');
        }
        whole.push_str(rest);
        out.push((name.trim().to_string(), whole));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_debian_are_known() {
        let text = "unset HOME\nif x; then\n\tSUFFIX=\"-a\"\nfi\nexport APACHE_RUN_DIR=/var/run/apache2$SUFFIX\nexport APACHE_PID_FILE=$APACHE_RUN_DIR/apache2.pid\nexport X=\"${APACHE_RUN_DIR}/x\"\n## export Y=1\n";
        let wanted = [
            ("APACHE_RUN_DIR", "/var/run/apache2"),
            ("APACHE_PID_FILE", "/var/run/apache2/apache2.pid"),
            ("X", "/var/run/apache2/x"),
        ];
        assert_eq!(exports(text), wanted.map(|(name, value)| (name.to_string(), value.to_string())));
    }
}
