"""The kit for hosts with a device: what becomes of a step, what is skipped and why, the table and the exit code.

Programs are stand-ins here; `bench/gpu/run --device cpu` runs the real ones."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench/gpu"))
import counters  # noqa: E402
import kernels  # noqa: E402
import kit  # noqa: E402
import outcome  # noqa: E402
from steps import Step  # noqa: E402

GTEST = {"testsuites": [{"testsuite": [
    {"name": "A", "classname": "Ring", "status": "RUN", "result": "COMPLETED"},
    {"name": "B", "classname": "Ring", "status": "RUN", "result": "SKIPPED"},
    {"name": "C", "classname": "Ring", "status": "NOTRUN", "result": "SUPPRESSED"}]}]}
PTXAS = """ptxas info    : Compiling entry function '_ZN8ringwood4cuda12_GLOBAL__N_112RefineKernelENS0_9GroupViewE' for 'sm_90'
    32 bytes stack frame, 8 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 8240 bytes smem
ptxas info    : Compiling entry function '_ZN8ringwood4cuda12_GLOBAL__N_112UnpackKernelIdEEvNS0_9PartsViewE' for 'sm_80'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 29 registers
"""


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def step(script, **changes):
    return Step("bench", "one", ["sh", "-c", script], **changes)


@pytest.mark.parametrize("made, status, reason", [
    (step("exit 0"), "ok", ""),
    (step("exit 3"), "failed", "exit code 3"),
    (step("echo CUDA error: no; echo; exit 3"), "failed", "exit code 3: CUDA error: no"),
    (step("kill -SEGV $$"), "failed", "ended by SIGSEGV"),
    (step("echo skipped: no NCCL"), "skipped", "no NCCL"),
    (step("sleep 60", seconds=0.2), "failed", "stopped after 0 s"),
    (step("exit 0", missing="no PyTorch"), "skipped", "no PyTorch"),
    (Step("bench", "one", ["/nonexistent/program"]), "failed", "exit code 127: [Errno 2] No such file or directory: '/nonexistent/program'"),
    (Step("sanitizers", "one", ["sh", "-c", "exit 99"]), "failed", "the sanitizer found something")])
def test_a_step_succeeds_fails_or_is_skipped_with_the_reason(tmp_path, made, status, reason):
    runner = kit.Kit(tmp_path, seconds=0)
    runner.run(made)
    (line,) = lines(tmp_path)
    assert (line["status"], line.get("reason", "")) == (status, reason)
    assert runner.failed == ([f"{made.part} one"] if status == "failed" else [])


def test_figures_are_lines_of_their_own_beside_the_steps(tmp_path):
    runner = kit.Kit(tmp_path, seconds=0)
    runner.run(step("""echo '{"k": 3, "over_floor": 1.1}'; echo words; echo '{broken'"""))
    assert lines(tmp_path)[1:] == [{"part": "bench", "step": "one", "k": 3, "over_floor": 1.1}]
    assert "words" in (tmp_path / "kit.log").read_text()


def test_a_test_program_tells_what_it_ran_and_what_it_skipped(tmp_path):
    report = tmp_path / "report.json"

    def counted(change):
        found = json.loads(json.dumps(GTEST))
        change(found["testsuites"][0]["testsuite"])
        report.write_text(json.dumps(found))
        runner = kit.Kit(tmp_path / "out", seconds=0)
        runner.run(Step("tests", "one", ["true"], report=str(report)))
        return runner.results[0]

    some = counted(lambda cases: None)
    assert (some["status"], some["passed"], some["skipped"]) == ("ok", 1, 1)
    none = counted(lambda cases: cases[0].update(result="SKIPPED"))
    assert (none["status"], none["reason"]) == ("skipped", "all 2 tests were")
    assert counted(lambda cases: cases[0].update(failures=[{"failure": "a.cc:3\nno device"}]))["failures"] == {
        "Ring.A": "a.cc:3 no device"}
    assert outcome.outcome(Step("tests", "one", report=str(report)), 1, "")[1] == "Ring.A"
    report.write_text('{"testsuites": [')  # stopped while it wrote
    assert outcome.outcome(Step("tests", "one", report=str(report)), None, "")[2] == {}


def test_what_pytest_ran_is_counted_and_failures_say_why(tmp_path):
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_a(): pass\ndef test_b(): assert 1 == 2, 'no bits'\n"
                                         "@pytest.mark.skip\ndef test_c(): pass\n")
    report = tmp_path / "report.xml"
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
                    tmp_path / "test_it.py"], check=False, capture_output=True, timeout=600)
    found = outcome.read_report(str(report))
    assert (found["passed"], found["failed"], found["skipped"]) == (1, 1, 1) and "no bits" in found["failures"]["test_b"]


def test_a_job_whose_ranks_differ_has_failed(tmp_path):
    report = tmp_path / "report.json"
    for digests, status in ((["a", "a"], "ok"), (["a", "b"], "failed")):
        report.write_text(json.dumps({"accuracy": 0.8, "seconds": 3, "weights_digest": digests}))
        runner = kit.Kit(tmp_path / "out", seconds=0)
        runner.run(Step("jobs", "one", ["true"], report=str(report)))
        assert runner.results[0]["status"] == status and runner.results[0]["training_seconds"] == 3


def test_steps_that_find_no_time_left_are_skipped(tmp_path):
    now = iter(range(0, 1000, 10))
    runner = kit.Kit(tmp_path, seconds=15, clock=lambda: next(now))
    runner.run(step("exit 0"))
    runner.run(step("exit 0"))
    assert [(line["status"], line.get("reason")) for line in lines(tmp_path)] == [
        ("ok", None), ("skipped", "no time left")]
    assert "bench" in runner.table() and "nothing" not in runner.table()


def test_a_step_that_the_whole_time_cuts_short_has_not_failed(tmp_path):
    runner = kit.Kit(tmp_path, seconds=0.5)
    runner.run(step("sleep 60"))
    (line,) = lines(tmp_path)
    assert line["status"] == "skipped" and "no time left" in line["reason"] and not runner.failed


def test_of_a_step_that_hangs_the_log_has_the_stacks_of_all_its_processes(tmp_path):
    runner = kit.Kit(tmp_path, seconds=0)
    runner.run(step("sleep 61 & sleep 62", seconds=2))
    log = (tmp_path / "kit.log").read_text()
    for process in ("sleep 61", "sleep 62"):
        (stacks,) = [part for part in log.split("---- stacks of process ")[1:] if part.splitlines()[0].endswith(f": {process} ")]
        assert re.search(r"thread \d+ \(sleep\) in \w+", stacks)
        assert shutil.which("eu-stack") is None or "nanosleep" in stacks


CUT_SHORT = """[ RUN      ] Ring.A
[       OK ] Ring.A (12 ms)
[  SKIPPED ] Ring.B (0 ms)
tests/python/test_it.py::test_c[2-dense] PASSED            [ 10%]
tests/python/test_it.py::test_d {}            [ 20%]
tests/python/test_it.py::test_e """


@pytest.mark.parametrize("result, status, reason", [
    ("PASSED", "skipped", "no time left after 2 s; 3 tests had passed"),
    ("FAILED", "failed", "stopped after 2 s; 2 tests had passed; failed: test_d")])
def test_of_tests_that_are_cut_short_those_that_had_ended_count(tmp_path, result, status, reason):
    (tmp_path / "said").write_text(CUT_SHORT.format(result))
    runner = kit.Kit(tmp_path, seconds=2, clock=lambda: 0.0)
    runner.run(step(f"cat {tmp_path}/said; sleep 60"))
    (line,) = lines(tmp_path)
    assert (line["status"], line["reason"], line["skipped"]) == (status, reason, 1)


@pytest.mark.parametrize("words, order", [(["bench", "tests"], ["bench", "tests"]), (["tests", "bench"], ["tests", "bench"]),
                                          ([], ["tests", "bench"])])
def test_parts_run_in_the_order_in_which_they_are_named(tmp_path, monkeypatch, words, order):
    monkeypatch.setattr(kit, "PARTS", ("tests", "bench"))
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # pytest's own stay
    for part in kit.PARTS:
        monkeypatch.setattr(kit.steps, part, lambda *_, part=part: [Step(part, "one", ["true"])])
    assert kit.main([*words, "--device", "cpu", "--out", str(tmp_path)]) == 0
    first, *ran = lines(tmp_path)
    assert first["device"] == "no device" and [line["part"] for line in ran] == order


def test_every_part_has_a_share_of_what_is_left(tmp_path):
    now = [0.0]
    runner = kit.Kit(tmp_path, seconds=100, clock=lambda: now[0])
    until = []
    for number, part in enumerate(kit.PARTS):
        runner.begin(part, kit.PARTS[number + 1:])
        until.append(runner._part_until)
        if part != "tests":
            now[0] = until[-1]  # all but the first need all that they have
    assert until == sorted(until) and until[0] == pytest.approx(12.5) and until[1] == pytest.approx(100 / 7)
    assert until[-1] == pytest.approx(100)


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# Processes in sessions of their own, one of which has lost its parent.
LEAVES = ("setsid sh -c 'echo $$ >{0}/one; sleep 61' & (setsid sh -c 'echo $$ >{0}/two; sleep 61' &); "
          "until [ -s {0}/one ] && [ -s {0}/two ]; do sleep 0.02; done; ")


@pytest.mark.parametrize("then, seconds, status", [("exit 0", 120, "ok"), ("sleep 60", 3, "failed")])
def test_nothing_of_a_step_stays(tmp_path, then, seconds, status):
    runner = kit.Kit(tmp_path / "out", seconds=0)
    runner.run(step(LEAVES.format(tmp_path) + then, seconds=seconds))
    assert runner.results[0]["status"] == status
    assert not any(alive(int((tmp_path / name).read_text())) for name in ("one", "two"))


def test_a_signal_ends_the_running_step_and_the_table_is_printed(tmp_path):
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import kit, steps; "
            "steps.tests = lambda *_: [steps.Step('tests', 'one', ['sh', '-c', sys.argv[2]])]; "
            "sys.exit(kit.main(['tests', '--device', 'cpu', '--out', sys.argv[3]]))")
    script = LEAVES.format(tmp_path) + f"touch {tmp_path}/both; sleep 60"
    process = subprocess.Popen([sys.executable, "-c", code, ROOT / "bench/gpu", script, tmp_path / "out"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until = time.monotonic() + 60
    while not (tmp_path / "both").exists() and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=600)[0]
    assert process.returncode == 1 and "stopped by SIGTERM; nothing failed" in output, output
    assert not any(alive(int((tmp_path / name).read_text())) for name in ("one", "two"))
    assert "tests: one" in (tmp_path / "out/kit.log").read_text()


NCU = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","7","void ringwood::cuda::<unnamed>::AccumulateKernel<(bool)1>(GroupView)","GPU Speed Of Light","DRAM Throughput","%","91.5"
"0","7","void ringwood::cuda::<unnamed>::AccumulateKernel<(bool)1>(GroupView)","GPU Speed Of Light","Duration","us","1,251.5"
"1","7","ringwood::cuda::<unnamed>::RefineKernel(GroupView)","GPU Speed Of Light","Duration","ms","0.25"
"1","7","ringwood::cuda::<unnamed>::RefineKernel(GroupView)","Occupancy","Achieved Occupancy","%","n/a"
"""


