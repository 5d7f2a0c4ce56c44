"""What the product tells about itself while it works: metrics, health, traces, logs."""
