"""What is there of all that Streamer needs on this machine, and how to mend what is not. Nothing is changed."""
