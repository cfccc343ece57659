"""Version 1 of the public API. Import the generated modules by name."""
