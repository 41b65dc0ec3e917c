"""What this host has of what the kit's steps need, found by trying it; and how programs are started here.

A packed program is started natively where the host's C library is new enough, which debuggers and sanitizers like
best, else through the loader and the C library that the kit brings.
"""

import atexit
import ctypes.util
import functools
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROBE_SECONDS = 120
DRIVERS = ("/usr/lib/x86_64-linux-gnu", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib64",
           "/usr/lib/wsl/lib", "/usr/local/cuda/compat")
NCCL = "libnccl.so.2"
COUNT_DEVICES = """
import ctypes, sys
try:
    cuda = ctypes.CDLL(sys.argv[1])
except OSError as error:
    sys.exit(f"no CUDA driver: {error}")
count = ctypes.c_int()
code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
if code or not count.value:
    sys.exit(f"no device: the driver's code {code}, {count.value} devices")
device, driver, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDriverGetVersion(ctypes.byref(driver))
cuda.cuDeviceGetName(name, len(name), device)
print(f"{count.value} x {name.value.decode()}, a driver for CUDA {driver.value // 1000}.{driver.value % 1000 // 10}")
"""


def probe(command, **environment):
    """(ended well, last line it printed)."""
    try:
        ended = subprocess.run([str(word) for word in command], env={**os.environ, **environment}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    lines = ended.stdout.strip().splitlines()
    return ended.returncode == 0, lines[-1] if lines else f"exit code {ended.returncode}"


def joined(*paths):
    return ":".join(str(path) for path in paths if path)


class Host:
    """Facts, each looked for once; a reason is "" where nothing is missing."""

    def __init__(self, here=HERE, python=sys.executable, device="cuda"):
        self.here, self.python, self.device = here, python, device
        self.packed = (here / "tree").is_dir()
        if self.packed:
            self.tree, self.built, self.programs = here / "tree", here / "tree/build/release", here / "bin"
            self.data = here / "tree/data"
        else:
            self.tree = here.parents[1]
            self.built = pathlib.Path(os.environ.get("RINGWOOD_BUILD", self.tree / "build/release"))
            self.programs, self.data = self.built / "bin", pathlib.Path("/usr/share/datasets/fashion-mnist")

    @functools.cached_property
    def driver(self):
        """The folder of libcuda.so.1, "" where the loader finds it by itself or there is none."""
        folders = os.environ.get("LD_LIBRARY_PATH", "").split(":") + list(DRIVERS)
        return next((folder for folder in folders if folder and os.path.exists(f"{folder}/libcuda.so.1")), "")

    @functools.cached_property
    def _devices(self):
        library = f"{self.driver}/libcuda.so.1" if self.driver else "libcuda.so.1"
        return probe([self.python, "-c", COUNT_DEVICES, library])

    @property
    def no_device(self):
        if self.device == "cpu":
            return "needs a device"
        found, said = self._devices
        return "" if found else said

    @property
    def device_name(self):
        return "no device" if self.no_device else self._devices[1]

    @functools.cached_property
    def _torch(self):
        code = "import numpy, torch; print(torch.__version__, torch.cuda.is_available())"
        return probe([self.python, "-c", code])

    @property
    def no_torch(self):
        found, said = self._torch
        return "" if found else f"{self.python} has no PyTorch: {said}"

    @property
    def no_torch_device(self):
        if self.no_torch or self.device == "cpu":
            return self.no_torch
        return "" if self._torch[1].endswith("True") else f"PyTorch {self._torch[1].split()[0]} sees no device"

    @functools.cached_property
    def nccl(self):
        """The folder of an NCCL: the kit's, PyTorch's; "" leaves it to the loader."""
        code = "import nvidia.nccl, sys; print(list(nvidia.nccl.__path__)[0] + '/lib')"
        found, folder = probe([self.python, "-c", code])
        folders = [str(self.here / "nccl"), folder if found else ""]
        return next((each for each in folders if each and os.path.exists(f"{each}/{NCCL}")), "")

    def tool(self, name):
        """A program of CUDA's toolkit or its profilers, "" where there is none."""
        places = ["/usr/local/cuda/bin", f"{os.environ.get('CUDA_HOME', '')}/bin", "/opt/nvidia/nsight-compute/*",
                  "/usr/local/cuda*/compute-sanitizer", "/usr/local/cuda*/bin"]
        found = [path for place in places for path in sorted(glob.glob(f"{place}/{name}"))]
        return shutil.which(name) or next(iter(found), "")

    # ---- starting what the kit brings --------------------------------------------------------------

    @functools.cached_property
    def no_data(self):
        return "" if (self.data / "train-images-idx3-ubyte.gz").exists() else f"no data in {self.data}"

    @functools.cached_property
    def libraries(self):
        """A folder with the packed libraries that the host lacks: Python and PyTorch keep loading what they do."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="missing", dir=self.here))  # kits may run beside each other
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        # Not in every user's PATH; without it all packed libraries are used.
        ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        known = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout if ldconfig else ""
        runtime = list(self.here.glob("base/libstdc++*")) + list(self.here.glob("base/libgcc_s*"))
        for library in [*(self.here / "lib").iterdir(), *runtime]:
            if f"{library.name} " not in known:
                (folder / library.name).symlink_to(library)
        return folder

    @functools.cached_property
    def native(self):
        """LD_LIBRARY_PATH with which the host starts packed programs and loads the library, None if it cannot.

        The host's own libraries where it has them; all of the packed ones where those are others by the same name."""
        if not self.packed:
            return joined(self.nccl, self.driver, os.environ.get("LD_LIBRARY_PATH"))
        rest = (self.nccl, self.driver, os.environ.get("LD_LIBRARY_PATH"))
        for folders in ((self.libraries,), (self.here / "lib", self.libraries)):
            path = joined(*folders, *rest)
            load = f"import ctypes; ctypes.CDLL({str(self.built / 'lib/libringwood.so')!r})"
            tried = [probe([self.built / "bin/ringwood", "--version"], LD_LIBRARY_PATH=path, LD_BIND_NOW="1"),
                     probe([self.python, "-c", load], LD_LIBRARY_PATH=path, LD_BIND_NOW="1")]
            if all(found for found, _ in tried):
                return path
            self.refused = next(said for found, said in tried if not found)
        return None

    @functools.cached_property
    def no_package(self):
        """Why the Python package cannot run here."""
        return "" if self.native is not None else f"this host cannot load the library: {self.refused}"

    def program(self, name, *arguments):
        """(command, environment) of one of the kit's programs."""
        program = self.programs / name
        if self.native is not None:
            return [program, *arguments], self.environment()
        loader = next((self.here / "base").glob("ld-linux-*"))
        path = joined(self.here / "lib", self.here / "base", self.nccl, self.driver)
        return [loader, "--library-path", path, program, *arguments], self.environment()

    def environment(self):
        found = {"RINGWOOD_BUILD": self.built, "RINGWOOD_LIBRARY": self.built / "lib/libringwood.so",
                 "PYTHONPATH": joined(self.tree / "python", self.here / "site", os.environ.get("PYTHONPATH")),
                 "FASHION_MNIST": self.data, "PYTHONDONTWRITEBYTECODE": "1"}
        if self.native:
            found["LD_LIBRARY_PATH"] = self.native
        if self.device == "cpu":
            found["CUDA_VISIBLE_DEVICES"] = ""
        return {name: str(value) for name, value in found.items()}
