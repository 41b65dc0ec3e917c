"""Reads the Prometheus text format 0.0.4 strictly: what it does not allow is an error with its line."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL},?)*)\}})? (\S+)$")
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")


def parse(text):
    """{name: (type, help, {labels as a frozenset of pairs: value})}"""
    assert text.endswith("\n"), "the last line has no end"
    families, name = {}, None
    for number, line in enumerate(text.splitlines(), 1):
        where = f"line {number}: {line}"
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            assert re.fullmatch(NAME, name) and words, where
            assert name not in families, f"{where}: a second time"
            families[name] = [None, words, {}]
        elif line.startswith("# TYPE "):
            typed, _, kind = line[7:].partition(" ")
            assert typed == name and kind in TYPES and families[name][0] is None and not families[name][2], where
            families[name][0] = kind
        else:
            sample = SAMPLE.match(line)
            assert sample and sample[1] == name, where
            labels = re.findall(LABEL, sample[2] or "")
            assert len({key for key, _ in labels}) == len(labels), f"{where}: a label twice"
            key, value = frozenset(labels), float(sample[5])
            assert key not in families[name][2], f"{where}: a series twice"
            families[name][2][key] = value
    return {name: tuple(family) for name, family in families.items()}


def lint(families):
    """Prometheus's conventions of names."""
    found = []
    for name, (kind, words, series) in families.items():
        if kind is None or not series:
            found.append(f"{name} has no type or no series")
        if (kind == "counter") != name.endswith("_total"):
            found.append(f"{name} is a {kind}")
        if re.search(r"_(ms|us|millis|kb|mb|percent|counter|gauge)(_|$)", name):
            found.append(f"{name}: base units, no types")
        if kind == "counter" and any(value < 0 for value in series.values()):
            found.append(f"{name} is negative")
    return found
