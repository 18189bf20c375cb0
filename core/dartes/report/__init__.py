"""What people read about a run: metrics per iteration, the summary, curves. Nothing here decides anything."""
