"""What Streamer needs on this machine: what is there, and how to mend what is not. Nothing is changed."""
