#!/usr/bin/env python3
"""Draws the dashboard as SVG, without Grafana: each panel's own queries, asked of a Prometheus.

    deploy/grafana/picture.py --prometheus http://127.0.0.1:9090 --seconds 3600 > dashboard.svg

Fails where Prometheus refuses a query.
Standard library alone.
"""
import argparse
import html
import json
import math
import pathlib
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

COLUMN, ROW, GAP = 56, 30, 8
COLOURS = ["#3274d9", "#e0752d", "#56a64b", "#c4162a", "#8f3bb8", "#e0b400", "#19730e", "#1f60c4", "#7a7a7a"]


def ask(prometheus, path, **query):
    """The result of the HTTP API, https://prometheus.io/docs/prometheus/latest/querying/api/."""
    url = f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{query['query']}: {error.read().decode()}")


def shown(value, unit):
    """A number as a person reads it."""
    if math.isnan(value):
        return "–"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
    text = f"{value:,.0f}" if value == round(value) or abs(value) >= 100 else f"{value:.2g}"
    return f"{text}/s" if unit == "ops" else text


def label(series, pattern):
    text = pattern or ""
    for name, value in series["metric"].items():
        text = text.replace("{{" + name + "}}", value)
    return text


class Panel:
    def __init__(self, panel, options):
        place = panel["gridPos"]
        self.x, self.y = place["x"] * COLUMN + GAP, place["y"] * ROW + GAP
        self.width, self.height = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
        self.title, self.kind = panel["title"], panel["type"]
        self.unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
        self.targets, self.options = panel.get("targets", []), options
        self.out = []

    def text(self, x, y, text, size=11, colour="#555", anchor="start", weight="normal"):
        self.out.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(text)}</text>'
        )

    def query(self, target):
        query = target["expr"].replace("$__rate_interval", self.options.rate_interval)
        return query.replace("$instance", ".*")

    def draw(self):
        if self.kind == "row":
            self.text(self.x, self.y + 15, self.title, 15, "#222", weight="bold")
            return self.out
        self.out.append(
            f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="3" fill="#fff" stroke="#ddd"/>'
        )
        self.text(self.x + 10, self.y + 18, self.title, 12, "#222", weight="bold")
        self.stat() if self.kind == "stat" else self.series()
        return self.out

    def stat(self):
        found = ask(self.options.prometheus, "query", query=self.query(self.targets[0]), time=self.options.end)
        value = float(found[0]["value"][1]) if found else math.nan
        self.text(self.x + self.width / 2, self.y + self.height / 2 + 22, shown(value, self.unit), 30, "#19730e", "middle", "bold")

    def series(self):
        start, end = self.options.end - self.options.seconds, self.options.end
        found = []
        for target in self.targets:
            step = max(1, self.options.seconds // 300)
            result = ask(self.options.prometheus, "query_range", query=self.query(target), start=start, end=end, step=step)
            for each in result:
                points = [(at, float(value)) for at, value in each["values"] if math.isfinite(float(value))]
                found.append((label(each, target.get("legendFormat")), points))
        left, right = self.x + 64, self.x + self.width - 12
        top, bottom = self.y + 30, self.y + self.height - 44
        values = [value for _, points in found for _, value in points]
        most = max(values, default=0) or 1
        for part in (0, 0.5, 1):
            y = bottom - part * (bottom - top)
            self.out.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#eee"/>')
            self.text(left - 6, y + 4, shown(most * part, self.unit), 10, anchor="end")
        if not values:
            self.text((left + right) / 2, (top + bottom) / 2, "nothing in this time", 11, "#999", "middle")
        x, y = left, bottom + 16
        for number, (name, points) in enumerate(found):
            colour = COLOURS[number % len(COLOURS)]
            self.lines(points, colour, lambda at: left + (at - start) / (end - start) * (right - left),
                       lambda value: bottom - value / most * (bottom - top))
            width = 24 + 5.8 * len(name)
            if x + width > right + 12 and x > left:
                x, y = left, y + 13
            if y < self.y + self.height - 2:
                self.out.append(f'<rect x="{x:.1f}" y="{y - 5:.1f}" width="10" height="3" fill="{colour}"/>')
                self.text(x + 13, y, name, 10)
            x += width

    def lines(self, points, colour, across, up):
        """A gap in the data is a gap in the line."""
        runs, last = [], None
        for at, value in points:
            if last is None or at - last > 5 * max(1, self.options.seconds // 300):
                runs.append([])
            runs[-1].append(f"{across(at):.1f},{up(value):.1f}")
            last = at
        for run in runs:
            self.out.append(f'<polyline points="{" ".join(run)}" fill="none" stroke="{colour}" stroke-width="1.5"/>')


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--prometheus", default="http://127.0.0.1:9090")
    arguments.add_argument("--dashboard", default=pathlib.Path(__file__).with_name("overdue.json"), type=pathlib.Path)
    arguments.add_argument("--seconds", default=3600, type=int, help="so much of the past")
    arguments.add_argument("--rate-interval", default="1m", help="what Grafana puts for $__rate_interval")
    options = arguments.parse_args()
    options.end = time.time()
    panels = [Panel(panel, options) for panel in json.loads(options.dashboard.read_text())["panels"]]
    width = 24 * COLUMN + GAP
    height = max(panel.y + panel.height for panel in panels) + GAP
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">')
    print(f'<rect width="{width}" height="{height}" fill="#f4f5f5"/>')
    for panel in panels:
        print("\n".join(panel.draw()))
    print("</svg>")


if __name__ == "__main__":
    main()
