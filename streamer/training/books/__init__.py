"""Text for the language model from books whose copyright has ended."""
