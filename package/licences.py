"""The licences of other people's code in the packages, as Debian's packages state them."""

import pathlib
import re
import shutil
import subprocess

# Headers alone, which the compiler puts into ours. Boost's asks for nothing in what was compiled.
COMPILED_IN = ("libcli11-dev", "nlohmann-json3-dev")
DOCUMENTS = pathlib.Path("/usr/share/doc")
COMMON = pathlib.Path("/usr/share/common-licenses")  # whole texts, which the statements name


def packages_of(libraries):
    """Debian's packages that brought the libraries, whose names auditwheel changed: libucs-1a2b3c4d.so.0.0.0."""
    names = sorted({re.sub(r"-[0-9a-f]{8}(?=\.so)", "", path.name) for path in libraries})
    found = subprocess.run(["dpkg-query", "--search", *(f"*/{name}" for name in names)], check=True,
                           stdout=subprocess.PIPE, text=True).stdout
    return sorted({line.split(":")[0] for line in found.splitlines()})


def bring(place, libraries):
    """A file of each package into the new folder `place`, and of each whole text that they name."""
    place.mkdir()
    texts = set()
    for package in (*packages_of(libraries), *COMPILED_IN):
        statement = DOCUMENTS / package / "copyright"
        shutil.copyfile(statement, place / package)
        texts |= set(re.findall(rf"{COMMON}/([\w.-]*\w)", statement.read_text(errors="replace")))
    for text in sorted(texts):
        shutil.copyfile(COMMON / text, place / text)
