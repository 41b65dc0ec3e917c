"""What came of a step of the kit: its status, the reason where there is one, and what its report says."""

import json
import os
import re
import signal
import xml.etree.ElementTree as xml

FINDINGS = 99  # a sanitizer's exit code
# What GoogleTest and pytest -v say of a test when it has ended.
ENDED = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+) \(\d+ ms\)$|::(\S+) (PASSED|FAILED|ERROR|SKIPPED)\b", re.MULTILINE)
MOST_REASON = 400  # characters


def read_report(path):
    """Counts of a test program's report, or what a trainer wrote; nothing where there is none."""
    if not path or not os.path.exists(path) or not os.path.getsize(path):
        return {}
    try:
        if path.endswith(".xml"):
            return junit(xml.parse(path).getroot())
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (ValueError, xml.ParseError):  # its writer was stopped
        return {}
    if "testsuites" in found:
        return googletest(found)
    kept = {"accuracy": "accuracy", "seconds": "training_seconds", "weights_digest": "weights_digest"}
    return {label: found[name] for name, label in kept.items() if name in found}


def junit(root):
    cases = root.findall(".//testcase")
    failed = {case.get("name"): short(why.get("message") or why.text or "")
              for case in cases for why in case if why.tag in ("failure", "error")}
    skipped = sum(case.find("skipped") is not None for case in cases)
    return counted(len(cases), failed, skipped)


def googletest(found):
    cases = [case for suite in found["testsuites"] for case in suite["testsuite"] if case["status"] == "RUN"]
    failed = {f"{case['classname']}.{case['name']}": short(case["failures"][0].get("failure", ""))
              for case in cases if case.get("failures")}
    return counted(len(cases), failed, sum(case["result"] == "SKIPPED" for case in cases))


def seen(output):
    """Counts of the tests that had ended when their program was stopped: it wrote no report."""
    ended = {google or test: google_result or result
             for google_result, google, test, result in ENDED.findall(output)}
    failed = {test: "see the log" for test, result in ended.items() if result in ("FAILED", "ERROR")}
    return counted(len(ended), failed, list(ended.values()).count("SKIPPED")) if ended else {}


def counted(cases, failed, skipped):
    return {"passed": cases - len(failed) - skipped, "failed": len(failed), "skipped": skipped,
            **({"failures": failed} if failed else {})}


def short(text):
    text = " ".join(text.split())
    return text if len(text) <= MOST_REASON else text[:MOST_REASON - 1] + "…"


def figures(output):
    """The lines of JSON that a benchmark printed."""
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue


def why(code, output):
    """Of a command that failed: the signal or the code, and the last words."""
    how = f"exit code {code}" if code > 0 else f"ended by {signal.Signals(-code).name}"
    words = [line for line in output.splitlines() if line.strip()]
    return short(f"{how}: {words[-1]}") if words else how


def outcome(step, code, output):
    """Status, reason, and what the report says of a step that has ended; code None: it was stopped at its limit."""
    found = read_report(step.report)
    if code is None:
        found = found or seen(output)
        words = [f"stopped after {step.seconds:.0f} s", *([f"{found['passed']} tests had passed"] if "passed" in found else []),
                 *(["failed: " + ", ".join(found["failures"])] if "failures" in found else [])]
        return "failed", "; ".join(words), found
    if code == FINDINGS and step.part == "sanitizers":
        return "failed", "the sanitizer found something", found
    if code != 0:
        return "failed", ", ".join(found.get("failures", [])) or why(code, output), found
    if len(set(found.get("weights_digest", []))) > 1:
        return "failed", "the ranks end with different weights", found
    if found.get("passed") == 0:
        return "skipped", f"all {found['skipped']} tests were", found
    said = [line for line in output.splitlines() if line.startswith("skipped: ")]
    if said and "passed" not in found and not list(figures(output)):
        return "skipped", said[0][len("skipped: "):], found
    return "ok", f"{found['skipped']} of its tests skipped" if found.get("skipped") else "", found
