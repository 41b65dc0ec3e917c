"""What is called before the forward pass of a model, and when a backward pass ends."""
