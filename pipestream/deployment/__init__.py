"""Deploy a graph: what changes with it on the broker and in the leases, and which versions were applied."""
