"""Tasks: what a problem asks, and how an answer is graded. One file per task, found through the registry.

A task knows nothing of weights, workers or the difficulty state. Graders read untrusted text, so everything
here is bounded in time and memory, and nothing is ever executed.
"""
