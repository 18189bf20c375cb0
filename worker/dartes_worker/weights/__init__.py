"""A worker's trained weights: the float32 master beside the tensors that an engine reads."""
