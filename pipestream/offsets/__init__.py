"""Which offsets a run drains."""
