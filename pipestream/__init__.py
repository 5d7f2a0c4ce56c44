"""Moves documents through a processing graph in batches and backfills that lose nothing."""

__version__ = "0.1.0"
