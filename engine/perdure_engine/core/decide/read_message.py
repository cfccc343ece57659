"""What a message says, asked when it is about to be sent. Nothing changes."""

from __future__ import annotations

from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import ReadMessage
from perdure_engine.core.messages import Message, message_of


def decide(draft: Draft, intent: ReadMessage) -> Message | None:
    return message_of(draft.state, intent.key, intent.task_id)
