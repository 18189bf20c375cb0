"""Runs untrusted Python programs in single-use processes that can reach nothing and outlive nothing.

Knows processes and the kernel's means of confinement; nothing of tasks, answers or grades.
"""
