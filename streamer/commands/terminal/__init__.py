"""What commands show on a terminal and write to files: lines that change in place, and transcripts."""
