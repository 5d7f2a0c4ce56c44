"""Servers that outlive the process that started them: somebody owns each, or it ends."""
