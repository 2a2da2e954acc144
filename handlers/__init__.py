"""What follows from events. Pure, so that any moment can be computed again: no clock, no randomness, no I/O."""
