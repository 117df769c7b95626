//! Rows whose setter only parses one value into one field.

use crate::vars::Template;
use std::sync::Arc;

/// `simple!(Conf, kind, "name", field, CONTEXTS, default, "doc")` — kinds: flag, size, offset, number, msec, seconds.
#[macro_export]
macro_rules! simple {
    ($conf:ty, flag, $name:literal, $field:ident, $ctx:expr, $default:literal, $doc:literal) => {
        $crate::simple!(@row $conf, $name, $field, $ctx, $default, $doc,
            |d: &brisk_conf::Directive| brisk_conf::value::flag($name, d.arg(0)))
    };
    ($conf:ty, size, $name:literal, $field:ident, $ctx:expr, $default:literal, $doc:literal) => {
        $crate::simple!(@row $conf, $name, $field, $ctx, $default, $doc,
            |d: &brisk_conf::Directive| brisk_conf::value::size(d.arg(0)))
    };
    ($conf:ty, offset, $name:literal, $field:ident, $ctx:expr, $default:literal, $doc:literal) => {
        $crate::simple!(@row $conf, $name, $field, $ctx, $default, $doc,
            |d: &brisk_conf::Directive| brisk_conf::value::offset(d.arg(0)))
    };
    ($conf:ty, number, $name:literal, $field:ident, $ctx:expr, $default:literal, $doc:literal) => {
        $crate::simple!(@row $conf, $name, $field, $ctx, $default, $doc,
            |d: &brisk_conf::Directive| brisk_conf::value::number(d.arg(0)))
    };
    ($conf:ty, msec, $name:literal, $field:ident, $ctx:expr, $default:literal, $doc:literal) => {
        $crate::simple!(@row $conf, $name, $field, $ctx, $default, $doc,
            |d: &brisk_conf::Directive| brisk_conf::value::msec(d.arg(0)))
    };
    ($conf:ty, seconds, $name:literal, $field:ident, $ctx:expr, $default:literal, $doc:literal) => {
        $crate::simple!(@row $conf, $name, $field, $ctx, $default, $doc,
            |d: &brisk_conf::Directive| brisk_conf::value::seconds(d.arg(0)))
    };
    (@row $conf:ty, $name:literal, $field:ident, $ctx:expr, $default:literal, $doc:literal, $parse:expr) => {
        $crate::module::Row {
            name: $name,
            contexts: $ctx,
            arity: brisk_conf::Arity::ONE,
            default: brisk_conf::Default::Value($default),
            inherit: brisk_conf::Inherit::Replace,
            many: false,
            doc: $doc,
            set: $crate::module::Set::Simple(|cx, d| {
                cx.conf::<$conf>().$field = $parse(d)?;
                Ok(())
            }),
        }
    };
}

/// A row with all its parts: `row!("name", CONTEXTS, ARITY, default, Inherit, many, "doc", set)`.
#[macro_export]
macro_rules! row {
    ($name:literal, $ctx:expr, $arity:expr, $default:expr, $inherit:ident, $many:literal, $doc:expr, $set:expr) => {
        $crate::module::Row {
            name: $name,
            contexts: $ctx,
            arity: $arity,
            default: $default,
            inherit: brisk_conf::Inherit::$inherit,
            many: $many,
            doc: $doc,
            set: $set,
        }
    };
}

/// Several directives of a block are one list of values.
pub fn extend(list: &mut Arc<[Template]>, is_first: bool, more: Vec<Template>) {
    *list = if is_first { more.into() } else { list.iter().cloned().chain(more).collect() };
}

/// A directive that is accepted for compatibility and does nothing here; `many`: it may stand several times.
#[macro_export]
macro_rules! ignored {
    ($name:literal, $ctx:expr, $arity:expr, $doc:literal, $why:literal) => {
        $crate::ignored!($name, $ctx, $arity, false, $doc, $why)
    };
    (many $name:literal, $ctx:expr, $arity:expr, $doc:literal, $why:literal) => {
        $crate::ignored!($name, $ctx, $arity, true, $doc, $why)
    };
    ($name:literal, $ctx:expr, $arity:expr, $many:literal, $doc:literal, $why:literal) => {
        $crate::row!(
            $name,
            $ctx,
            $arity,
            brisk_conf::Default::Nothing,
            Definition,
            $many,
            $doc,
            $crate::module::Set::Ignored($why)
        )
    };
}
