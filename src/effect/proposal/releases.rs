//! Releases that the catalog suggests: counters of the tables that they, or their lines, refer to.

use std::collections::BTreeMap;

use super::{
    Ask, Proposer, ReleasePoint, Remark,
    found::{Column, Link, Table},
    words::{self, Counter},
};
use crate::{effect::description::ReleaseKeys, text::sql::identifier};

/// The alias of lines in a condition.
const LINE: &str = "item";

impl Proposer<'_> {
    /// The releases, and the tables that refer to the row and stay as they are.
    pub(super) fn releases(&self) -> (Vec<ReleasePoint>, Vec<String>) {
        let children: Vec<(&Link, &Table)> =
            self.found.links.iter().filter_map(|it| self.child(it)).collect();
        let names = |it: &(&Link, &Table)| it.1.name.clone();
        let given = self.answers.releases.iter();
        let given = given.map(|keys| ReleasePoint { keys: keys.clone(), remark: None });
        let mut releases: Vec<ReleasePoint> = given.collect();
        if self.answers.nothing_else {
            return (releases, Vec::new());
        }
        let mut left = Vec::new();
        for child in &children {
            let of_child = self.through(Some(*child));
            if of_child.is_empty() && is_mark(child) {
                releases.extend(self.mark(child));
            } else if of_child.is_empty() {
                left.push(names(child));
            }
            releases.extend(of_child);
        }
        releases.extend(self.through(None));
        let given = self.answers.releases.len();
        let mut seen: Vec<String> = Vec::new();
        releases.retain(|it| {
            let table =
                it.keys.table.as_ref().or(it.keys.delete.as_ref()).cloned().unwrap_or_default();
            let is_new = !seen.contains(&table);
            seen.push(table);
            is_new || seen.len() <= given
        });
        left.sort();
        left.dedup();
        (releases, left)
    }

    fn child<'a>(&'a self, link: &'a Link) -> Option<(&'a Link, &'a Table)> {
        let refers = link.to == self.table.id && link.from != self.table.id;
        refers.then(|| Some((link, self.found.of(link.from)?))).flatten()
    }

    fn mark(&self, (link, child): &(&Link, &Table)) -> Option<ReleasePoint> {
        let keys = ReleaseKeys {
            delete: Some(child.key()),
            condition: Some(joined(link, &identifier(&child.name), "row")),
            ..ReleaseKeys::default()
        };
        let what = format!("rows of {} say nothing but that the other row waits", child.name);
        let ask = Ask::Sign(child.name.clone());
        let remark = Remark::guess(ask, what, vec!["DELETE".to_owned()]);
        match self.sign(&child.name) {
            Some((_, None)) => None,
            Some((_, Some(_))) => Some(ReleasePoint { keys, remark: None }),
            None => Some(ReleasePoint { keys, remark: Some(remark) }),
        }
    }

    /// The answer for a counter.
    fn sign(&self, counter: &str) -> Option<&(String, Option<char>)> {
        self.answers.signs.iter().find(|(it, _)| it == counter)
    }

    /// Counters of what a line of the row refers to, or the row itself.
    fn through(&self, child: Option<(&Link, &Table)>) -> Vec<ReleasePoint> {
        let source = child.map_or(self.table, |(_, table)| table);
        let targets = self
            .found
            .links
            .iter()
            .filter(|it| it.from == source.id && it.to != self.table.id && it.to != source.id);
        let alias = if child.is_some() { LINE } else { "row" };
        let mut releases = Vec::new();
        for link in targets {
            let Some(target) = self.found.of(link.to) else { continue };
            let Some((counter, kind)) = counter(target) else { continue };
            let amount = amount(source)
                .map_or_else(|| "1".to_owned(), |it| format!("{alias}.{}", identifier(&it.name)));
            let short = identifier(&target.name);
            let mut parts = Vec::new();
            if let Some((child_link, child)) = child {
                parts.push(joined(child_link, LINE, "row"));
                let deleted =
                    child.columns.iter().find(|it| words::is_deleted(&it.name) && it.is_time());
                parts.extend(deleted.map(|it| format!("{LINE}.{} IS NULL", identifier(&it.name))));
            }
            parts.push(target_is(link, &short, alias));
            let kept = target.columns.iter().find(|it| it.is_flag() && words::is_counted(&it.name));
            parts.extend(kept.map(|it| format!("{short}.{}", identifier(&it.name))));
            let name = format!("{}.{}", target.name, counter.name);
            let given = self.sign(&name);
            let sign = match (given, kind) {
                (Some((_, None)), _) => continue,
                (Some((_, Some(sign))), _) => *sign,
                (None, Counter::Taken) => '-',
                (None, Counter::Left | Counter::Unclear) => '+',
            };
            let value = if sign == '-' { format!("-{amount}") } else { amount };
            let from = child.map(|(_, child)| format!("{} AS {LINE}", in_sql(child)));
            let condition = parts.join(" AND ");
            let keys = ReleaseKeys {
                table: Some(target.key()),
                add: BTreeMap::from([(counter.name.clone(), value)]),
                from,
                condition: Some(condition),
                ..ReleaseKeys::default()
            };
            let remark = given.is_none().then(|| sign_remark(&name, kind, link, &keys));
            releases.push(ReleasePoint { keys, remark });
        }
        releases
    }
}

