"""Text in any script: where its words begin, and what stands between two of them."""
