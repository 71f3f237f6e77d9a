//! Releases that the catalog suggests, and payments that keep a row open, from tables that refer to the row and their neighbours.

use super::{
    Ask, Point, Proposer, file,
    found::{Column, Link, Sample, Table},
    words,
};
use crate::{effect::description::ReleaseKeys, text::sql::identifier};

/// A path from the row to a table with amounts: the row itself, its lines, or rows that are reserved for its lines.
struct Path<'a> {
    source: &'a Table,
    alias: &'static str,
    from: Option<String>,
    conditions: Vec<String>,
    /// The condition that a row of the source belongs to the row, if the source is not joined.
    own: Vec<String>,
    /// The tables between.
    between: Option<String>,
    /// Whether each step is a foreign key.
    is_declared: bool,
    /// The change of the source's rows without its condition, and the reason.
    change: Option<(String, &'static str)>,
}

impl Proposer<'_> {
    /// The releases, and the tables that refer to the row and are not changed.
    pub(super) fn releases(&self) -> (Vec<Point>, Vec<String>) {
        let given = &self.answers.release;
        let table = |keys: &ReleaseKeys| keys.table.clone().or_else(|| keys.delete.clone());
        let mut seen: Vec<String> = given.iter().filter_map(table).collect();
        // An answer without a change leaves the table unchanged.
        let changes =
            given.iter().filter(|it| it.delete.is_some() || it.add.len() + it.set.len() > 0);
        let point = |keys: &ReleaseKeys, ask: Option<Ask>| {
            let asks = ask.into_iter().collect();
            Point { key: "release", lines: file::release(keys), asks }
        };
        let mut releases: Vec<Point> = changes.map(|keys| point(keys, None)).collect();
        let mut left = Vec::new();
        if given.contains(&ReleaseKeys::default()) {
            return (releases, left);
        }
        let mut add = |ask: Ask| {
            let keys =
                ask.choices.first().and_then(|it| parse_release(it).ok()).unwrap_or_default();
            let is_new = !seen.contains(&ask.about);
            seen.push(ask.about.clone());
            releases.extend(is_new.then(|| point(&keys, Some(ask))));
        };
        for (link, child) in self.referring(self.table) {
            let line = Path::line(link, child);
            let reserved: Vec<Path> = self
                .referring(child)
                .filter(|(_, it)| is_reserved(it) && it.id != self.table.id)
                .map(|(link, it)| line.reserved(link, child, it))
                .collect();
            let paths = || [&line].into_iter().chain(&reserved);
            let asks: Vec<Ask> = paths().flat_map(|it| self.counters(it)).collect();
            let rows: Vec<Ask> = paths().filter_map(Path::rows).collect();
            if asks.is_empty() && rows.is_empty() {
                left.push(child.name.clone());
            }
            asks.into_iter().chain(rows).for_each(&mut add);
        }
        let own = Path {
            source: self.table,
            alias: "row",
            from: None,
            conditions: Vec::new(),
            own: Vec::new(),
            between: None,
            is_declared: true,
            change: None,
        };
        self.counters(&own).into_iter().for_each(&mut add);
        left.sort();
        left.dedup();
        (releases, left)
    }

    /// `unless`: a payment whose result is unknown keeps a row open.
    pub(super) fn unless(&self) -> Option<Point> {
        if let Some(unless) = &self.answers.unless {
            return (unless != "none").then(|| Point::text("unless", unless, []));
        }
        let payments =
            self.referring(self.table).filter(|(_, it)| words::has(&it.name, words::PAYMENTS));
        let on_its_way = payments.filter_map(|(link, table)| {
            let column = table.columns.iter().find(|it| it.is_state())?;
            let states = column.states(&Sample::default());
            let states = states.iter().map(|(state, _)| state.as_str());
            let states: Vec<&str> = states.filter(|it| words::has(it, words::ON_ITS_WAY)).collect();
            let short = identifier(&table.name);
            let condition = format!(
                "EXISTS (SELECT FROM {} WHERE {} AND {short}.{})",
                table.sql(),
                joined(link, &short, "row"),
                column.is_one_of(&states)
            );
            (!states.is_empty()).then_some((table, condition))
        });
        let (table, condition) = on_its_way.into_iter().next()?;
        let why = format!("a payment in {} whose result is not known keeps a row open", table.name);
        let ask = Ask::guess("unless", why, vec![condition.clone(), "none".to_owned()]);
        Some(Point::text("unless", &condition, [ask]))
    }

    /// Tables that refer to a table.
    fn referring(&self, to: &Table) -> impl Iterator<Item = (&Link, &Table)> {
        let id = to.id;
        let links = self.found.links.iter().filter(move |it| it.to == id && it.from != id);
        links.filter_map(|it| Some((it, self.found.of(it.from)?)))
    }

    /// Counters of the tables that the source of a path refers to.
    fn counters(&self, path: &Path<'_>) -> Vec<Ask> {
        let Path { source, alias, from, conditions, .. } = path;
        let links = self.found.links.iter();
        // A line is no counter of its order.
        let is_line = |id: u32| self.referring(self.table).any(|(_, it)| it.id == id);
        let links =
            links.filter(|it| it.from == source.id && it.to != self.table.id && it.to != source.id);
        let links = links.filter(|it| !is_line(it.to));
        let ask = |link: &Link| {
            let target = self.found.of(link.to)?;
            let counters = target.columns.iter().filter(|it| it.is_number());
            let counters = counters.filter_map(|it| Some((words::counter(&it.name)?, it)));
            let (kind, counter) = counters.min_by_key(|(kind, _)| *kind)?;
            let (_, counts, signs) = words::COUNTERS.get(kind)?;
            let amount = amount(source)
                .map_or_else(|| "1".to_owned(), |it| format!("{alias}.{}", identifier(&it.name)));
            let short = identifier(&target.name);
            let is_counted = target.columns.iter().find(|it| it.is_flag() && it.is(words::COUNTED));
            let is_counted = is_counted.map(|it| format!("{short}.{}", identifier(&it.name)));
            let is_target = equal(link.referred.iter().zip(&link.columns), &short, alias);
            let conditions = conditions.iter().cloned().chain([is_target]).chain(is_counted);
            let from = from.as_ref().map_or_else(String::new, |it| format!(" FROM {it}"));
            let to = format!("{}.{}", target.sql(), identifier(&counter.name));
            let rest =
                format!("{amount}{from} WHERE {}", conditions.collect::<Vec<_>>().join(" AND "));
            let choices = signs.iter().map(|sign| format!("{to} {sign} {rest}")).collect();
            let by_name = if link.is_declared && path.is_declared { "" } else { BY_NAME };
            let why = format!("{}.{} {counts}{by_name}", target.name, counter.name);
            let ask = Ask::guess("release", why, choices).about(&target.key());
            Some(Ask { is_needed: signs.len() > 1, ..ask })
        };
        links.filter_map(ask).collect()
    }
}

