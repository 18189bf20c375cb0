"""The population worker: weights, an engine and the loop that answers leases."""
