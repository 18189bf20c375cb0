"""Generated protocol modules; `make proto` writes them from proto/dartes/v1."""
