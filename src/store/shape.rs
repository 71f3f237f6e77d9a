//! What a statement of an effect takes and gives, beside what it should, and what to write instead.

use std::fmt;

use tokio_postgres::types::{Kind, Type};

/// Something about a statement that is not as agreed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    /// What it is.
    pub(super) found: String,
    /// What to write instead, to whoever wrote the statement.
    pub(super) write: Option<String>,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)?;
        self.write.as_ref().map_or(Ok(()), |write| write!(f, ": {write}"))
    }
}

impl From<String> for Misfit {
    fn from(found: String) -> Self {
        Self { found, write: None }
    }
}

fn misfit(found: String, write: String) -> Misfit {
    Misfit { found, write: Some(write) }
}

/// The first parameter that is not as agreed.
pub(super) fn wrong_parameter(found: &[Type], wanted: &[Type]) -> Option<Misfit> {
    for (number, wanted) in (1..).zip(wanted) {
        let kind = sql_name(wanted);
        match found.get(number - 1) {
            Some(found) if found == wanted => {}
            Some(found) => {
                let found = sql_name(found);
                let write = format!("write ${number}::{kind}::{found}");
                return Some(misfit(format!("${number} is {found}"), write));
            }
            None => {
                let write =
                    format!("use it, or write `${number}::{kind} IS NOT NULL` into a condition");
                return Some(misfit(format!("${number} {kind} is missing"), write));
            }
        }
    }
    let extra = found.len() > wanted.len();
    extra.then(|| format!("${} is one parameter too many", wanted.len() + 1).into())
}

/// The first column (name and type) that is not as agreed.
pub(super) fn wrong_column(found: &[(&str, &Type)], wanted: &[(&str, Type)]) -> Option<Misfit> {
    for (number, (name, kind)) in (1..).zip(wanted) {
        let kind_name = sql_name(kind);
        let agreed = format!("`{name} {kind_name}`");
        match found.get(number - 1) {
            Some((found, is)) if found == name && *is == kind => {}
            Some((found, is)) => {
                let advice = if *is == kind {
                    format!("AS {name}")
                } else {
                    format!("…::{kind_name} AS {name}")
                };
                let is = sql_name(is);
                let found = format!("column {number} is `{found} {is}`, not {agreed}");
                return Some(misfit(found, format!("write {advice}")));
            }
            None => return Some(format!("column {number}, {agreed}, is missing").into()),
        }
    }
    None
}

/// As it is written in SQL.
pub(super) fn sql_name(kind: &Type) -> String {
    if let Kind::Array(element) = kind.kind() {
        return format!("{}[]", sql_name(element));
    }
    let name = match *kind {
        Type::INT2 => "smallint",
        Type::INT4 => "integer",
        Type::INT8 => "bigint",
        Type::BOOL => "boolean",
        _ => kind.name(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_another_type_are_cast_at_the_parameter() {
        let wanted = [Type::TEXT_ARRAY, Type::TEXT];
        let said = |found: &[Type]| {
            wrong_parameter(found, &wanted).map(|misfit| misfit.to_string()).unwrap_or_default()
        };
        assert_eq!(said(&[Type::TEXT_ARRAY, Type::TEXT]), "");
        assert_eq!(
            said(&[Type::INT8_ARRAY, Type::TEXT]),
            "$1 is bigint[]: write $1::text[]::bigint[]"
        );
        assert_eq!(said(&[Type::UUID_ARRAY, Type::TEXT]), "$1 is uuid[]: write $1::text[]::uuid[]");
        assert_eq!(
            said(&[Type::TEXT_ARRAY]),
            "$2 text is missing: use it, or write `$2::text IS NOT NULL` into a condition"
        );
        assert_eq!(
            said(&[Type::TEXT_ARRAY, Type::TEXT, Type::INT8]),
            "$3 is one parameter too many"
        );
    }

    #[test]
    fn columns_are_cast_and_named() {
        let wanted = [("order_id", Type::TEXT)];
        let said = |found: &[(&str, &Type)]| {
            wrong_column(found, &wanted).map(|misfit| misfit.to_string()).unwrap_or_default()
        };
        assert_eq!(said(&[("order_id", &Type::TEXT)]), "");
        assert_eq!(
            said(&[("order_id", &Type::INT8)]),
            "column 1 is `order_id bigint`, not `order_id text`: write …::text AS order_id"
        );
        assert_eq!(
            said(&[("id", &Type::TEXT)]),
            "column 1 is `id text`, not `order_id text`: write AS order_id"
        );
        assert_eq!(said(&[]), "column 1, `order_id text`, is missing");
    }
}