def test_what_the_profiler_says_of_kernels_is_read():
    first, second = counters.launches(NCU.splitlines())
    assert first["dram_percent"] == 91.5 and first["duration_us"] == 1251.5 and "AccumulateKernel" in first["kernel"]
    assert second == {"kernel": "RefineKernel", "duration_us": 250.0}


def test_launches_and_waits_of_each_thread_are_counted():
    import waits
    calls = [(2, "cudaLaunchCooperativeKernel"), (1, "cudaLaunchKernelExC"), (1, "cudaLaunchKernel"),
             (1, "cudaEventSynchronize"), (2, "cudaMemcpyAsync"), (3, "cudaStreamSynchronize")]
    trace = {"traceEvents": [{"ph": "M", "name": "process_name"}, {"cat": "cpu_op", "tid": 3, "name": "cudaLaunchKernel"},
                             *({"cat": "cuda_runtime", "tid": tid, "name": name} for tid, name in calls)]}
    assert waits.of_threads(waits.runtime_calls(trace), 2) == [
        {"launches": 1, "waits": {"cudaEventSynchronize": 0.5}}, {"launches": 0.5, "waits": {}},
        {"launches": 0, "waits": {"cudaStreamSynchronize": 0.5}}]


def test_the_time_of_a_device_is_what_runs_there_and_the_pauses_between():
    import waits
    spans = [("kernel", 10, 20, "a"), ("gpu_memcpy", 15, 10, "b"), ("kernel", 100, 50, "c"), ("cuda_runtime", 0, 500, "d"),
             ("kernel", 160, 10, "e")]
    trace = {"traceEvents": [{"cat": kind, "ts": begin, "dur": took, "name": name} for kind, begin, took, name in spans]}
    assert waits.device_time(trace, 2) == {"busy_s": pytest.approx(40e-6), "idle_s": pytest.approx(40e-6),
                                           "pauses_s": [70e-6, 10e-6], "longest": ["a", "c"]}
    assert waits.device_time({"traceEvents": []}, 2)["longest"] == []