/// The reason of a guess without a foreign key.
const BY_NAME: &str = ", found by the names of columns, without a foreign key";

impl<'a> Path<'a> {
    /// The path to the lines of the row.
    fn line(link: &Link, child: &'a Table) -> Self {
        let all_refer = child.columns.iter().all(|it| link.columns.contains(&it.name));
        let is_mark = is_reserved(child) || (all_refer && words::has(&child.name, words::MARKS));
        let belongs = [joined(link, "item", "row")].into_iter().chain(kept(child, "item"));
        Path {
            source: child,
            alias: "item",
            from: Some(format!("{} AS item", child.sql())),
            conditions: belongs.collect(),
            own: vec![joined(link, &identifier(&child.name), "row")],
            between: None,
            is_declared: link.is_declared,
            change: if is_mark { Some(ended(child)) } else { freed(link, child) },
        }
    }

    /// The path to rows that are reserved for an item of a row of the table.
    fn reserved(&self, link: &Link, child: &Table, source: &'a Table) -> Self {
        let on = [joined(link, "held", "item")].into_iter().chain(kept(source, "held"));
        let on = on.collect::<Vec<_>>().join(" AND ");
        let own = [joined(link, &identifier(&source.name), "item")];
        Path {
            source,
            alias: "held",
            from: Some(format!("{} AS item JOIN {} AS held ON {on}", child.sql(), source.sql())),
            conditions: self.conditions.clone(),
            own: self.conditions.iter().cloned().chain(own).collect(),
            between: self.from.clone(),
            is_declared: self.is_declared && link.is_declared,
            change: Some(ended(source)),
        }
    }

    /// The change of rows that belong to the row.
    fn rows(&self) -> Option<Ask> {
        let Path { source, own, between, change, .. } = self;
        let (change, why) = change.as_ref()?;
        let from = between.as_ref().map_or_else(String::new, |it| format!(" FROM {it}"));
        let conditions = own.iter().cloned().chain(kept(source, &identifier(&source.name)));
        let conditions = conditions.collect::<Vec<_>>().join(" AND ");
        let by_name = if self.is_declared { "" } else { BY_NAME };
        let why = format!("rows of {} {why}{by_name}", source.name);
        let choices = vec![format!("{change}{from} WHERE {conditions}")];
        Some(Ask::guess("release", why, choices).about(&source.key()))
    }
}

