"""What the receiver does inside transactions, as generators of steps: a driver (`receiver/drivers.py`) does the I/O."""
