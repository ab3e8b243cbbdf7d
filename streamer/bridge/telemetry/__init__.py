"""What the service tells of itself: metrics, traces and logs."""
