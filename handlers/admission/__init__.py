"""Admission, shared by all systems: what is asked, what is answered, and what of a Pod a decision may see.

review     AdmissionReviews, bytes in and out      decision   Question and Decision
view       a Pod with everything secret as tokens  glance     the same from bytes, for Pods like the last one
cache      decisions that were made before         patches    from before and after to a JSON Patch
podedit    small edits of a Pod                    launch     commands and arguments as the engine will read them
flags      how an engine spells its flags          again      a recorded decision, decided again
"""
