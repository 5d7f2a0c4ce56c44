"""A Python function in a process of its own, behind a Unix socket: served, and owned by the process that needs it."""
