"""rw.save and rw.resume: a Checkpoint in one call each, for loops that keep a cursor of their own."""

from .checkpoint import Checkpoint


def save(model, optimizer, cursor, every=1):
    """After step(), on all ranks: when a multiple of `every` committed steps is reached, copies the state and
    lets it travel to the store in the background. With every="auto" the session says when, by what checkpoints cost
    and how often ranks fail (docs/reliability.md). `optimizer`: or a list of them, of which the first one's
    steps count. `cursor`: any dict of numbers and texts, the same on all ranks. Returns whether this step is
    on its way. A checkpoint that fails does not end the training: it is told on standard error, and
    `session.checkpoint_wait()` raises why."""
    checkpoint = Checkpoint(model, optimizer, every=every)
    checkpoint.end_if_asked(lambda: checkpoint.save_with(cursor))
    return checkpoint.save_if_due(lambda: checkpoint.save_with(cursor))


def resume(model, optimizer, before_step=None, after_step=None):
    """If the session started from a checkpoint: restores everything and returns the cursor, else
    None. Call it after making the DistributedOptimizer, or all of the list.

    With an update log the steps after the checkpoint are done again (DistributedOptimizer.replay says what
    `before_step` and `after_step` are), so that no committed step is lost: session.step is where the training goes
    on, the cursor is that of the checkpoint. Random generators, and buffers that are no parameters, are the
    checkpoint's, too.

    From an imported checkpoint (`ringwood checkpoint import`) the model gets its weights, all of them; the optimizer
    and the random generators stay as they are, and None is returned: the data begins anew."""
    return Checkpoint(model, optimizer).restore_cursor(before_step, after_step)
