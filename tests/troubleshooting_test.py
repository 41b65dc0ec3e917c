"""docs/troubleshooting.md quotes messages that the code has: each fixed part stands in a text of the source."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("base", "identity", "transport", "proto", "dense", "sparse", "plan", "server", "client", "launch", "cli", "doctor", "python")
PLACE = "\0"  # where a text has a name or a number


def texts():
    """The texts of the code, of which adjacent ones are one, with PLACE for what is filled in."""
    found = []
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in (".cc", ".h", ".py"):
                continue
            code = re.sub(r'(?<!\\)"\s*\n\s*f?"', "", path.read_text())
            found += re.findall(r'"((?:[^"\\\n]|\\.)*)"', code)
    filled = (re.sub(r"%[-+0-9.*]*l*[a-zA-Z]|\{[^{}]*\}", PLACE, text) for text in found)
    return "\n".join(text.replace('\\"', '"').replace("%%", "%") for text in filled)


def messages(page):
    return [cell for section in page.split("\n## ")[1:] if not section.startswith("Exit codes")
            for cell in re.findall(r"^\| `([^`]+)` \|", section, re.M)]


def missing(page, code):
    return [f"{message}: {part.strip()}" for message in messages(page) for part in message.split("…")
            if part.strip() and part.strip() not in code]


def test_every_message_of_the_page_is_one_of_the_code():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert len(messages(page)) > 30
    assert not missing(page, texts())


def test_a_message_that_nobody_writes_is_found():
    page = "# T\n\n## A\n\n| `rank … is made of cheese` | x | y |\n"
    assert missing(page, texts()) == ["rank … is made of cheese: is made of cheese"]
