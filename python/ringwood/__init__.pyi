from .errors import (AbortedError as AbortedError, CorruptError as CorruptError, DeadlineError as DeadlineError,
                     DeniedError as DeniedError, ExhaustedError as ExhaustedError, ExistsError as ExistsError,
                     ForkedError as ForkedError, InternalError as InternalError, InvalidError as InvalidError,
                     JobEndedError as JobEndedError, NotFoundError as NotFoundError, RefusedError as RefusedError,
                     RingwoodError as RingwoodError, UnavailableError as UnavailableError)
from .sampler import Sampler as Sampler
from .session import Session as Session, StepResult as StepResult
from .weights import pull as pull

__version__: str
__all__: list[str]
