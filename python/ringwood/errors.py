"""Every failure of the library as an exception whose class says what kind it is.

The sentence comes from the library and names who, what and the remedy. `exit_code` is what a program
should end with: 78 = the configuration is wrong, a restart will not help; 75 = restart from the newest
checkpoint; 0 = nothing is left to do; 1 = anything else.
"""

import os
import traceback


class RingwoodError(Exception):
    """Base of all; `code` is the RINGWOOD_* number of ringwood.h."""
    code = 11
    exit_code = 1


class InvalidError(RingwoodError, ValueError):
    """The caller's input is wrong: shapes, names, options, environment."""
    code, exit_code = 1, 78


class NotFoundError(RingwoodError, LookupError):
    """No such tensor, item or checkpoint."""
    code, exit_code = 2, 78


class ExistsError(RingwoodError):
    """Registered twice."""
    code, exit_code = 3, 78


class RefusedError(RingwoodError):
    """The right call in the wrong state: a step without backward, another protocol version."""
    code, exit_code = 4, 78


class ExhaustedError(RingwoodError):
    """Limit exceeded, or a disk is full: then a restart helps once there is space again."""
    code = 5

    @property
    def exit_code(self):
        return 75 if "no space" in str(self).lower() or "free space" in str(self) else 78


class UnavailableError(RingwoodError):
    """A peer or the coordinator died: restart from the newest checkpoint."""
    code, exit_code = 6, 75


class DeadlineError(RingwoodError, TimeoutError):
    """No answer within the deadline."""
    code, exit_code = 7, 75


class AbortedError(RingwoodError):
    """The epoch ended under the call."""
    code, exit_code = 8, 75


class CorruptError(RingwoodError):
    """A checksum or a digest does not agree."""
    code, exit_code = 9, 1


class DeniedError(RingwoodError, PermissionError):
    """The job's token or the network is not trusted."""
    code, exit_code = 10, 78


class InternalError(RingwoodError):
    """A fault of Ringwood."""
    code, exit_code = 11, 1


class ForkedError(RingwoodError):
    """A forked child used the session of its parent."""
    code, exit_code = 12, 1


class JobEndedError(RingwoodError):
    """The elastic job ended in order while this rank was away from it: nothing is left to do."""
    code, exit_code = 13, 0


BY_CODE = {kind.code: kind for kind in (
    InvalidError, NotFoundError, ExistsError, RefusedError, ExhaustedError, UnavailableError,
    DeadlineError, AbortedError, CorruptError, DeniedError, InternalError, ForkedError,
    JobEndedError)}


def error_of(code, sentence):
    """The exception for a status code of the library."""
    kind = BY_CODE.get(code, InternalError)
    return kind(sentence or f"the library reported code {code} without a message")


def sentence_of(error):
    """One line for the other ranks: the exception, and where it was raised, or called this package."""
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.dirname(__file__) + os.sep
    while len(frames) > 1 and frames[-1].filename.startswith(own):
        frames.pop()
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if str(error) else ''}{error}{place}"