/// Whether its rows say nothing but that the other row waits.
fn is_mark((link, child): &(&Link, &Table)) -> bool {
    child.columns.iter().all(|it| link.columns.contains(&it.name)) && words::is_mark(&child.name)
}

fn sign_remark(name: &str, kind: Counter, link: &Link, keys: &ReleaseKeys) -> Remark {
    let (counts, sign) = match kind {
        Counter::Taken => ("counts what is taken, so it goes down", "-"),
        Counter::Left => ("counts what is left, so it goes up", "+"),
        Counter::Unclear => {
            ("goes up if it counts what is left, and down if it counts what is taken", "+")
        }
    };
    let by = if link.is_declared {
        ""
    } else {
        ", found by the names of columns, without a foreign key"
    };
    let is_needed = kind == Counter::Unclear;
    let mut choices = vec![sign.to_owned()];
    if is_needed {
        choices = ["+=", "-="].iter().map(|sign| assignment(sign, keys)).collect();
    }
    let what = format!("{name} {counts}{by}");
    Remark { is_needed, ..Remark::guess(Ask::Sign(name.to_owned()), what, choices) }
}

/// `+= item.pieces FROM line AS item WHERE …`, behind the name of the counter.
fn assignment(sign: &str, keys: &ReleaseKeys) -> String {
    let amount = keys.add.values().next().map_or("", |it| it.trim_start_matches('-'));
    let from = keys.from.as_ref().map_or_else(String::new, |it| format!(" FROM {it}"));
    format!("{sign} {amount}{from} WHERE {}", keys.condition.as_deref().unwrap_or_default())
}

fn in_sql(table: &Table) -> String {
    let schema = table.schema.as_ref().map_or_else(String::new, |it| identifier(it) + ".");
    schema + &identifier(&table.name)
}

/// The condition of a foreign key.
fn joined(link: &Link, from: &str, to: &str) -> String {
    equal(link.columns.iter().zip(&link.referred), from, to)
}

fn target_is(link: &Link, target: &str, source: &str) -> String {
    equal(link.referred.iter().zip(&link.columns), target, source)
}

fn equal<'a>(
    columns: impl Iterator<Item = (&'a String, &'a String)>,
    left: &str,
    right: &str,
) -> String {
    let each = columns
        .map(|(one, other)| format!("{left}.{} = {right}.{}", identifier(one), identifier(other)));
    each.collect::<Vec<_>>().join(" AND ")
}

/// The counter of a table: of what is taken, if it has one.
fn counter(table: &Table) -> Option<(&Column, Counter)> {
    let counters = table.columns.iter().filter(|it| it.is_number());
    let found: Vec<(&Column, Counter)> =
        counters.filter_map(|it| Some((it, words::counter(&it.name)?))).collect();
    let of = |kind: Counter| found.iter().find(|it| it.1 == kind).copied();
    of(Counter::Taken).or_else(|| of(Counter::Left)).or_else(|| of(Counter::Unclear))
}

/// The column that says of how many a row is.
fn amount(table: &Table) -> Option<&Column> {
    let numbers = table.columns.iter().filter(|it| it.is_number());
    numbers
        .filter_map(|it| Some((words::amount(&it.name)?, it)))
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, it)| it)
}

