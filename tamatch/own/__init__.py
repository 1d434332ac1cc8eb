"""Code of the user's own: importing it, naming the line that fails, and trying it out."""
