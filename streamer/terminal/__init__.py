"""What people see of a command and what it writes: lines that change in place, and transcripts."""
