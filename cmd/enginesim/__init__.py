"""A simulated inference engine on the real ZMQ wire of vLLM and SGLang: no model, but a real prefix cache.

Its own program, for demos, tests and laptops. It knows nothing of what reads its events and imports none of it.
"""
