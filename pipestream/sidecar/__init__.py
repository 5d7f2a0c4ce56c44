"""The sidecar: a process that is always on, and drains topics without Spark."""
