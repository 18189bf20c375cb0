"""Grading of untrusted answers in separate processes that may hang or die without harm.

Knows tasks and processes; nothing of models, batches or fitness.
"""
