"""Drains topics in bounded offset ranges, exactly once from topic to topic."""
