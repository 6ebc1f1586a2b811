"""The decisions: pure functions and machines. No I/O, no clock, no chance but what they are handed."""