@pytest.mark.parametrize("said, code, words", [
    (NCU, 0, '"duration_us": 250.0'), ("==ERROR== ERR_NVGPUCTRPERM - no", 0, "skipped: this user may not"),
    ("==ERROR== gone", 1, "told of no kernel")])
def test_a_profile_without_kernels_failed_and_one_that_was_forbidden_is_skipped(said, code, words):
    ended = subprocess.run([sys.executable, ROOT / "bench/gpu/counters.py"], input=said, text=True, check=False,
                           capture_output=True, timeout=600)
    assert ended.returncode == code and words in ended.stdout + ended.stderr


def test_what_the_compiler_says_of_kernels_is_read():
    assert list(kernels.kernels(PTXAS)) == [
        {"kernel": "RefineKernel", "device": "sm_90", "registers": 64, "shared_bytes": 8240, "stack_bytes": 32,
         "spilled_bytes": 8},
        {"kernel": "UnpackKernel<d>", "device": "sm_80", "registers": 29, "shared_bytes": 0, "stack_bytes": 0,
         "spilled_bytes": 0}]


@pytest.mark.parametrize("words, code", [(["--device", "cpu", "sanitizers"], 0), (["nonsense"], 2), (["--help"], 0)])
def test_the_command_ends_with_its_table_and_says_what_it_does_not_know(tmp_path, words, code):
    ended = subprocess.run([ROOT / "bench/gpu/run", *words], text=True, capture_output=True, timeout=600, check=False,
                           env={**os.environ, "OUT": str(tmp_path), "PYTHON": sys.executable})
    assert ended.returncode == code, ended.stdout + ended.stderr
    if "cpu" in words:
        assert "needs a device" in ended.stdout and ended.stdout.endswith("nothing failed\n")
        assert {line["status"] for line in lines(tmp_path)[1:]} == {"skipped"}


def test_a_source_that_two_programs_compile_is_found(tmp_path):
    sys.path.insert(0, str(ROOT / "cmake"))
    import cuda_seconds
    log = "".join(f"{begin}\t{end}\t1\t{path}\thash\n" for begin, end, path in (
        (0, 1500, "CMakeFiles/a.dir/x/launch.cu.o"), (100, 2100, "CMakeFiles/b.dir/x/launch.cu.o"),
        (0, 9000, "CMakeFiles/a.dir/x/other.cc.o")))
    found = cuda_seconds.compiled(log)
    assert sum(found.values()) == 3.5 and cuda_seconds.twice(found) == ["x/launch.cu"]
