"""Sample documents for the demonstration and the tests."""
