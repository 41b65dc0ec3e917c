"""Runs the scripts that argv names (SCRIPT:ARGUMENT:…) one after the other, each with a session of its own;
importing PyTorch takes longer than any of them. NAME=VALUE:… in front of a script sets variables from it on. Rank 0
says which are done."""

import os
import pathlib
import runpy
import sys

# NCCL takes several ranks on one device when each says that it is another host.
os.environ["NCCL_HOSTID"] = "host" + os.environ["RANK"]
for words in sys.argv[1:]:
    script, *arguments = words.split(":")
    while "=" in script:
        name, value = script.split("=")
        os.environ[name] = value
        script, *arguments = arguments
    sys.argv = [script, *arguments]
    runpy.run_path(str(pathlib.Path(__file__).parent / script), run_name="__main__")
    if os.environ["RANK"] == "0":
        sys.stdout.write(f"done {words}\n")  # print() writes the end of the line by itself: another rank may come between
        sys.stdout.flush()
