"""The machine on which a process runs: other processes, the folder for temporary files, freed memory."""
