"""Builders of the objects that a job owns: pure functions from specs to manifests."""
