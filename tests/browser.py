"""Headless Chromium as tests drive it: one page, over the pipe of the DevTools protocol."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time

SECONDS = 120  # on a loaded machine; every wait is for an answer


def installed():
    return shutil.which("chromium") is not None


class Browser:
    """`folder` is for its profile. Ends with the block."""

    def __init__(self, folder, width=1180, height=1300, dark=False):
        self._end, theirs = os.pipe()
        ours, self._begin = os.pipe()
        low, high = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (ours, theirs))
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={folder}/browser", f"--window-size={width},{height}"]
        # Chromium reads commands at 3 and answers at 4.
        self._process = subprocess.Popen(["bash", "-c", f'exec 3<&{low} 4>&{high} "$@"', "browser", *command],
                                         pass_fds=(low, high), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                         start_new_session=True)
        for end in (ours, theirs, low, high):
            os.close(end)
        self._read, self._number, self._session = b"", 0, None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")
        if dark:
            self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._begin)
        os.close(self._end)

    def _line(self, deadline):
        while b"\0" not in self._read:
            assert select.select([self._end], [], [], max(0, deadline - time.monotonic()))[0], "the browser does not answer"
            more = os.read(self._end, 1 << 16)
            assert more, "the browser has ended"
            self._read += more
        line, self._read = self._read.split(b"\0", 1)
        return json.loads(line)

    def _call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._begin, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while (answer := self._line(deadline)).get("id") != self._number:
            pass  # an event
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, address):
        self._call("Page.navigate", url=address)

    def evaluate(self, expression):
        """Its value on the page; None where it throws, as before the page is there."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        return None if "exceptionDetails" in answer else answer["result"].get("value")

    def wait(self, expression):
        """Until it is true on the page; its value."""
        deadline = time.monotonic() + SECONDS
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, f"{expression}\n{self.evaluate('document.body.innerText')}"
            time.sleep(0.02)
        return value

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))
