"""Everything that talks to Kafka in general: clients, errors, and what is read and written, as values."""
