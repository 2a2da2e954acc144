"""The world: a fold over the control log that every handler reads.

state      what it is made of            fold       how an event changes it
reader     how handlers read it: the read-set is recorded
keyframe   the world as bytes, and back  kinds      which Struct and shape each kind has
marks      where keyframes are taken     pruning    what the world forgets
difference what differs between two moments
"""
