"""Training on one's own between exchanges: the schedule, fragments of a model, their differences, outer optimizers,
LocalSteps."""
