"""The vLLM engine: continuous batching, with the weights written inside vLLM's own processes."""
