"""What senders were told, and what took effect: the two that a receiver's promise compares."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Effects:
    """Both, of one run."""

    answered: set[str] = field(default_factory=set)
    """Ids of events that a sender need not send again."""
    duplicates: int = 0
    effects: Counter[str] = field(default_factory=Counter)

    @property
    def lost(self) -> set[str]:
        return self.answered - self.effects.keys()

    @property
    def twice(self) -> list[str]:
        return [event_id for event_id, times in self.effects.items() if times > 1]