/// A release, as `--release` has it.
///
/// # Errors
/// It cannot be read; what to write.
pub fn parse_release(text: &str) -> Result<ReleaseKeys, String> {
    const FORM: &str = "write article.reserved -= line.pieces FROM purchase_line AS line WHERE line.purchase_no = row.purchase_no AND \
                        article.article_no = line.article_no; seat SET status = 'free' WHERE …; or DELETE seat_hold WHERE …";
    let (what, condition) =
        split_word(text, "WHERE").ok_or_else(|| format!("`{text}` has no WHERE: {FORM}"))?;
    let (what, from) = match split_word(what, "FROM") {
        Some((what, from)) => (what, Some(from.to_owned())),
        None => (what, None),
    };
    let mut keys =
        ReleaseKeys { from, condition: Some(condition.to_owned()), ..ReleaseKeys::default() };
    if let Some(table) = what.strip_prefix("DELETE ") {
        keys.delete = Some(table.trim().trim_start_matches("FROM ").to_owned());
        return Ok(keys);
    }
    if let Some((table, assignments)) = split_word(what, "SET") {
        keys.table = Some(table.to_owned());
        for assignment in assignments.split(", ") {
            let (column, value) = assignment.split_once('=').ok_or(FORM)?;
            keys.set.insert(column.trim().trim_matches('"').to_owned(), value.trim().to_owned());
        }
        return Ok(keys);
    }
    let signs = [("-=", "-"), ("+=", "")];
    let found = signs.into_iter().find_map(|(sign, minus)| Some((what.split_once(sign)?, minus)));
    let ((place, amount), minus) = found.ok_or(FORM)?;
    let (table, column) = place.trim().rsplit_once('.').ok_or(FORM)?;
    let amount = amount.trim();
    let is_plain = amount.chars().all(|c| c.is_alphanumeric() || "_.\"".contains(c));
    let amount = if minus.is_empty() || is_plain {
        format!("{minus}{amount}")
    } else {
        format!("-({amount})")
    };
    keys.table = Some(table.to_owned());
    keys.add.insert(column.trim_matches('"').to_owned(), amount);
    Ok(keys)
}

/// The text before and behind a word of SQL.
fn split_word<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let at = text.to_ascii_uppercase().find(&format!(" {word} "))?;
    Some((text[..at].trim(), text[at + word.len() + 2..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_one_line() {
        let read = |text: &str| {
            let keys = parse_release(text).unwrap();
            toml::to_string(&keys).unwrap().replace('\n', "; ")
        };
        assert_eq!(
            read(
                "article.reserved -= line.pieces from purchase_line AS line WHERE line.no = row.no"
            ),
            "table = \"article\"; from = \"purchase_line AS line\"; where = \"line.no = row.no\"; ; [add]; reserved = \"-line.pieces\"; "
        );
        assert_eq!(
            read("shop.\"Event\".\"Free\" += row.a + row.b WHERE \"Event\".id = row.event_id"),
            "table = 'shop.\"Event\"'; where = '\"Event\".id = row.event_id'; ; [add]; Free = \"row.a + row.b\"; "
        );
        assert_eq!(
            read("t.n -= a.x + 1 FROM a WHERE a.y = row.y"),
            "table = \"t\"; from = \"a\"; where = \"a.y = row.y\"; ; [add]; n = \"-(a.x + 1)\"; "
        );
        assert_eq!(
            read("DELETE seat_hold WHERE seat_hold.no = row.no"),
            "delete = \"seat_hold\"; where = \"seat_hold.no = row.no\"; "
        );
        assert_eq!(
            read("asset.copy SET status = 7, at = now() WHERE copy.id = row.copy"),
            "table = \"asset.copy\"; where = \"copy.id = row.copy\"; ; [set]; at = \"now()\"; status = \"7\"; "
        );
        for text in [
            "",
            "article",
            "article.reserved -= 1",
            "article -= 1 WHERE true",
            "article.reserved = 1 WHERE true",
        ] {
            assert!(
                parse_release(text).unwrap_err().contains("write article.reserved -= line.pieces"),
                "{text}"
            );
        }
    }
}
