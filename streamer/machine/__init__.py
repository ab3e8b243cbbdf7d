"""What a process needs to know of its machine: other processes, the folder for temporary files, freed memory."""
