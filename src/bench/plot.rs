//! A picture of a result as SVG: a bar for each number, on a logarithmic scale, with the least and the most of its rounds.

use std::fmt::Write as _;

use super::spread::Spread;

/// Pixels.
const LEFT: f64 = 250.0;
const WIDTH: f64 = 520.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 70.0;
const ROW: f64 = 28.0;
const BOTTOM: f64 = 40.0;
const SANS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, 'DejaVu Sans', sans-serif";

/// A number that is shown.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// What it is of.
    pub label: String,
    /// Above 0; what is not is shown as the least there is.
    pub number: Spread,
    /// Whether it is ours.
    pub ours: bool,
}

/// The picture.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// What was measured.
    pub title: String,
    /// What the numbers are, with their unit.
    pub axis: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// Powers of ten, and where a number lies between them.
struct Scale {
    first: i32,
    last: i32,
}

impl Scale {
    fn of(bars: &[Bar]) -> Self {
        let numbers = || bars.iter().flat_map(|bar| [bar.number.least, bar.number.most]);
        let positive = || numbers().filter(|number| *number > 0.0);
        let least = positive().fold(f64::INFINITY, f64::min);
        let most = positive().fold(0.0, f64::max);
        if most == 0.0 {
            return Self { first: 0, last: 1 };
        }
        let power = |number: f64| (-9..9).rev().find(|power| 10_f64.powi(*power) <= number);
        let first = power(least).unwrap_or(-9);
        let end = power(most).unwrap_or(first) + 1;
        Self { first, last: end }
    }

    /// In pixels from the left end of the picture.
    fn x(&self, number: f64) -> f64 {
        let lowest = 10_f64.powi(self.first);
        let span = f64::from(self.last - self.first);
        LEFT + WIDTH * ((number.max(lowest) / lowest).log10() / span)
    }
}

impl Plot {
    /// The picture; it has a background of its own, so it can be read on a dark page too.
    #[must_use]
    pub(crate) fn svg(&self) -> String {
        let rows = u32::try_from(self.bars.len()).unwrap_or(u32::MAX);
        let (width, bottom) = (LEFT + WIDTH + RIGHT, TOP + ROW * f64::from(rows));
        let height = bottom + BOTTOM;
        let (title, axis) = (escaped(&self.title), escaped(&self.axis));
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" aria-label=\"{title}\">\n<style>text {{ font: 13px {SANS}; fill: #1e293b; }} \
             .bold {{ font-weight: 600; font-size: 15px; }} .muted {{ fill: #475569; }} .end {{ text-anchor: end; }} \
             .middle {{ text-anchor: middle; }}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"12\" fill=\"#ffffff\" stroke=\"#cbd5e1\"/>\n\
             <text class=\"bold\" x=\"20\" y=\"28\">{title}</text>\n<text class=\"muted\" x=\"20\" y=\"48\">{axis}</text>\n"
        );
        let scale = Scale::of(&self.bars);
        grid(&mut out, &scale, bottom);
        for (place, bar) in (0..).map(f64::from).zip(&self.bars) {
            bar.draw(&mut out, &scale, TOP + ROW * place);
        }
        out.push_str("</svg>\n");
        out
    }
}

fn grid(out: &mut String, scale: &Scale, bottom: f64) {
    for power in scale.first..=scale.last {
        let (number, middle) = (10_f64.powi(power), bottom + 18.0);
        let x = scale.x(number);
        let _infallible = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#e2e8f0\"/>\
             <text class=\"muted middle\" x=\"{x:.1}\" y=\"{middle}\">{number}</text>"
        );
    }
}

impl Bar {
    fn draw(&self, out: &mut String, scale: &Scale, top: f64) {
        let Spread { median, least, most } = self.number;
        let (x, from, to) = (scale.x(median), scale.x(least), scale.x(most));
        let (label, fill) = (escaped(&self.label), if self.ours { "#2563eb" } else { "#94a3b8" });
        let (text, middle, bar, height) = (top + 18.0, top + 14.0, top + 5.0, ROW - 10.0);
        let (before, after, length) = (LEFT - 10.0, to.max(x) + 8.0, x - LEFT);
        let _infallible = writeln!(
            out,
            "<text class=\"end\" x=\"{before}\" y=\"{text}\">{label}</text>\
             <rect x=\"{LEFT}\" y=\"{bar}\" width=\"{length:.1}\" height=\"{height}\" rx=\"2\" fill=\"{fill}\"/>\
             <line x1=\"{from:.1}\" y1=\"{middle}\" x2=\"{to:.1}\" y2=\"{middle}\" stroke=\"#1e293b\"/>\
             <text x=\"{after:.1}\" y=\"{text}\">{}</text>",
            shown(median)
        );
    }
}

/// With three digits that count.
fn shown(number: f64) -> String {
    match number {
        number if number >= 100.0 => format!("{number:.0}"),
        number if number >= 10.0 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(median: f64) -> Bar {
        Bar {
            label: "a < b".to_owned(),
            number: Spread { median, least: median, most: median },
            ours: true,
        }
    }

    #[test]
    fn a_bar_is_as_long_as_its_power_of_ten() {
        let scale = Scale::of(&[bar(0.02), bar(30.0)]);
        assert_eq!((scale.first, scale.last), (-2, 2));
        let near = |x: f64, expected: f64| assert!((x - expected).abs() < 0.001, "{x} {expected}");
        near(scale.x(0.01), LEFT);
        near(scale.x(1.0), LEFT + WIDTH / 2.0);
        near(scale.x(100.0), LEFT + WIDTH);
        near(scale.x(0.0), LEFT);
    }

    #[test]
    fn a_picture_is_made_of_anything_and_names_are_escaped() {
        for numbers in [vec![], vec![0.0], vec![0.5, 13.0]] {
            let bars = numbers.into_iter().map(bar).collect();
            let plot = Plot { title: "t".to_owned(), axis: "s".to_owned(), bars };
            let svg = plot.svg();
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
            assert!(
                !svg.contains("NaN") && !svg.contains("inf") && !svg.contains("a < b"),
                "{svg}"
            );
        }
    }
}
