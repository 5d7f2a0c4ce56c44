"""The demo: sample documents through the sample graph on real servers, run by Airflow."""
