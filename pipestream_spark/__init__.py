"""Thin entry points that spread the product's work over Spark."""
