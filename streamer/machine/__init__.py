"""What the machine gives to the others, and gets back: processes, a folder for temporary files, memory."""
