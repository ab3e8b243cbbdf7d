"""From the words of a search to results: times, confidence, written form."""
