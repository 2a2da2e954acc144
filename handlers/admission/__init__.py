"""Admission, shared by all systems: what is asked, what is answered, and what of a Pod a decision may see.

decision   Question and Decision         view    a Pod with everything secret replaced by tokens
patches    templates and their filling   launch  commands and arguments as the engine will read them
cache      the world of a webhook        flags   how an engine spells its flags
"""
