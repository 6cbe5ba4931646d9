"""What makes the shipped models and suites: synthesis, training, builders. A run needs none of it."""
