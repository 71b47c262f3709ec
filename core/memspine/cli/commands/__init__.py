"""The built-in commands, a module each; `memspine.cli.table` lists them."""
