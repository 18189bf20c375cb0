"""Engines: what holds the served weights and turns prompts into answers. No engine is imported from here."""
