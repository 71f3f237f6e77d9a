#!/usr/bin/env python3
"""Seconds of tests by family (a module of tests), from the junit.xml that nextest writes; those above one in a hundred."""

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter

run = ElementTree.parse(sys.argv[1]).getroot()
seconds, tests = Counter(), Counter()
for suite in run.iter("testsuite"):
    binary = suite.get("name").split("::")[-1]
    for test in suite.iter("testcase"):
        module = test.get("name").split("::")[0]
        for family in (binary, f"{binary} {module}::"):
            seconds[family] += float(test.get("time"))
            tests[family] += 1
total = sum(seconds[family] for family in seconds if "::" not in family)
print(f"{float(run.get('time')):.0f} s, {total:.0f} s of all tests together")
for family, taken in seconds.most_common():
    if taken >= total / 100:
        print(f"{taken:6.0f} {tests[family]:5}  {family}")
