"""What a job needs and takes before it is run: memory, time, GPU hours. Pure; knows no torch, no engine."""
