"""Requests to intents, replies to answers. What is wrong by its form is refused here, by its value in the frontend."""
