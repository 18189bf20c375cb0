"""The command `dartes`: one module per subcommand, each a thin edge over the other packages."""
