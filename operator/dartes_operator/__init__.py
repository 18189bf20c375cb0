"""The operator: turns DartESJob objects into pods and reports back."""
