#!/usr/bin/env python3
"""Counts expressions that are hard to read, for each folder, against budgets.toml: a budget may only fall.

Looks at pages (without code), at comments of Rust and SQL, and not at strings. `--lower` writes the counts that are lower than their
budget, `--show RULE FOLDER` prints each hit. CONTRIBUTING.md, section Words, is about how to write instead.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUDGETS = ROOT / "docs/prose/budgets.toml"

# What to write instead is behind each rule.
RULES = {
    "subject": (r"(?:^|[.;:] )(?:What|Whatever|Whoever|Who|Those|One)\b(?=[^?]*$)", "begin with a named thing"),
    "actor": (r"\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever|[Ww]hom(?:ever)?)\b", "name the actor: worker, broker, another session"),
    "fragment": (
        r"^(?:It|They|Those|One|The same|Of|By|As|For|With|Without|From|Until|Beside|Behind|Between|So|Also)\b",
        "write a sentence that makes sense without the name above it",
    ),
    "noun": (r"\b(?:that|those|the ones?) of\b", "repeat the noun"),
    "measure": (r"\bso (?:long|many|much|often|seldom)\b", "give the number or the unit"),
    "must": (
        r"\b(?:is|are|was|were) (?:not )?to (?:be|go|wait|come|take|cost|keep|lose|say)\b",
        "write must, will or should",
    ),
    "adverb": (
        r"\b(?:of late|for ever|at the most|all the same|by then|in vain|beside|as a rule)\b",
        "write lately, forever, at most, anyway, next to, usually",
    ),
}
# A sentence of a page may begin with `By` or `With`; a doc comment is a fragment then.
RULES_OF_PAGES = [rule for rule in RULES if rule != "fragment"]
COMMENT = {".rs": re.compile(r"(?:^|\s)//[/!]?\s?(.*)"), ".sql": re.compile(r"(?:^|\s)--\s?(.*)")}
DOC_COMMENT = re.compile(r"^\s*///\s+(.*)")
# The mark of a list is not the first word of its sentence.
MARK = re.compile(r"^\s*(?:[-*>]|\d+\.)\s+")


def folder(path):
    """The folder that has the budget of a file: `src/worker` for src, otherwise the first part."""
    parts = path.split("/")
    if path.endswith(".md"):
        return "docs"
    if parts[0] in ("src", "tests") and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0]


def lines(path):
    """Number and text of each line of a page outside code, or of each comment."""
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        is_code = False
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                is_code = not is_code
            elif not is_code and not line.startswith("#"):
                yield number, re.sub(r"`[^`]*`", "`", MARK.sub("", line)), RULES_OF_PAGES
        return
    comment = COMMENT[Path(path).suffix]
    for number, line in enumerate(text.splitlines(), 1):
        found = comment.search(line)
        if found:
            is_doc = DOC_COMMENT.match(line)
            yield number, found[1], RULES if is_doc else RULES_OF_PAGES


def files():
    """Pages, Rust and SQL; not the texts of released versions, other languages and decisions, which stay as they were."""
    names = ["*.md", "src/*.rs", "tests/*.rs", "benches/*.rs", "sql/*.sql"]
    listed = subprocess.run(["git", "ls-files", "-z", "--", *names], cwd=ROOT, check=True, capture_output=True)
    others = ("docs/adr/", "docs/zh-CN/", "docs/commands.md", "tests/released/", ".github/")
    for path in listed.stdout.decode().split("\0"):
        if path and not path.startswith(others) and "zh-CN" not in path and (ROOT / path).exists():
            yield path


def hits():
    """Each hit by folder and rule."""
    found = {}
    for path in files():
        of_folder = found.setdefault(folder(path), {rule: [] for rule in RULES})
        for number, text, rules in lines(path):
            for rule in rules:
                if re.search(RULES[rule][0], text):
                    of_folder[rule].append(f"{path}:{number}: {text.strip()}")
    return found


def write(budgets):
    text = "# The most hits of each rule of words.py in each folder: a number may only fall. `words.py --lower` writes it.\n"
    for name in sorted(budgets):
        rules = [f"{rule} = {budgets[name][rule]}" for rule in RULES if budgets[name].get(rule)]
        text += f'\n["{name}"]\n' + "".join(f"{line}\n" for line in rules)
    BUDGETS.write_text(text)


def main():
    found = hits()
    if sys.argv[1:2] == ["--show"]:
        rule, name = sys.argv[2:4]
        print("\n".join(found[name][rule]))
        return 0
    budgets = tomllib.loads(BUDGETS.read_text()) if BUDGETS.exists() else None
    if sys.argv[1:] == ["--lower"]:
        counts = {name: {rule: len(of) for rule, of in rules.items()} for name, rules in found.items()}
        if budgets is not None:
            for name, rules in counts.items():
                for rule in rules:
                    rules[rule] = min(rules[rule], budgets.get(name, {}).get(rule, 0))
        write(counts)
        return 0
    is_wrong = lower = 0
    for name, rules in sorted(found.items()):
        for rule, of in rules.items():
            budget = (budgets or {}).get(name, {}).get(rule, 0)
            lower += len(of) < budget
            if len(of) > budget:
                is_wrong = 1
                print(f"{name}: {len(of)} hits of `{rule}`, at most {budget}: {RULES[rule][1]}")
                print("".join(f"  {hit}\n" for hit in of[:10]), end="")
                print(f"  all of them: docs/prose/words.py --show {rule} {name}")
    if lower:
        print(f"{lower} budgets can be lowered: docs/prose/words.py --lower")
    return is_wrong


sys.exit(main())
