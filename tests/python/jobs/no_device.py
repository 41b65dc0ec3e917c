"""A device that is not there is a typed error, which says what is missing."""

import numpy as np
from refusals import refused

import ringwood

with ringwood.Session() as session:
    missing = session.device_support()
    assert missing, "there is a device"
    memory = np.zeros(10, np.float32)
    session.register("w", (memory.ctypes.data, 10), route="dense", device=0)
    refused(ringwood.RefusedError, [], session.agree)
    print(f"missing: {missing}", flush=True)
session.close()