/// The change that ends rows which belong to an ended row.
fn ended(table: &Table) -> (String, &'static str) {
    let change = match deleted_at(table) {
        Some(it) => format!("{} SET {} = {}", table.sql(), identifier(&it.name), it.now(None)),
        None => format!("DELETE {}", table.sql()),
    };
    (change, "say that the other row waits, and end with it")
}

/// The change of rows that become free, and then belong to no row.
fn freed(link: &Link, table: &Table) -> Option<(String, &'static str)> {
    let column = table.columns.iter().find(|it| it.is_state())?;
    let is_null = |name: &String| table.column(name).is_some_and(|it| !it.is_not_null);
    let states = column.states(&Sample::default());
    let (free, _) = states.iter().find(|(it, _)| words::has(it, words::FREE))?;
    let state = format!("{} = {}", identifier(&column.name), column.literal(free));
    let nulls = link.columns.iter().map(|it| format!("{} = NULL", identifier(it)));
    let set = [state].into_iter().chain(nulls).collect::<Vec<_>>().join(", ");
    let change = format!("{} SET {set}", table.sql());
    link.columns.iter().all(is_null).then_some((change, "are free again"))
}

/// Whether rows of the table reserve something for another row, and have no state of their own.
fn is_reserved(table: &Table) -> bool {
    words::has(&table.name, words::RESERVED) && !table.columns.iter().any(Column::is_state)
}

fn deleted_at(table: &Table) -> Option<&Column> {
    table.columns.iter().find(|it| it.is(words::DELETED) && it.is_time())
}

/// The condition that a row was not marked as deleted.
fn kept(table: &Table, alias: &str) -> Option<String> {
    deleted_at(table).map(|it| format!("{alias}.{} IS NULL", identifier(&it.name)))
}

/// The condition of a reference.
fn joined(link: &Link, from: &str, to: &str) -> String {
    equal(link.columns.iter().zip(&link.referred), from, to)
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

/// The column with the amount of a row.
fn amount(table: &Table) -> Option<&Column> {
    let numbers = table.columns.iter().filter(|it| it.is_number());
    let rated = numbers.filter_map(|it| Some((words::amount(&it.name)?, it)));
    rated.min_by_key(|(rank, _)| *rank).map(|(_, it)| it)
}

/// Parses `--release`; `none` is a release without a change.
///
/// # Errors
/// The text is invalid; the error is what to write.
pub fn parse_release(text: &str) -> Result<ReleaseKeys, String> {
    const FORM: &str = "write article.reserved -= line.pieces FROM purchase_line AS line WHERE line.purchase_no = row.purchase_no AND \
                        article.article_no = line.article_no; seat SET status = 'free' WHERE …; or DELETE seat_hold WHERE …";
    if text == "none" {
        return Ok(ReleaseKeys::default());
    }
    let (what, condition) =
        split_word(text, "WHERE").ok_or_else(|| format!("`{text}` has no WHERE: {FORM}"))?;
    let (what, from) = match split_word(what, "FROM") {
        Some((what, from)) => (what, Some(from.to_owned())),
        None => (what, None),
    };
    let mut keys =
        ReleaseKeys { from, condition: Some(condition.to_owned()), ..ReleaseKeys::default() };
    if let Some(table) = what.strip_prefix("DELETE ") {
        keys.delete = Some(name(table));
        return Ok(keys);
    }
    if let Some((table, assignments)) = split_word(what, "SET") {
        keys.table = Some(name(table));
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
    keys.table = Some(name(table));
    keys.add.insert(column.trim_matches('"').to_owned(), amount);
    Ok(keys)
}

/// The name of a table, without quotes if a description needs none.
fn name(sql: &str) -> String {
    let quoted = sql.split('"').skip(1).step_by(2);
    let needs_quotes = quoted.into_iter().any(|it| it.contains('.'));
    if needs_quotes { sql.trim().to_owned() } else { sql.trim().replace('"', "") }
}

/// The text before and after a word of SQL.
fn split_word<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let at = text.to_ascii_uppercase().find(&format!(" {word} "))?;
    Some((text[..at].trim(), text[at + word.len() + 2..].trim()))
}
