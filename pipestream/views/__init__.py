"""Read models: the rows that the command line, the demo and the UI show, with the keys of ``--json``."""
