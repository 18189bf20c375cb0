"""The coordinator: leases, the iteration loop and the truth on disk."""
