"""What the kit has to run, part by part; a step's limit is many times what it is expected to take."""

from dataclasses import dataclass, field

from outcome import FINDINGS

PARTS = ("tests", "sanitizers", "bench", "jobs", "grid")
DEVICE_TESTS = {"sparse_test": "Cuda*:DeviceGroup*",
                "client_test": "DeviceBucket*:DeviceTensors*:DeviceWire*:*DeviceSparse*",
                "dense_test": "Cuda*:WordDigest*:DeviceRing.*"}  # last: NCCL's ranks can wait for each other
SANITIZED = {"sparse_test": "DeviceGroup*", "client_test": "DeviceBucket*:DeviceTensors*RealDevice"}
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
MODELS = ("flat", "gpt", "resnet50")
# Several ranks on one device: NCCL takes them when each says that it is another host, over loopback.
ONE_DEVICE = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo",
              "NCCL_MNNVL_ENABLE": "0", "NCCL_CUMEM_ENABLE": "0", "NCCL_MAX_NCHANNELS": "1", "NCCL_DEBUG": "WARN"}
# The plugins that a host has are for its own pytest; the kit brings another one.
PYTEST = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
AS_HOST = ["sh", "-c", 'NCCL_HOSTID=host$RANK exec "$@"', "rank"]
SECTIONS = [word for name in ("SpeedOfLight", "Occupancy", "LaunchStats") for word in ("--section", name)]
TOO_OLD = "packed programs need their own loader here"


@dataclass
class Step:
    """One command: it succeeds or fails as a whole. `missing`: why it cannot run here."""
    part: str
    name: str
    command: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    missing: str = ""
    seconds: float = 120
    report: str = ""  # a file that it writes: GoogleTest's JSON, JUnit's XML, a trainer's report


def tests(host, _, work):
    for name, chosen in DEVICE_TESTS.items():
        command, environment = host.program(name, f"--gtest_filter={chosen}")
        report = f"{work}/{name}.json"
        yield Step("tests", name, command, {**environment, "GTEST_OUTPUT": f"json:{report}"}, report=report,
                   seconds=90)


def sanitizers(host, _, work):
    sanitizer = host.tool("compute-sanitizer")
    missing = host.no_device or ("" if sanitizer else "no compute-sanitizer") or (
        TOO_OLD if host.native is None else "")
    runs = [(name, (f"--gtest_filter={chosen}",)) for name, chosen in SANITIZED.items()]
    for name, arguments in [*runs, ("device_select", ("--steps", "3", "300001"))]:
        for tool in TOOLS:  # those of a program one after the other: the first one warms the files
            command, environment = ([], {}) if missing else host.program(name, *arguments)
            yield Step("sanitizers", f"{tool} {name}", [] if missing else
                       [sanitizer, "--tool", tool, "--error-exitcode", str(FINDINGS), *command], environment, missing)


def bench(host, _, work):
    kernels = host.here / "kernels.jsonl"
    yield Step("bench", "kernels", ["cat", kernels], missing="" if kernels.exists() else "not a packed kit")
    for name in ("device_select", "device_dense", "device_overlap"):
        command, environment = ([], {}) if host.no_device else host.program(name)
        yield Step("bench", name, command, environment, host.no_device)
    yield counters(host)
    yield Step("bench", "eager", [host.python, host.here / "eager.py"], missing=host.no_device or host.no_torch_device)
    missing = host.no_torch_device or host.no_package
    small = ["--small"] if host.device == "cpu" else []
    for name, models in (("in_place", MODELS), ("waits", ("gpt",))):
        for model in models:
            rounds = ["--rounds", "1"] if small and name == "in_place" else []
            yield Step("bench", f"{name} {model}", [] if missing else
                       [host.built / "bin/ringwood", "run", "-np", "1", "--", host.python, host.here / f"{name}.py",
                        "--device", host.device, "--model", model, *small, *rounds],
                       {} if missing else host.environment(), missing, seconds=240)


def counters(host):
    profiler = host.tool("ncu")
    missing = host.no_device or ("" if profiler else "no Nsight Compute") or (TOO_OLD if host.native is None else "")
    command, environment = ([], {}) if missing else host.program("device_select", "--steps", "20", "100000000")
    profile = [profiler, "--csv", "--page", "details", "--clock-control", "none", "--launch-skip", "60",
               "--launch-count", "8", "--kill", "yes", *SECTIONS, *command]
    return Step("bench", "counters", [] if missing else
                ["sh", "-c", '"$@" 2>&1 | "$PYTHON" "$COUNTERS"', "profile", *profile],
                {**environment, "PYTHON": str(host.python), "COUNTERS": str(host.here / "counters.py")}, missing)


def trainer(host, *flags):
    return [*AS_HOST, host.python, host.tree / "examples/fashion_mnist.py", "--data", host.data, *flags]


def jobs(host, options, work):
    missing = host.no_torch_device or host.no_package or host.no_data
    if missing:
        yield Step("jobs", "training", missing=missing)
        return
    environment = {**host.environment(), **ONE_DEVICE}
    ringwood, limit = host.built / "bin/ringwood", "6000" if host.device == "cuda" else "2000"
    for route in ("dense", "sparse"):
        for ranks in (2, 4):
            report = f"{work}/{route}{ranks}.json"
            flags = ("--route", route, "--epochs", "1", "--limit", limit, "--device", host.device, "--report", report)
            yield Step("jobs", f"{ranks} ranks, {route}",
                       [ringwood, "run", "-np", ranks, "--", *trainer(host, *flags)], environment, report=report)
    store = f"{work}/store"
    for name, device, run, epochs in (("checkpoint", host.device, (), "1"),
                                      ("resume on the host", "cpu", ("--resume",), "2")):
        report = f"{work}/{device}{epochs}.json"
        yield Step("jobs", name, [ringwood, "run", "-np", "2", "--store", store, *run, "--",
                                  *trainer(host, "--route", "sparse", "--epochs", epochs, "--limit", "2000", "--device",
                                           device, "--checkpoint-every", "5", "--report", report)],
                   environment, report=report)
    report = f"{work}/test_device.xml"
    chosen = ["-k", "not test_on_the_cpu"] if host.device == "cuda" else []  # those cost a device's time for nothing
    yield Step("jobs", "test_device", [host.python, "-m", "pytest", "-v", "--no-header", "-rs", "--tb=short",
                                       "-p", "no:cacheprovider", f"--junitxml={report}", *chosen,
                                       host.tree / "tests/python/test_device.py"],
               {**environment, **PYTEST}, report=report, seconds=400)


def grid(host, options, work):
    missing = host.no_torch_device or host.no_package or host.no_data
    flags = options.grid
    if host.device == "cpu" and not flags:  # one short run of each kind: that it works
        flags = ["--only", "^dense$|^gtopk 0.01$", "--seeds", "1", "--workers", "2", "--passes", "1", "--limit", "2000"]
    yield Step("grid", "grid", [] if missing else
               [host.python, host.tree / "bench/convergence/grid.py", "--ringwood", host.built / "bin/ringwood",
                "--data", host.data, "--device", host.device, "--results", f"{options.out}/grid.jsonl", *flags],
               {} if missing else {**host.environment(), **ONE_DEVICE}, missing, seconds=24 * 3600)
