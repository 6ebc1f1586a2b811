"""The receiver's flows: receive (T1), handle (T2 and T3), inline (both in one), keep (prune, replay). No I/O here."""
