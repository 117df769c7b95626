//! Conditions of If and While controllers: comparisons of a value with a text, joined by `&&`.

use super::values::name_of;
use crate::scenario::import::written::toml_text;

/// What a condition comes to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Condition {
    /// Values that must be these.
    pub when: Vec<(String, String)>,
    /// A value that must not be this.
    pub unless: Option<(String, String)>,
    /// It never holds.
    pub never: bool,
}

/// Reads a condition; `place` makes `{{…}}` of a value. The error says what is understood.
pub fn parse(text: &str) -> Result<Condition, String> {
    let bare = unwrapped(text.trim());
    let mut condition = Condition::default();
    if bare.contains("||") {
        return Err(refusal(text));
    }
    for part in bare.split("&&").map(str::trim) {
        match part.trim_matches(|c| c == '(' || c == ')').trim() {
            "true" => continue,
            "false" => condition.never = true,
            _ => {}
        }
        if condition.never {
            continue;
        }
        let (left, is_equal, right) = sides(part).ok_or_else(|| refusal(text))?;
        let (name, value) = match (value_of(left), value_of(right)) {
            (Some(name), None) => (name, text_of(right).ok_or_else(|| refusal(text))?),
            (None, Some(name)) => (name, text_of(left).ok_or_else(|| refusal(text))?),
            (Some(name), Some(other)) => (name, format!("{{{{{other}}}}}")),
            (None, None) => return Err(refusal(text)),
        };
        if is_equal {
            condition.when.push((name, value));
        } else if condition.unless.replace((name, value)).is_some() {
            return Err(refusal(text));
        }
    }
    Ok(condition)
}

fn refusal(text: &str) -> String {
    format!("the condition \"{text}\" is not understood: \"${{name}}\" == \"text\" and !=, joined by &&, are")
}

/// The expression in `${__groovy(…)}`, `${__jexl3(…,)}` and `${__javaScript(…)}`.
fn unwrapped(text: &str) -> &str {
    for name in ["__groovy", "__jexl3", "__jexl2", "__jexl", "__javaScript"] {
        let inner =
            text.strip_prefix("${").and_then(|rest| rest.strip_prefix(name)?.trim_start().strip_prefix('('));
        if let Some(inner) = inner.and_then(|rest| rest.strip_suffix('}')?.trim_end().strip_suffix(')')) {
            return inner.trim().trim_end_matches(',').trim();
        }
    }
    text
}

/// Both sides of a comparison, and whether they are to be equal.
fn sides(part: &str) -> Option<(&str, bool, &str)> {
    let part = part.trim();
    let part = part.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(part);
    for (sign, is_equal) in [("!=", false), ("==", true)] {
        if let Some((left, right)) = part.split_once(sign) {
            // JavaScript's === and !== mean the same of texts.
            return Some((left.trim(), is_equal, right.strip_prefix('=').unwrap_or(right).trim()));
        }
    }
    let (part, is_equal) = part.strip_prefix('!').map_or((part, true), |rest| (rest, false));
    let (left, right) = part.split_once(".equals(")?;
    Some((left.trim(), is_equal, right.trim().strip_suffix(')')?.trim()))
}

/// The value that a side names: `${x}`, `"${x}"`, `vars.get("x")`.
fn value_of(side: &str) -> Option<String> {
    let bare = side.trim_matches(['"', '\'']);
    let inner = bare.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.or_else(|| {
        let rest = side.strip_prefix("vars.get(").or_else(|| side.strip_prefix("vars["))?;
        Some(rest.trim_end_matches([')', ']']).trim_matches(['"', '\'']))
    })?;
    let is_plain =
        !inner.contains(['$', '{', '"']) && !inner.starts_with("__") && !inner.starts_with("JMeterThread");
    is_plain.then(|| name_of(inner))
}

/// The text that a side is: in quotes, or a number, `true` or `false`. `null` is what was never saved, which is empty in a scenario.
fn text_of(side: &str) -> Option<String> {
    let quoted = ['"', '\''].iter().find_map(|&quote| side.strip_prefix(quote)?.strip_suffix(quote));
    match quoted {
        Some(text) => Some(text.to_owned()),
        None if side == "null" => Some(String::new()),
        None if matches!(side, "true" | "false") || side.parse::<f64>().is_ok() => Some(side.to_owned()),
        None => None,
    }
}

impl Condition {
    /// As lines of a scenario.
    pub fn lines(&self) -> Vec<String> {
        let table = |pairs: &[(String, String)]| {
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{} = {}", toml_text(name), toml_text(value)))
                .collect();
            format!("{{ {} }}", pairs.join(", "))
        };
        let mut lines = Vec::new();
        if !self.when.is_empty() {
            lines.push(format!("when = {}", table(&self.when)));
        }
        if let Some(pair) = &self.unless {
            lines.push(format!("unless = {}", table(std::slice::from_ref(pair))));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_as_plans_have_them() {
        let lines = |text: &str| parse(text).unwrap().lines().join("; ");
        assert_eq!(lines("\"${role}\" == \"admin\""), "when = { \"role\" = \"admin\" }");
        assert_eq!(
            lines("${__jexl3(\"${n}\" == \"5\" && \"${m}\" != \"x\",)}"),
            "when = { \"n\" = \"5\" }; unless = { \"m\" = \"x\" }"
        );
        assert_eq!(lines("${__groovy(vars.get(\"a\") == 'b')}"), "when = { \"a\" = \"b\" }");
        assert_eq!(lines("${__groovy(!vars.get('a').equals('b'))}"), "unless = { \"a\" = \"b\" }");
        for five in ["${n} == 5", "${n} === 5", "'5' === vars.get('n')", "${n}===\"5\""] {
            assert_eq!(lines(five), "when = { \"n\" = \"5\" }", "{five}");
        }
        assert_eq!(lines("${__groovy(vars.get('n') !== '5')}"), "unless = { \"n\" = \"5\" }");
        // A value that was never saved is empty.
        assert_eq!(lines("${__groovy(vars.get(\"token\") != null)}"), "unless = { \"token\" = \"\" }");
        assert_eq!(lines("${__groovy(null == vars.get('token'))}"), "when = { \"token\" = \"\" }");
        assert_eq!(lines("\"${a}\" == \"null\""), "when = { \"a\" = \"null\" }");
        assert_eq!((lines("true"), parse("false").unwrap().never), (String::new(), true));
        for bad in [
            "${n} > 5",
            "a || b",
            "${JMeterThread.last_sample_ok}",
            "\"a\" == \"b\"",
            "LAST",
            "${n} ==== 5",
            "${n} == m",
            "${n} == \"5",
            "\"${a}\" != \"1\" && \"${b}\" != \"2\"",
        ] {
            assert!(parse(bad).unwrap_err().contains("is not understood"), "{bad}");
        }
    }
}
