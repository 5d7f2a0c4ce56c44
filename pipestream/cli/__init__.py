"""The command line: thin commands over the packages that do the work."""
