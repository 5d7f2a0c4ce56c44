"""Compare two versions of a graph on documents that were drained before, without changing anything."""
