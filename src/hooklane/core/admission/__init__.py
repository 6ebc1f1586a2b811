"""What becomes of an inbound message? Pure decisions: same or new, fresh or stale, its turn or not, again or never."""
