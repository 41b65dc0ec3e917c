"""Calls that wait without a session, such as for a pull or at torch's store: another thread makes them, so that Ctrl-C and
the handlers of other signals are heard meanwhile. A call that nobody waits for any more ends by its own deadline, and
what it returns is let go."""

import threading
from concurrent.futures import Future


def aside(call, *arguments):
    """call(*arguments), of the main thread on one of its own. Python runs handlers of signals on the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        return call(*arguments)
    outcome = Future()
    threading.Thread(target=_settle, args=(outcome, call, arguments), name="ringwood-aside", daemon=True).start()
    return outcome.result()


def _settle(outcome, call, arguments):
    try:
        outcome.set_result(call(*arguments))
    except BaseException as error:
        outcome.set_exception(error)
    finally:
        outcome = arguments = None  # the error has this frame
