"""Which gradients on their way from a device the session hears of, and when."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
device = pytest.importorskip("ringwood.device")


class Session:
    def __init__(self):
        self.heard = []

    def ready(self, identity):
        self.heard.append(identity)


class Slot:
    def __init__(self):
        self.here = False

    def arrived(self):
        return self.here

    def wait(self):
        self.here = True


def test_gradients_are_announced_in_order_when_they_have_arrived():
    session, slots = Session(), [Slot() for _ in range(4)]
    arrivals = device.Arrivals(session)
    arrivals.add(0, slots[0])
    slots[1].here = True
    arrivals.add(1, slots[1])
    assert session.heard == []  # 1 stands behind 0
    slots[0].here = True
    arrivals.add(2, slots[2])
    assert session.heard == [0, 1]
    arrivals.add(3, slots[3])
    arrivals.wait()
    assert session.heard == [0, 1, 2, 3]
    arrivals.wait()
    assert session.heard == [0, 1, 2, 3]
