"""What every room may use: text, limits, the machine, addresses, transcripts. It imports no other room."""
