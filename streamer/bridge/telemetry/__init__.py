"""What the service reports about itself: metrics, traces and logs."""
