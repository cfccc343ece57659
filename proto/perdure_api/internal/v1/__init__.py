"""Version 1 of it. Import the generated modules by name."""
