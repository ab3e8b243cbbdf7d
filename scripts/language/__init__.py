"""What building the language model takes: text as it is spoken, counts, Kneser-Ney, mixture, pruning."""
