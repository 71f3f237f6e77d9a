//! The result of a benchmark: named lines of numbers, each measured in several rounds; as a table and as JSON.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::{Result, options::Form, say, stage::Stage};

/// The median of the rounds, with the smallest and the largest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value; the upper one of two.
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// Computes the spread; 0 without a round.
    pub fn of(rounds: &[f64]) -> Self {
        let mut rounds = rounds.to_vec();
        rounds.sort_by(f64::total_cmp);
        let at = |place: usize| rounds.get(place).copied().unwrap_or_default();
        let most = rounds.last().copied().unwrap_or_default();
        Self { median: at(rounds.len() / 2), least: at(0), most }
    }
}

/// A number with its unit at the end, e.g. `took_s`.
pub type Number = (&'static str, f64);

/// The numbers of one contestant.
#[derive(Clone, Debug, Serialize)]
struct Line {
    name: String,
    numbers: BTreeMap<&'static str, Spread>,
    /// A remark for the reader.
    note: String,
    #[serde(skip)]
    rounds: BTreeMap<&'static str, Vec<f64>>,
}

/// The ratio of two lines' medians.
#[derive(Clone, Debug, Serialize)]
struct Ratio {
    number: &'static str,
    line: String,
    to: String,
    ratio: f64,
}

/// The result of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    benchmark: &'static str,
    /// Description of the measurement, and the number of rounds.
    what: String,
    /// Cores, versions and settings that the numbers depend on.
    on: String,
    /// Programs whose CPU time is not counted.
    not_counted: Vec<&'static str>,
    lines: Vec<Line>,
    ratios: Vec<Ratio>,
    /// Errors: orders closed early, twice or not at all, wrong stock, lost messages.
    wrong: Vec<String>,
    #[serde(skip)]
    columns: Vec<&'static str>,
}

impl Report {
    /// Creates an empty report.
    pub fn new(benchmark: &'static str, what: String, stage: &Stage) -> Self {
        Self {
            benchmark,
            what,
            on: stage.server.to_string(),
            not_counted: stage.meters.not_counted(),
            lines: Vec::new(),
            ratios: Vec::new(),
            wrong: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// Sets the order of the lines, whichever is measured first.
    pub fn show(&mut self, names: impl IntoIterator<Item = impl AsRef<str>>) {
        for name in names {
            self.line(name.as_ref());
        }
    }

    /// Adds numbers of a round. They are also printed at once, for a benchmark that does not end.
    pub fn add(&mut self, name: &str, numbers: impl IntoIterator<Item = Number>) {
        let line = self.line(name);
        for (number, value) in numbers {
            say(&format!("  {name}: {number} {value:.1}"));
            self.lines[line].rounds.entry(number).or_default().push(value);
            let spread = Spread::of(&self.lines[line].rounds[number]);
            self.lines[line].numbers.insert(number, spread);
            if !self.columns.contains(&number) {
                self.columns.push(number);
            }
        }
    }

    /// Sets the remark of a line.
    pub fn note(&mut self, name: &str, note: &str) {
        let line = self.line(name);
        note.clone_into(&mut self.lines[line].note);
    }

    /// Adds errors.
    pub fn wrong(&mut self, name: &str, wrong: impl IntoIterator<Item = String>) {
        self.wrong.extend(wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
    }

    /// Compares a number of two lines, if both were measured.
    pub fn compare(&mut self, number: &'static str, line: &str, to: &str) {
        let median = |name: &str| {
            let line = self.lines.iter().find(|line| line.name == name)?;
            Some(line.numbers.get(number)?.median).filter(|median| *median > 0.0)
        };
        if let (Some(ours), Some(other)) = (median(line), median(to)) {
            let (line, to) = (line.to_owned(), to.to_owned());
            self.ratios.push(Ratio { number, line, to, ratio: ours / other });
        }
    }

    /// Whether there are no errors.
    pub fn is_right(&self) -> bool {
        self.wrong.is_empty()
    }

    /// Prints the report to standard output.
    #[allow(clippy::print_stdout, reason = "the result")]
    pub fn print(&self, form: Form) -> Result<()> {
        match form {
            Form::Text => print!("{}", self.text()?),
            Form::Json => println!("{}", serde_json::to_string_pretty(self)?),
        }
        Ok(())
    }

    fn line(&mut self, name: &str) -> usize {
        let place = self.lines.iter().position(|line| line.name == name);
        place.unwrap_or_else(|| {
            let name = name.to_owned();
            let (numbers, rounds) = (BTreeMap::new(), BTreeMap::new());
            self.lines.push(Line { name, numbers, note: String::new(), rounds });
            self.lines.len() - 1
        })
    }

    fn text(&self) -> Result<String> {
        let mut out = format!("{}\n{}\n\n", self.what, self.on);
        let mut table = vec![vec![String::new()]];
        table[0].extend(self.columns.iter().map(|&column| column.to_owned()));
        for line in &self.lines {
            let mut cells = vec![line.name.clone()];
            cells.extend(self.columns.iter().enumerate().map(|(place, column)| {
                line.numbers
                    .get(column)
                    .map_or("-".to_owned(), |number| cell(place, column, number))
            }));
            cells.push(line.note.clone());
            table.push(cells);
        }
        let width = |place: usize| {
            let cells = table.iter().filter_map(|row| row.get(place));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        for row in &table {
            write!(out, "{:1$}", row[0], width(0))?;
            for (place, cell) in row.iter().enumerate().skip(1) {
                // Notes have any length.
                let width = if place > self.columns.len() { 0 } else { width(place) };
                write!(out, "  {cell:>width$}")?;
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out.push('\n');
        for name in &self.not_counted {
            writeln!(
                out,
                "CPU of the {name}: not counted, it runs in no container that can be seen from here"
            )?;
        }
        for Ratio { number, line, to, ratio } in &self.ratios {
            writeln!(out, "{number}, {line} : {to} = {ratio:.2}")?;
        }
        for wrong in &self.wrong {
            writeln!(out, "WRONG: {wrong}")?;
        }
        if self.is_right() {
            writeln!(out, "nothing is wrong")?;
        }
        Ok(out)
    }
}

/// The first column with its spread; of the time stolen by the host, the largest value.
fn cell(place: usize, column: &str, Spread { median, least, most }: &Spread) -> String {
    if column == "stolen_percent" {
        return format!("{most:.1}");
    }
    if place == 0 && least < most {
        return format!("{} ({} to {})", shown(*median), shown(*least), shown(*most));
    }
    shown(*median)
}

/// Rounds to three significant digits.
fn shown(number: f64) -> String {
    match number {
        number if number >= 100.0 || number == 0.0 => format!("{number:.0}"),
        number if number >= 10.0 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    }
}
