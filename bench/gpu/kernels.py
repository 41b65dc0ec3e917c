"""What ptxas -v says of kernels, from standard input: a line of JSON for each kernel and device."""

import json
import re
import sys

NUMBERS = {"registers": r"Used (\d+) registers", "shared_bytes": r"(\d+) bytes smem",
           "stack_bytes": r"(\d+) bytes stack frame", "spilled_bytes": r"(\d+) bytes spill stores"}


def short(mangled):
    """The kernel's own name in a mangled one, with its template's argument: UnpackKernel<d>."""
    found = re.search(r"\d(\w+?Kernel)(?:I(\w)E)?", mangled)
    if not found:
        return mangled
    name = re.sub(r"^.*\d", "", found[1])
    return name + (f"<{found[2]}>" if found[2] else "")


def kernels(text):
    """Of each kernel its device and numbers; 0 where ptxas is silent."""
    for part in text.split("Compiling entry function ")[1:]:
        name, device = re.match(r"'(\w+)' for '(\w+)'", part).groups()
        numbers = {label: re.search(pattern, part) for label, pattern in NUMBERS.items()}
        yield {"kernel": short(name), "device": device,
               **{label: int(found[1]) if found else 0 for label, found in numbers.items()}}


if __name__ == "__main__":
    for line in kernels(sys.stdin.read()):
        print(json.dumps(line))
