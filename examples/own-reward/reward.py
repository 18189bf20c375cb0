"""How near an answer is to the sum of two numbers: the reward function of job.yaml. See docs/own-task.md."""


def reward(prompts, completions, a, b, **kwargs):
    """One score per answer: 1 for the sum, less the further off, 0 for no number."""
    scores = []
    for completion, first, second in zip(completions, a, b):
        try:
            distance = abs(int(completion) - (first + second))
        except ValueError:
            scores.append(0.0)
            continue
        scores.append(1.0 if distance == 0 else 0.3 / distance)
    return scores
