"""Logs: the events that the code names are those of docs/logs.md, and --log-format json is JSON."""

import json
import re
import subprocess
import sys

from conftest import JOBS, PROGRAM, ROOT, environment

NAMED = [r'\bSay\(\s*"([a-z_]+)",', r'\bLog\(\s*LogLevel::k\w+,\s*"([a-z_]+)",', r'\bSayOfAttendance\([^"]*"([a-z_]+)",',
         r'\bNote\(LogLevel::k\w+,\s*"([a-z_]+)",', r'\bJsonLine\([^;]*?, "([a-z_]+)",', r'\.event = "([a-z_]+)"']


def test_the_documentation_lists_the_events_of_the_code():
    code = set()
    for folder in ("base", "identity", "server", "client", "launch", "cli"):
        for path in (ROOT / folder).rglob("*.cc"):
            for pattern in NAMED:
                code |= set(re.findall(pattern, path.read_text()))
    listed = re.findall(r"^\| `([a-z_]+)` \| [^|]+ \| [^|]+ \|$", (ROOT / "docs" / "logs.md").read_text(), re.M)
    assert len(listed) == len(set(listed)) and len(listed) > 20
    assert code == set(listed)


def test_every_line_of_standard_error_is_an_object(tmp_path):
    script = tmp_path / "noisy.py"
    script.write_text("import sys\nimport ringwood\n"
                      "with ringwood.Session() as session:\n"
                      "    print(f'by hand \\\"{session.rank}\\\"', file=sys.stderr)\n"
                      "    print('plain')\n")
    ended = subprocess.run([PROGRAM, "run", "-np", "2", "--log-format", "json", "--", sys.executable, script],
                           env=environment(), capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert all({"ts", "level", "event", "epoch", "step", "message"} <= line.keys() for line in lines)
    by_hand = {line["rank"]: line["message"] for line in lines if line["event"] == "output" and "rank" in line}
    assert by_hand == {0: 'by hand "0"', 1: 'by hand "1"'}
    begun = [line for line in lines if line["event"] == "job_begun"]
    assert [line["rank"] for line in begun] == [0] and any(line["event"] == "launcher" for line in lines)
    assert sorted(ended.stdout.split("\n")) == ["", "[1] plain", "plain"]


def test_a_failure_is_an_event_with_its_place(tmp_path):
    ended = subprocess.run([PROGRAM, "run", "-np", "2", "--log-format", "json", "--", sys.executable, JOBS / "failing.py",
                            "exit"], env=environment(), capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    failed = [line for line in lines if line["event"] == "epoch_failed"]
    assert failed and failed[0]["server"] == 0 and failed[0]["epoch"] >= 1 and failed[0]["level"] == "warning", ended.stderr
    told = [line for line in lines if line["event"] == "launcher"]
    first = [line for line in told if "failed first: it" in line["message"]]
    assert first and first[0]["level"] == "warning", ended.stderr
    assert told[-1]["level"] == "error" and "ended with exit code" in told[-1]["message"], ended.stderr
    assert told[0]["level"] == "info" and "coordinator at" in told[0]["message"], ended.stderr
