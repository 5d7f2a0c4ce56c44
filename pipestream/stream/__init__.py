"""Streams: topics that are drained all the time, by workers that share them."""
