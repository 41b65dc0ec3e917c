"""Results of a session's calls, as values: read once from the structs of the C interface."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StepResult:
    """The result of a step."""
    step: int                    # committed steps, this one included
    skipped: bool                # some rank had a NaN or Inf: nothing was applied anywhere
    total_weight: float          # the sum over ranks
    dense_bytes: int             # sent by this rank in this step
    sparse_bytes: int
    dense_equivalent_bytes: int  # what dense rings would have sent for all tensors
    members: tuple = ()          # the ranks of the epoch that committed it
    contributors: tuple = ()     # those of them whose weight was above 0
    exchanged_again: int = 0     # elastic: times that the members changed under the step
    received: bool = False       # elastic: the state before the step came from other ranks
    checkpoint_due: bool = False  # on all ranks: by the measured cost of checkpoints it is time for one
    ending: bool = False         # on all ranks: some process was asked to end, see ask_to_end


@dataclass(frozen=True)
class CheckpointProgress:
    """Of the checkpoint that is under way, or of the last one."""
    step: int        # 0: there was none
    under_way: bool  # the next one waits for it
    bytes: int       # of this rank's part
    sent: int        # of them, to the store
    arena: int       # bytes of memory that this rank's copy takes, and keeps for the next one
    seconds: float   # the last complete one took, from the end of the copy to all ranks' parts
    completed: int   # of this session
    failed: int


def step_result_of(numbers):
    """`numbers`: a library.StepNumbers, whose lists of ranks are the session's and are copied."""
    return StepResult(numbers.step, bool(numbers.skipped), numbers.total_weight,
                      numbers.dense_bytes, numbers.sparse_bytes, numbers.dense_equivalent_bytes,
                      tuple(numbers.members[:numbers.member_count]),
                      tuple(numbers.contributors[:numbers.contributor_count]),
                      numbers.exchanged_again, bool(numbers.received), bool(numbers.checkpoint_due),
                      bool(numbers.ending))


def checkpoint_progress_of(numbers):
    """`numbers`: a library.CheckpointNumbers."""
    return CheckpointProgress(numbers.step, bool(numbers.under_way), numbers.bytes, numbers.sent, numbers.arena,
                              numbers.seconds, numbers.completed, numbers.failed)
