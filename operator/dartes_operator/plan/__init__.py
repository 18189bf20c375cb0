"""What the operator decides: pure functions of a job, what is observed, and the time."""
