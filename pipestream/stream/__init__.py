"""Streams: topics drained continuously while their leases are held, with the transactions and ledger of the runs."""
