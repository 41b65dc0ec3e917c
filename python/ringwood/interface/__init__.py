"""What a session gives to the C interface and reads from it: gradients, items of checkpoints, results."""
