"""How a process comes to its job, and who serves that."""
