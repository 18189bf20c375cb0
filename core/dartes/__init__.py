"""DART-ES: fine-tuning of language models by evolution strategies with a difficulty state per problem."""

__version__ = "0.1.0"
