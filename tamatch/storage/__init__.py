"""What lies in files: written whole or not at all, read without trust."""
