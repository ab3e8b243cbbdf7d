"""What new weights need before they go out: everything that belongs to them fitted, measured and told again."""
