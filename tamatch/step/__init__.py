"""One training step: its images, its update, its record, and how it is captured."""
