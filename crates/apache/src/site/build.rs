//! Directives of Brisk, made by hand.

use crate::syntax::Node;
use brisk_conf::{Directive, Span, Token};

/// A directive with its arguments, as if it stood at `span`.
pub fn statement<A: AsRef<[u8]>>(span: Span, name: &str, args: impl IntoIterator<Item = A>) -> Directive {
    let token = |text: &[u8]| Token { value: text.into(), span, quoted: false };
    Directive {
        name: token(name.as_bytes()),
        args: args.into_iter().map(|arg| token(arg.as_ref())).collect(),
        block: None,
        span,
    }
}

/// The same with a block.
pub fn block<A: AsRef<[u8]>>(
    span: Span,
    name: &str,
    args: impl IntoIterator<Item = A>,
    inner: Vec<Directive>,
) -> Directive {
    Directive { block: Some(inner), ..statement(span, name, args) }
}

/// Lines of Apache's language in a block of Brisk's: each has one argument, the rest of its line.
pub fn of_node(node: &Node, span: &dyn Fn(u32) -> Span) -> Directive {
    let at = span(node.line);
    let args = (!node.args.is_empty()).then_some(&node.args);
    match &node.children {
        None => statement(at, &node.name, args),
        Some(children) => {
            block(at, &node.name, args, children.iter().map(|node| of_node(node, span)).collect())
        }
    }
}

/// The reverse. A line's number is the place of its span in `spans`, from 1.
pub fn node_of(directive: &Directive, spans: &mut Vec<Span>) -> Node {
    spans.push(directive.span);
    let line = spans.len() as u32;
    let args: Vec<&[u8]> = directive.args.iter().map(Token::bytes).collect();
    let children = directive.block.as_ref();
    Node {
        name: directive.name().to_string(),
        args: args.join(&b' '),
        line,
        children: children.map(|inner| inner.iter().map(|inner| node_of(inner, spans)).collect()),
    }
}
