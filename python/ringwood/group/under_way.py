"""The calls of a process group that are under way: what they exchange stays in place although nobody waits for them."""

import threading
from collections import deque


class UnderWay:
    """Calls of one communicator end in their order; those of another one, such as a message that nobody has sent yet, do
    not hold them up. Any thread."""

    def __init__(self):
        self._works = {}  # communicator -> works
        self._lock = threading.Lock()

    def add(self, communicator, work):
        with self._lock:
            for each in list(self._works):
                works = self._works[each]
                while works and works[0].is_completed():
                    works.popleft()
                if not works:
                    del self._works[each]
            self._works.setdefault(communicator, deque()).append(work)
