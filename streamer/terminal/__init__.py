"""The output of commands on a terminal and in files: lines that change in place, and transcripts."""
